"""Every operation of a processor in every form, from hard values: what agrees, and what was reached."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.target import target
from tests.agree.gcn import fuzz, values
from tests.agree.gcn.bench import Outcome, Start, Translated, differences, on_reference, widths
from tests.agree.gcn.insns import JUMPS, SKIPPED, every
from tests.agree.gcn.programs import Builder, Program, listing, start

TOGETHER = 24
"""Instructions of one program."""
WHOLE: Final = "gfx906"
"""The processor that is gone through in all forms."""
EARLIER: Final = {"gfx908": "gfx906", "gfx90a": "gfx908", "gfx942": "gfx90a", "gfx950": "gfx942"}
"""The processors with matrix instructions, and the one before each."""
NAMES: Final = (*fuzz.TARGETS, *EARLIER)
"""The processors that together have all operations."""
SAME: Final = 5
OTHER: Final = 2
RARE: Final = 25
"""Of forms that others share with it, every so many: of its own level, or not; or with the processor before it."""


def beyond(op: Op) -> bool:
    """Whether an operation is of the graphics pipeline or of what only drivers use: it raises `BeyondModel` at once."""
    return op.family in ("exp", "vintrp") or op.name.startswith(("v_interp", "ds_gws", "s_rfe"))


def alone(op: Op) -> bool:
    """Whether an operation ends a program, or may well fault whatever its operands are."""
    return (
        op.name in SKIPPED | JUMPS
        or beyond(op)
        or op.family in ("mimg", "mtbuf")
        or "format" in op.name
        or op.name.startswith(
            ("s_trap", "s_cbranch", "ds_ordered", "v_clrexcp", "v_qsad", "s_setvskip", "s_set_gpr", "s_atc")
        )
    )


def programs(
    name: str, seed: int, forms: Sequence[tuple[Op, str]] | None = None, both: bool = True
) -> Iterator[tuple[Program, list[Start]]]:
    """Programs that have each form of each operation once, from a tame state and a wild one, or one of them."""
    chosen = list(every(target(name)) if forms is None else forms)
    rng = np.random.default_rng([seed, target(name).level])
    rng.shuffle(chosen)
    single = [pair for pair in chosen if alone(pair[0])]
    others = [pair for pair in chosen if not alone(pair[0])]
    for n in range(0, len(others), TOGETHER):
        yield _program(rng, name, others[n : n + TOGETHER], both)
    for n in range(0, len(single), 1):
        yield _program(rng, name, single[n : n + 1], both)


def _program(
    rng: np.random.Generator, name: str, pairs: Sequence[tuple[Op, str]], both: bool
) -> tuple[Program, list[Start]]:
    builder = Builder(rng, target(name))
    builder.maker.hard, builder.maker.wild = True, 0.0
    builder.prologue()
    for op, form in pairs:
        builder.one(op, form)
        if rng.random() < 0.15:
            mask = values.mask(rng)
            builder.text(f"s_mov_b32 exec_lo, {mask & 0xFFFF_FFFF:#x}", f"s_mov_b32 exec_hi, {mask >> 32:#x}")
    states: list[Start] = []
    for is_tame in (True,) if len(pairs) == 1 else (True, False) if both else (bool(rng.integers(2)),):
        mode = states[0].mode if states else None
        states.append(start(rng, mode=mode, bad=0.0, tame=is_tame))
    return Program(builder.target, tuple(builder.items)), states


@dataclass
class Case:
    """A program, a state, what the reference engine makes of it, and which operations retired at which address."""

    program: Program
    start: Start
    expected: Outcome
    retired: dict[int, Op]


def cases(name: str, seed: int, forms: Sequence[tuple[Op, str]] | None = None, both: bool = True) -> Iterator[Case]:
    """The programs run on the reference engine; where one faults, once more without the instruction that did."""
    for program, states in programs(name, seed, forms, both):
        for state in states:
            while True:
                retired: dict[int, Op] = {}
                code = program.code()
                expected = on_reference(
                    name, code, state, seen=lambda wave, insn, to=retired: to.setdefault(insn.pc, insn.op)
                )
                yield Case(program, state, expected, retired)
                at = re.search(r"at pc (0x[0-9a-f]+)", expected.error)
                if at is None or len(program.present) < 6:
                    break
                less = program.without([program.index_at(int(at[1], 16))])
                if less.present == program.present:
                    break
                program = less


# ---- what was reached ------------------------------------------------------------------------------------------------
@dataclass
class Results:
    """Of a sweep on one processor: disagreements, and the operations that retired on both engines.

    `translated` are those that translated code executed.
    """

    wrong: list[str]
    reached: set[Op]
    translated: set[Op]


@cache
def results(name: str, all_forms: bool) -> Results:
    """All operations, then again those that some fault kept from being reached: in all forms that gfx906 has.

    Of forms that others share with it each fifth or second, but with `all_forms` all, and from two states each.
    """
    found = Results([], set(), set())
    engines = [Translated(lanes, Tier.THREADED) for lanes in widths()] + [Translated(widths()[-1], Tier.OPTIMISED)]
    forms: list[tuple[Op, str]] = [pair for pair in every(target(name)) if pair[0].on(target(name))]
    if name in EARLIER and not all_forms:
        others = [pair for pair in forms if pair[0].on(target(EARLIER[name]))]
        forms = [pair for pair in forms if not pair[0].on(target(EARLIER[name]))] + others[::RARE]
    elif name != WHOLE and not all_forms:
        others = [pair for pair in forms if pair[0].on(target(WHOLE))]
        each = SAME if target(name).level == target(WHOLE).level else OTHER
        forms = [pair for pair in forms if not pair[0].on(target(WHOLE))] + others[::each]
    for seed in range(5):
        for number, case in enumerate(cases(name, seed, forms, all_forms)):
            engine, code = engines[(number + seed) % len(engines)], case.program.code()
            lines = differences(case.expected, engine(name, code, case.start))
            if lines:
                shown = [f"{name}, {engine}, MODE {case.start.mode:#x}", listing(case.program.target, code), *lines]
                found.wrong.append("\n".join(shown))
            found.reached |= set(case.retired.values())
            found.translated |= {op for pc, op in case.retired.items() if pc not in engine.stepped}
        done = found.reached & (found.translated | {op for op, _ in forms if reference_only(op)})
        forms = [pair for pair in forms if pair[0] not in done and not unreached(pair[0])]
        if not forms:
            break
    return found


UNREACHED: Final = {
    r"exp|v_interp.*": "graphics: not modelled",
    r"ds_gws_.*|s_rfe.*": "drivers and trap handlers: not modelled",
    r"image_.*": "image operations have their own tests",
    r"[sv]_mov_fed_b32|s_(get|mov)_?reg_?(rd_b32|regrd_b32)|s_mov_regrd_b32": "the manuals do not say what they do",
}
"""Operations that the sweep does not bring to their end, by pattern of the name, and why."""
REFERENCE_ONLY: Final = {
    r"s_(sendmsg|sendmsghalt|sethalt|setkill|icache_inv|trap)": "what a device may listen to",
    r"s_cbranch_(g|i)_fork|s_cbranch_join": "the fork stack",
    r"scratch_load_lds_.*": "an access to private memory and one to LDS, which may meet",
}  # fmt: skip
"""Operations that translated code hands over to the reference engine, and why."""


def _reason(table: Mapping[str, str], op: Op) -> str:
    names = set(op.names.values())
    return next((why for pattern, why in table.items() if any(re.fullmatch(pattern, name) for name in names)), "")


def unreached(op: Op) -> str:
    """Why the sweep does not reach an operation, "" where it must."""
    return op.accuracy.source if op.accuracy.kind == "absent" else _reason(UNREACHED, op)


def reference_only(op: Op) -> str:
    """Why translated code does not execute an operation, "" where it must."""
    return _reason(REFERENCE_ONLY, op) or ("computed by the reference engine only" if op.concrete else "")
