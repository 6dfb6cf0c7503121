"""Instructions that name vector registers which a kernel does not allocate, found in its code without running it.

Most instructions are only looked at as arrays of bit fields; those that may name a high register are decoded.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.encoding.bounds import Bounds, Numbers, Words, format_names, instruction_bounds
from softcard.isa.gcn.encoding.decode import ACC_NAMES, decode
from softcard.isa.gcn.encoding.formats import LONGEST, Format, format_of
from softcard.isa.gcn.encoding.operands import REGISTERS, VGPR0, vector_rows
from softcard.isa.gcn.encoding.shape import visible_slots
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.operations.table import find
from softcard.isa.gcn.state import register_name
from softcard.isa.gcn.target import TARGETS, Target

Mask = npt.NDArray[np.bool_]
FIRST: Final = 1 << 10
"""The number of words that are searched first; each later search covers 16 times as many."""
MOST: Final = 1 << 18
"""The maximum number of words that are searched."""
VECTOR_FIELDS: Final = frozenset({"vdst", "addr", "data", "data0", "data1", "vdata", "vaddr"})
"""The fields that number vector registers."""
SOURCE_FIELDS: Final = frozenset({"src0", "src1", "src2", "scale_a", "scale_b"})
"""The fields with operand codes."""
FILE_FIELDS: Final = ("acc", "acc0", "acc1", "acc_cd")
"""The bits that make operands accumulation registers."""
WIDEST: Final = 32
"""The maximum number of registers of an operand."""
CONTROL: Final = ("SOPP", "SOPK", "SOP1")
"""The encodings of instructions that change the program counter."""
LASTS: Final = frozenset({
    "s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done", "s_branch", "s_setpc_b64", "s_rfe_b64",
    "s_rfe_restore_b64",
})  # fmt: skip
"""The operations after which execution does not continue with the next instruction."""


class Beyond(NamedTuple):
    """An instruction that names a register which is not allocated, and the name of that register.

    `vgprs` and `accs` are the numbers of allocated vector and accumulation registers.
    """

    insn: Insn
    register: str
    vgprs: int
    accs: int

    @property
    def instruction(self) -> str:
        """The text of the instruction."""
        from softcard.isa.gcn.asm.printer import text  # only errors need it

        return text(self.insn)

    @property
    def message(self) -> str:
        """The error message, without the address of the instruction."""
        kinds, fields = [f"v0 to v{self.vgprs - 1}"], "next_free_vgpr, compute_pgm_rsrc1"
        if self.insn.target.has_unified_registers:
            kinds.append(f"a0 to a{self.accs - 1}" if self.accs else "no accumulation registers")
            fields = "accum_offset, compute_pgm_rsrc1"
        return (
            f"{self.instruction} uses {self.register}, but the kernel allocates {' and '.join(kinds)} ({fields}): "
            "allocate more registers, or use a lower one"
        )


class Search(NamedTuple):
    """The result of a search: the first instruction found, or None, and the number of words that were searched."""

    found: Beyond | None
    searched: int


def beyond_allocation(target: Target, words: Words, start: int, vgprs: int, accs: int) -> Search:
    """Return the first reachable instruction, in the order of addresses, that names a register that is not allocated.

    `words` begin at address `start`, where execution begins. `vgprs` and `accs` are the numbers of allocated vector and
    accumulation registers. Targets of computed jumps and calls are not searched.
    """
    if vgprs >= REGISTERS and accs >= REGISTERS:
        return Search(None, 0)
    count = FIRST
    while True:
        searched = words[: min(count, MOST)]
        bounds = instruction_bounds(target, searched)
        reached, is_whole = _reached(target, searched, bounds)
        if is_whole or count >= min(len(words), MOST):
            break
        count *= 16
    chosen = np.flatnonzero(reached & _may_name(target, searched, bounds, vgprs, accs))
    for at in bounds.starts[_first_of_each(searched, bounds, chosen)].tolist():
        try:
            insn = decode(target, searched[at : at + LONGEST // 4].tolist(), start + 4 * at)
        except SoftcardError:
            continue  # an illegal instruction is an error of its own where it is executed
        name = _first_beyond(insn, vgprs, accs)
        if name:
            return Search(Beyond(insn, name, vgprs, accs), len(searched))
    return Search(None, len(searched))


def _first_of_each(words: Words, bounds: Bounds, chosen: Numbers) -> Numbers:
    """Return the first of those instructions in `chosen` that have the same words, for each of these, in order.

    Kernels repeat many instructions, as in loops that a compiler has unrolled."""
    padded = np.concatenate([words, np.zeros(LONGEST // 4, np.uint32)])
    places = np.arange(LONGEST // 4)
    rows = padded[bounds.starts[chosen, None] + places]
    rows[places >= bounds.sizes[chosen, None]] = 0
    _, first = np.unique(rows, axis=0, return_index=True)
    return chosen[np.sort(first)]


def _first_beyond(insn: Insn, vgprs: int, accs: int) -> str:
    """Return the name of the first register of an instruction that is not allocated, or ""."""
    for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields):
        for row in vector_rows(insn, slot):
            if row % REGISTERS >= (accs if row >= REGISTERS else vgprs):
                return register_name(row)
    return ""


def _reached(target: Target, words: Words, bounds: Bounds) -> tuple[Mask, bool]:
    """Return a mask of the instructions that execution from the first one can reach without a computed jump.

    Also return False if execution may go on after the last word.
    """
    starts, _, numbers = bounds
    names = format_names(target.encoding)
    index = np.full(len(words) + 1, -1, np.int64)
    index[starts] = np.arange(len(starts))
    goals, lasts = np.full(len(starts), -1, np.int64), numbers == 0
    is_whole = True
    for form in CONTROL:
        fmt = format_of(target.encoding, form)
        chosen = np.flatnonzero(numbers == names.index(form))
        first = words[starts[chosen]]
        codes = first >> fmt.code_at & fmt.code_mask
        for code in np.unique(codes).tolist():
            op = find(target, fmt.family, code)
            name = "" if op is None else op.name
            here = chosen[codes == code]
            lasts[here] |= name in LASTS
            if name.startswith(("s_branch", "s_cbranch_i", "s_call")) or (form == "SOPP" and "cbranch" in name):
                distance = (words[starts[here]] & 0xFFFF).astype(np.uint16).view(np.int16).astype(np.int64)
                goals[here] = starts[here] + 1 + distance
    reached, work = np.zeros(len(starts), np.bool_), [0] if len(starts) else []
    last, goal, stops = len(starts), goals.tolist(), np.flatnonzero(lasts | (goals >= 0)).tolist()
    while work:
        at = work.pop()
        if reached[at]:
            continue
        number = int(np.searchsorted(stops, at))
        end = stops[number] + 1 if number < len(stops) else last
        reached[at:end] = True
        if number == len(stops):
            is_whole = False
            continue
        if not lasts[end - 1]:
            is_whole &= end < last
            work += [end] if end < last else []
        to = goal[end - 1]
        if 0 <= to < len(words) and index[to] >= 0:
            work.append(int(index[to]))
        else:
            is_whole &= to < len(words)
    return reached, is_whole


def _may_name(target: Target, words: Words, bounds: Bounds, vgprs: int, accs: int) -> Mask:
    """Return a mask that includes all instructions which name a register that is not allocated."""
    found = np.zeros(len(bounds.starts), np.bool_)
    padded = np.concatenate([words, np.zeros(LONGEST // 4, np.uint32)])
    for number in np.unique(bounds.formats).tolist():
        name = format_names(target.encoding)[number]
        chosen = np.flatnonzero(bounds.formats == number)
        for form in _forms(target, name):
            for at, mask, lowest in _fields(target.encoding, form):
                values = padded[bounds.starts[chosen] + at // 32] >> np.uint32(at % 32) & np.uint32(mask)
                found[chosen] |= (values >= lowest) & (values + WIDEST > lowest + vgprs)
            if accs < REGISTERS:
                for at in _file_bits(target.encoding, form):
                    found[chosen] |= padded[bounds.starts[chosen] + at // 32] >> np.uint32(at % 32) & 1 != 0
        if accs < REGISTERS and name in ("VOP1", "VOP3P"):
            found[chosen] |= _moves(target, name, padded[bounds.starts[chosen]])
    return found


def _forms(target: Target, name: str) -> tuple[str, ...]:
    """Return the encodings whose words count as those of the encoding `name`; none for invalid words."""
    if not name:
        return ()
    return (name, "MAI") if name == "VOP3P" else (name,)


@cache
def _fields(level: int, form: str) -> tuple[tuple[int, int, int], ...]:
    """Return the position, mask and lowest value of each field of an encoding that may name vector registers."""
    found = []
    for fmt in _formats(level, form):
        for field in fmt.pattern.fields:
            piece = field.pieces[0]
            if field.name in VECTOR_FIELDS or (field.name in SOURCE_FIELDS and piece.width == 8):
                found.append((piece.at, 0xFF, 0))
            elif field.name in SOURCE_FIELDS:
                found.append((piece.at, 0x1FF, VGPR0))
    return tuple(dict.fromkeys(found))


@cache
def _file_bits(level: int, form: str) -> tuple[int, ...]:
    """Return the positions of the bits that make operands of an encoding accumulation registers."""
    fields = (field for fmt in _formats(level, form) for field in fmt.pattern.fields)
    return tuple(dict.fromkeys(field.pieces[0].at for field in fields if field.name in FILE_FIELDS))


def _formats(level: int, form: str) -> tuple[Format, ...]:
    return tuple(format_of(level, form, family) for family in (("flat", "global") if form == "FLAT" else ("",)))


def _moves(target: Target, form: str, first: Numbers | Words) -> Mask:
    """Return a mask of the first words of moves between vector and accumulation registers."""
    fmt = format_of(target.encoding, form)
    codes = first >> np.uint32(fmt.code_at) & np.uint32(fmt.code_mask)
    return np.isin(codes, _move_codes(target.name, form))


@cache
def _move_codes(name: str, form: str) -> tuple[int, ...]:
    fmt = format_of(TARGETS[name].encoding, form)
    found = ((code, find(TARGETS[name], fmt.family, code)) for code in range(fmt.code_mask + 1))
    return tuple(code for code, op in found if op is not None and op.name in ACC_NAMES)
