"""Which instructions of a kernel access private memory: nobody else sees that, whatever GLC says.

Compilers reach it by ``scratch_*`` (GFX9), or by buffer instructions with the private segment buffer that a kernel
starts with. Where that is kept is followed through copies, and additions to its base, on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from understudy.engine.gcn.jit.effects import Effects
from understudy.isa.gcn.insn import Insn

Code = Mapping[int, tuple[Insn, Effects]]
Tags = dict[int, int]
"""By scalar register: which word of the private segment buffer it holds."""
WORDS: Final = 4
BUFFERS: Final = ("MUBUF", "MTBUF")
COPIES: Final = {"s_mov_b32": 1, "s_mov_b64": 2}
"""Instructions that copy registers, and how many."""
BASE_ADDS: Final = {"s_add_u32": 0, "s_addc_u32": 1}
"""Instructions that move the base, and the word of the buffer that each adds to."""


def private(
    entry: int, code: Code, following: Callable[[Insn, Effects], list[int]], has_buffer: bool
) -> frozenset[int]:
    """The pcs of the instructions of `code` that access private memory.

    `following` gives the pcs behind an instruction. `has_buffer`: s[0:3] are the private segment buffer at `entry`.
    """
    before: dict[int, Tags] = {}
    work: list[tuple[int, Tags]] = [(entry, {n: n for n in range(WORDS)} if has_buffer else {})]
    while work:
        pc, tags = work.pop()
        if pc not in code:
            continue
        known = before.get(pc)
        merged = tags if known is None else dict(known.items() & tags.items())
        if merged == known:
            continue
        before[pc] = merged
        insn, effects = code[pc]
        after = _after(insn, effects, merged)
        work += [(each, after) for each in following(insn, effects)]
    return frozenset(pc for pc, tags in before.items() if _is_private(code[pc][0], tags))


def _is_private(insn: Insn, tags: Tags) -> bool:
    if insn.name.startswith("scratch_"):
        return True
    return insn.form in BUFFERS and all(tags.get(insn["srsrc"] + n) == n for n in range(WORDS))


def _after(insn: Insn, effects: Effects, tags: Tags) -> Tags:
    """What registers hold behind an instruction."""
    written = effects.s_writes | {n + half for n in effects.mask_writes for half in (0, 1)}
    left = {n: word for n, word in tags.items() if n not in written}
    count = COPIES.get(insn.name, 0)
    for n in range(count):
        if insn["ssrc0"] + n in tags:
            left[insn["sdst"] + n] = tags[insn["ssrc0"] + n]
    word = BASE_ADDS.get(insn.name)
    if word is not None and word in (tags.get(insn["ssrc0"]), tags.get(insn["ssrc1"])):
        left[insn["sdst"]] = word
    return left
