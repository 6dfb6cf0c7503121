"""Which loops poll: they do nothing but look at memory again and again, until another hart has changed it.

The rule is about the code alone, so that every engine hands a polling hart back at the same instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.isa.riscv.insn import Insn

LONGEST: Final = 32
"""Instructions of a polling loop at most."""
_LOADS: Final = {"lb", "lbu", "lh", "lhu", "lw", "lwu", "ld"}
_STORES: Final = {"sb", "sh", "sw", "sd"}
_COUNTS: Final = ("amoadd.", "amoxor.")
_PLAIN: Final = {"I", "M", "A", "Zbc"}


def is_poll(pc: int, insn: Insn, fetch: Callable[[int], Insn | None]) -> bool:
    """Whether `insn`, at `pc`, goes back for another round of polling.

    That is a branch or jump back over at most `LONGEST` instructions, all of them integer instructions. Some load or
    are atomics; none is a store, a call, a computed jump or an atomic that counts; and no register brings anything
    from one round to the next. So each round begins as the one before did, but for what is in memory. `fetch` gives
    the instruction at a pc.
    """
    if insn.spec.flow not in ("branch", "jump") or insn.rd or not -4 * LONGEST <= insn.imm <= 0:
        return False
    head, at = pc + insn.imm, pc + insn.imm
    looks = False
    written: set[int] = set()
    certain: set[int] = set()
    early: set[int] = set()
    joins: dict[int, set[int]] = {}
    for _ in range(LONGEST):
        step = insn if at == pc else fetch(at)
        if step is None or at > pc or step.spec.extension not in _PLAIN or step.name in _STORES:
            return False
        if step.rs2 and step.name.startswith(_COUNTS):
            return False
        certain &= joins.pop(at, certain)
        early |= {step.rs1, step.rs2} - certain
        if at == pc:
            return looks and not (written & early) - {0}
        looks |= step.name in _LOADS or (step.spec.extension == "A" and not step.name.startswith("sc."))
        if step.spec.flow == "branch":
            target = at + step.imm
            if at < target <= pc:
                joins[target] = joins.get(target, certain) & certain
            elif target < head:
                return False
        elif step.spec.flow != "next":
            return False
        written.add(step.rd)
        certain.add(step.rd)
        at += step.length
    return False
