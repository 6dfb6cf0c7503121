"""The scoreboard: outstanding operations at a point of a path, and the waits that an instruction lacks there.

Operations of one order (for example, all vector loads) complete one after the other. So an operation is
certainly complete when no more operations are outstanding than were issued after it. Each entry of the
scoreboard therefore counts the later operations of the same order on its path. An entry is removed in two
cases: a wait permits at most that many outstanding operations, or so many operations followed that the
counter could not hold them all. Operations of other orders do not affect an entry.

Where two paths join, their scoreboards are merged. An entry that both scoreboards have keeps the smaller
count: this is the worst case, since such an entry stays on the scoreboard longer. So a hazard on a merged
scoreboard exists on at least one of the paths, and the scoreboard of a single path is exact.

A FLAT access counts on two counters, VM_CNT and LGKM_CNT. Unless a run shows the address space that it
reaches, the analysis assumes that it accesses memory, in order with the other memory accesses. A finding that
holds only if the access reaches LDS states that condition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from softcard.core.diagnostics import Diagnostic
from softcard.core.findings import Level
from softcard.core.rule import interface_id
from softcard.engine.gcn.waits.issue import (
    FLAT,
    GDS,
    LDS,
    LDS_DMA,
    LDS_STORED,
    MEMORY,
    MOST,
    SALU,
    SCALAR,
    SCALAR_BITS,
    SCALAR_STORED,
    SGPR_BIT,
    UNORDERED,
    VALU,
    VCC_BITS,
    VECTOR,
    VECTOR_BITS,
    Issue,
    bits,
    registers_of,
)
from softcard.isa.gcn.hazards import PACKAGE, Formats, Hazard, Kind, hazard, matrix_kind, processors_of
from softcard.isa.gcn.state import EXEC, HW_MODE, HW_TRAPSTS, M0, SGPRS, VGPRS
from softcard.isa.gcn.target import Target

# ---- wait states -----------------------------------------------------------------------------------------------------
# Wait states: the predicates for pairs of instructions with a hazard, by the hazard's name in ``hazards.toml``.


Pair = Callable[[Issue, Issue], int]
"""A predicate for a pair of instructions: the mask of the hazard's registers, or 0 without a hazard.

It returns -1 for a hazard without registers.
"""

LONGEST: Final = 5
"""The most wait states that any hazard needs after an instruction other than a matrix instruction."""
LONGEST_MATRIX: Final = 20
"""The most wait states that any hazard needs after a matrix instruction."""
MOST_STATES: Final = 16
"""The most wait states of one s_nop."""
VGPR_BITS: Final = bits(0, VGPRS)
EXEC_BITS: Final = bits(SGPR_BIT + EXEC, 2)
M0_BIT: Final = bits(SGPR_BIT + M0)
LANE_SELECTS: Final = frozenset({"v_readlane_b32", "v_writelane_b32"})
VCCZ, EXECZ = 251, 252
"""The source operand codes of VCCZ and EXECZ."""
VSKIP_AT: Final = 28
"""The bit number of VSKIP in MODE."""


def _yes(c: object) -> int:
    return -1 if c else 0


def _hwreg(issue: Issue) -> int:
    """Return the number of the hardware register that an s_setreg or s_getreg instruction accesses."""
    return issue.insn["simm16"] & 63


def _is_setreg(issue: Issue) -> bool:
    return issue.name.startswith("s_setreg")


def _sets_vskip(issue: Issue) -> bool:
    if not _is_setreg(issue) or _hwreg(issue) != HW_MODE:
        return issue.name == "s_setvskip"
    low, size = issue.insn["simm16"] >> 6 & 31, (issue.insn["simm16"] >> 11 & 31) + 1
    return low <= VSKIP_AT < low + size


def _sgpr_of_vector_memory(a: Issue, b: Issue) -> int:
    return a.writes & b.reads & SCALAR_BITS if a.kind == VALU and b.kind == VECTOR else 0


def _lane_select(a: Issue, b: Issue) -> int:
    if a.kind != VALU or b.insn.op.name not in LANE_SELECTS:
        return 0
    code = b.insn["src1"]
    return a.writes & bits(SGPR_BIT + code) if 0 <= code < SGPRS else 0


def _div_fmas(a: Issue, b: Issue) -> int:
    return a.writes & VCC_BITS if a.kind == VALU and b.insn.op.name.startswith("v_div_fmas") else 0


def _zero_flags(a: Issue, b: Issue) -> int:
    if a.kind != VALU or b.kind != VALU:
        return 0
    codes = {b.insn.get(field, -1) for field in ("src0", "src1", "src2")}
    return a.writes & ((VCC_BITS if VCCZ in codes else 0) | (EXEC_BITS if EXECZ in codes else 0))


def _dpp(a: Issue, b: Issue) -> int:
    return a.writes & b.reads & VECTOR_BITS if a.kind == VALU and b.insn.form.endswith("_DPP") else 0


def _exec_dpp(a: Issue, b: Issue) -> int:
    return a.writes & EXEC_BITS if a.kind == VALU and b.insn.form.endswith("_DPP") else 0


def _m0(a: Issue, c: object) -> int:
    return a.writes & M0_BIT if a.kind == SALU and c else 0


def _takes_m0_for_lds(b: Issue) -> bool:
    name = b.name
    return (
        "addtid" in name or name == "buffer_store_lds_dword" or bool(b.insn.get("lds")) or name.startswith("v_interp")
    )


_MEMORY: Final = frozenset({VECTOR, LDS, "export"})
_TRANS: Final = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_SWAPS: Final = re.compile(r"v_permlane\d+_swap_b32")
_DWORD: Final = 6
"""The value of the SDWA field dst_sel that selects the whole register."""


def _is_exec_or_vgpr_reader(b: Issue) -> bool:
    """Return True for the readers of the hazard "VALU write of EXEC or a VGPR, then a read by a matrix instruction".

    These are matrix instructions and, on gfx908, v_accvgpr_write."""
    return b.is_matrix or (b.insn.target.matrix == 1 and b.name == "v_accvgpr_write_b32")


def _is_dot(issue: Issue) -> bool:
    return issue.name.startswith("v_dot")


def _is_f64(issue: Issue) -> bool:
    return issue.name.startswith("v_mfma_f64")


def _is_f32(issue: Issue) -> bool:
    return matrix_kind(processors_of(issue.insn.target)[0], issue.insn.op.name)[0] == "f32"


def _matrix_exec(a: Issue, b: Issue) -> int:
    return a.writes & EXEC_BITS if a.kind == VALU and _is_exec_or_vgpr_reader(b) else 0


def _matrix_source(a: Issue, b: Issue) -> int:
    if a.kind != VALU or a.is_matrix or not _is_exec_or_vgpr_reader(b):
        return 0
    if b.insn.target.matrix == 1:
        return a.writes & b.reads & VGPR_BITS
    return 0 if _is_dot(a) else a.writes & b.reads & VECTOR_BITS


def _result_source(a: Issue, b: Issue) -> int:
    return a.writes & b.factors if a.is_matrix and b.is_matrix else 0


def _same_addend(a: Issue, b: Issue) -> int:
    if not (a.is_matrix and b.is_matrix) or a.writes != b.addend:
        return 0
    return a.writes if not _is_f64(a) or b.insn.op is a.insn.op else 0


def _part_as_addend(a: Issue, b: Issue) -> int:
    return a.writes & b.addend if a.is_matrix and b.is_matrix and a.writes != b.addend else 0


def _addend(a: Issue, b: Issue) -> int:
    return 0 if _is_f64(b) or (b.is_matrix and _is_f32(b)) else _part_as_addend(a, b)


def _addend_f32(a: Issue, b: Issue) -> int:
    return _part_as_addend(a, b) if b.is_matrix and _is_f32(b) else 0


def _addend_f64(a: Issue, b: Issue) -> int:
    return _part_as_addend(a, b) if _is_f64(b) else 0


def _is_other(b: Issue) -> bool:
    """Return True for VALU, memory and LDS instructions other than matrix instructions."""
    return not b.is_matrix and (b.kind == VALU or b.kind in _MEMORY)


def _accumulator_write(a: Issue, c: int) -> int:
    return a.writes & c if a.name == "v_accvgpr_write_b32" else 0


def _dot_result(a: Issue, b: Issue) -> int:
    if not _is_dot(a) or not _is_other(b):
        return 0
    return a.writes & (b.factors if a.insn.op is b.insn.op else b.reads | b.writes)


def _writes_part(a: Issue) -> bool:
    """Return True for a VALU instruction that writes a part of a register by SDWA or op_sel."""
    insn = a.insn
    if insn.form.endswith("_SDWA"):
        return insn.get("dst_sel", _DWORD) != _DWORD
    if insn.form != "VOP3A":
        return False
    is_byte = a.name.startswith("v_cvt_s") and "8_" in a.name
    return "sr_pk_fp4" in a.name or bool(insn.get("op_sel") & (12 if is_byte else 8))


_VECTORS: Final = frozenset({VALU, VECTOR, "lds", GDS, "export"})

PAIRS: Final[dict[str, Pair]] = {
    "valu-sgpr-vmem": _sgpr_of_vector_memory,
    "valu-lane-select": _lane_select,
    "valu-vcc-div-fmas": _div_fmas,
    "valu-vccz-execz": _zero_flags,
    "setreg-getreg": lambda a, b: _yes(_is_setreg(a) and b.name.startswith("s_getreg") and _hwreg(a) == _hwreg(b)),
    "setreg-setreg": lambda a, b: _yes(_is_setreg(a) and _is_setreg(b) and _hwreg(a) == _hwreg(b)),
    "setvskip-getreg": lambda a, b: _yes(
        a.name == "s_setvskip" and b.name.startswith("s_getreg") and _hwreg(b) == HW_MODE
    ),
    "setreg-vskip": lambda a, b: _yes(b.kind in _VECTORS and _sets_vskip(a)),
    "wide-store-data": lambda a, b: a.wide & b.writes if b.kind == VALU else 0,
    "valu-dpp": _dpp,
    "valu-exec-dpp": _exec_dpp,
    "setreg-trapsts-rfe": lambda a, b: _yes(_is_setreg(a) and _hwreg(a) == HW_TRAPSTS and b.name.startswith("s_rfe")),
    "m0-message": lambda a, b: _m0(a, b.kind == GDS or b.name.startswith(("s_sendmsg", "s_ttracedata"))),
    "m0-lds-direct": lambda a, b: _m0(a, _takes_m0_for_lds(b)),
    "m0-movrel": lambda a, b: _m0(a, b.name.startswith("s_movrel")),
    "matrix-exec": _matrix_exec,
    "matrix-source": _matrix_source,
    "matrix-result-source": _result_source,
    "matrix-result-same-addend": _same_addend,
    "matrix-result-addend": _addend,
    "matrix-result-addend-f32": _addend_f32,
    "matrix-result-addend-f64": _addend_f64,
    "matrix-result-read": lambda a, b: a.writes & b.reads if a.is_matrix and b.kind == VALU and not b.is_matrix else 0,
    "matrix-result-memory": lambda a, b: a.writes & b.reads if a.is_matrix and b.kind in _MEMORY else 0,
    "matrix-result-overwritten": lambda a, b: a.writes & b.writes if a.is_matrix and _is_other(b) else 0,
    "matrix-addend-overwritten": lambda a, b: a.addend & b.writes if a.is_matrix and _is_other(b) else 0,
    "acc-write-source": lambda a, b: _accumulator_write(
        a, b.factors if b.is_matrix else b.reads if b.name == "v_accvgpr_read_b32" else 0
    ),
    "acc-write-addend": lambda a, b: _accumulator_write(a, b.addend if b.is_matrix else 0),
    "acc-read-memory": lambda a, b: a.writes & b.reads if a.name == "v_accvgpr_read_b32" and b.kind in _MEMORY else 0,
    "dot-result": _dot_result,
    "matrix-f64-fma": lambda a, b: _yes(_is_f64(a) and b.insn.op.name in ("v_fma_f64", "v_fmac_f64")),
    "matrix-f64-memory": lambda a, b: (
        a.writes & b.reads & VECTOR_BITS if a.kind == VALU and not a.is_matrix and b.kind in _MEMORY else 0
    ),
    "trans-result": lambda a, b: (
        a.writes & b.reads & VECTOR_BITS if _TRANS.match(a.name) and b.kind == VALU and not _TRANS.match(b.name) else 0
    ),
    "part-result": lambda a, b: (
        a.writes & (b.reads | b.writes) & VECTOR_BITS if a.kind == b.kind == VALU and _writes_part(a) else 0
    ),
    "swap-source": lambda a, b: (
        a.writes & b.reads & VECTOR_BITS if a.kind == VALU and not a.is_matrix and _SWAPS.match(b.name) else 0
    ),
    "swap-exec": lambda a, b: a.writes & EXEC_BITS if a.name.startswith("v_cmpx") and _SWAPS.match(b.name) else 0,
}
AFTER_MATRIX: Final = frozenset(
    name for name in PAIRS if name.startswith(("matrix-result", "matrix-addend")) or name == "matrix-f64-fma"
)
"""The ids of the hazards whose first instruction is a matrix instruction."""
RESULTS: Final = frozenset(interface_id(PACKAGE, name) for name in PAIRS if name.startswith("matrix-result"))
"""The ids of the hazards about the result of a matrix instruction.

For these, only the last matrix instruction that writes a register counts.
"""
AFTER_F64: Final = frozenset({interface_id(PACKAGE, "matrix-f64-memory")})
"""The ids of the hazards that exist only if a matrix instruction of f64 lies between their two instructions."""


@cache
def rules(target: Target, operation: str = "", formats: Formats = (0, 0)) -> tuple[tuple[Hazard, int, Pair], ...]:
    """Return the hazards of a processor: for each, the hazard, its wait states, and the predicate for pairs.

    `operation` is the name of the first instruction if that is a matrix instruction, and "" for any other first
    instruction. `formats` are those of its factors if it is an f8f6f4 instruction.
    """
    found = ((name, hazard(name), pair) for name, pair in PAIRS.items())
    made = ((name, each, each.states_after(target, operation, formats), pair) for name, each, pair in found)
    return tuple(
        (each, states, pair) for name, each, states, pair in made if states and (operation or name not in AFTER_MATRIX)
    )


def may_begin(issue: Issue) -> bool:
    """Return True if an instruction can be the first of a hazardous pair."""
    return (
        issue.kind == VALU
        or bool(issue.wide)
        or (issue.kind == SALU and bool(issue.writes & M0_BIT))
        or issue.name.startswith(("s_setreg", "s_setvskip"))
    )


def may_end(issue: Issue) -> bool:
    """Return True if an instruction can be the second of a hazardous pair."""
    return issue.kind in _VECTORS or issue.name.startswith(
        ("s_getreg", "s_setreg", "s_rfe", "s_sendmsg", "s_ttracedata", "s_movrel")
    )


# ---- scoreboard ------------------------------------------------------------------------------------------------------


REGISTERS: Final = LDS_STORED - 1
LONGEST_RUN: Final = 5
"""The number of last instructions of a clause that are checked, as many as LLVM checks before an instruction."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An outstanding operation: the instruction that has started it, and the counter that tracks it.

    `later` is the number of later operations of the same `order`. The registers in the mask `owed` are ready
    only when the operation completes; those in the mask `locked` must not change until then. `when` is a
    condition as in `Missed`."""

    issue: Issue
    counter: str
    order: str
    later: int
    owed: int
    locked: int
    when: str = ""


@dataclass(frozen=True, slots=True)
class Missed:
    """A hazard between two instructions: `after` was issued too early after `before`.

    `need` is the text of a wait between both instructions that would suffice. `registers` is the mask of the registers
    that the hazard concerns. `when` is "" or a condition that only a run can decide: the space (`LDS` or `MEMORY`) that
    the FLAT access `before` must have reached.
    """

    hazard: Hazard
    before: Issue
    after: Issue
    need: str
    registers: int = 0
    when: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """The hazard's id and the pcs of both instructions."""
        return self.hazard.id, self.before.pc, self.after.pc

    @property
    def is_doubtful(self) -> bool:
        """True if the hazard only warrants a warning on this generation."""
        return self.after.level in self.hazard.doubtful

    @property
    def is_likely(self) -> bool:
        """True unless the hazard depends on a FLAT access that reaches LDS, which only a run shows."""
        return self.when != LDS

    @property
    def names(self) -> str:
        """The names of the hazard's registers, as text; "" without registers."""
        return ", ".join(registers_of(self.registers & REGISTERS))


@dataclass(slots=True)
class Board:
    """The scoreboard of a path.

    - `entries`: the outstanding operations, by pc and counter.
    - `recent`: for each recent instruction, the wait states since it was issued.
    - `run`: the memory instructions of one kind that were issued last without others between them (a clause), each with
      the number of later ones.
    - `replays`: True if XNACK may be on, provided that the processor has it.
    """

    replays: bool = True
    entries: dict[tuple[int, str], Owed] = field(default_factory=dict)
    recent: dict[Issue, int] = field(default_factory=dict)
    run: dict[Issue, int] = field(default_factory=dict)

    def copy(self) -> Board:
        """Return a copy of this scoreboard."""
        return Board(self.replays, dict(self.entries), dict(self.recent), dict(self.run))

    def join(self, other: Board) -> bool:
        """Merge into this scoreboard that of another path to the same point; return True if this one has changed."""
        before = self.copy()
        for key, entry in other.entries.items():
            mine = self.entries.get(key)
            if mine is None:
                self.entries[key] = entry
            else:
                later, owed = min(mine.later, entry.later), mine.owed | entry.owed
                self.entries[key] = replace(mine, later=later, owed=owed, locked=mine.locked | entry.locked)
        for ours, theirs in ((self.recent, other.recent), (self.run, other.run)):
            for issue, age in theirs.items():
                ours[issue] = min(age, ours.get(issue, age))
        return self != before

    # ---- one instruction -------------------------------------------------------------------------------------------
    def step(self, issue: Issue, reached: frozenset[str] | None = None) -> list[Missed]:
        """Return the hazards of an instruction, and advance the board past it.

        `reached`: the spaces of the lanes of a FLAT access, `MEMORY` or `LDS`, if a run shows them.
        """
        missed = [*self._not_done(issue), *self._too_early(issue)]
        if self.run:
            missed += self._in_run(issue)
        self._wait(issue)
        self._start(issue, reached)
        self._pass(issue)
        return missed

    def _not_done(self, issue: Issue) -> Iterator[Missed]:
        """Yield the hazards between an instruction and the outstanding operations that it should have waited for.

        Registers that are reported or overwritten are removed from the scoreboard.
        """
        needed = issue.reads | _needed_by(issue)
        touched = needed | issue.writes
        for key, entry in list(self.entries.items()):
            late, kept = entry.owed & touched, entry.locked & issue.writes
            if not (late | kept):
                continue
            if late & ~needed and self._in_order(entry, issue):
                late &= needed
            if late | kept:
                yield self._missed(entry, issue, late | kept)
            self._restrict(key, entry, ~(issue.writes if entry.locked else touched))

    def _in_order(self, entry: Owed, issue: Issue) -> bool:
        """Return True if an outstanding operation must complete before the one that `issue` starts."""
        if entry.order in UNORDERED or entry.issue.has_sampler != issue.has_sampler:
            return False
        return any((each.counter, each.order) == (entry.counter, entry.order) for each in issue.counted)

    def _missed(self, entry: Owed, issue: Issue, registers: int) -> Missed:
        need = f"s_waitcnt {entry.counter}cnt({entry.later})"
        if entry.owed & SCALAR_STORED & registers:
            need = "s_dcache_wb"
        return Missed(hazard(self._name(entry, issue)), entry.issue, issue, need, registers, self._when(entry))

    def _when(self, entry: Owed) -> str:
        """Return the condition under which an outstanding operation is a hazard, as in `Missed.when`.

        The result is "" for a FLAT access if neither of its two counters was waited for: such an access is a hazard in
        any space.
        """
        return "" if entry.when == MEMORY and (entry.issue.pc, "lgkm") in self.entries else entry.when

    def _name(self, entry: Owed, issue: Issue) -> str:
        """Return the name of the hazard between an outstanding operation and an instruction."""
        if entry.locked:
            return "gds-data" if entry.issue.kind == GDS else "export-data"
        if issue.flow == "barrier":
            return "lds-store-barrier"
        if entry.issue.kind == SCALAR:
            return "scalar-store-end" if issue.flow == "end" else "scalar-result"
        if entry.issue.kind == VECTOR:
            if entry.owed & LDS_DMA:
                return "lds-dma"
            if entry.issue.insn.op.family == "flat":
                return "flat-result"
            return "vector-result-read" if entry.owed & issue.reads else "vector-result-overwritten"
        others = (
            each.counter == "lgkm" and each.order != entry.order for each in self.entries.values() if not each.when
        )
        return "mixed-result" if any(others) else "lds-result"

    def _too_early(self, issue: Issue) -> Iterator[Missed]:
        """Yield the hazards of an instruction due to missing wait states."""
        if not self.recent or not may_end(issue):
            return
        for before, age in self.recent.items():
            operation = before.insn.op.name if before.is_matrix else ""
            for found, states, pair in rules(issue.insn.target, operation, before.formats):
                if age >= states:
                    continue
                registers = pair(before, issue)
                if registers and (operation or found.id in AFTER_F64):
                    registers = self._of_matrices(found, age, registers)
                if registers:
                    yield Missed(found, before, issue, _nops(states - age), max(registers, 0))

    def _of_matrices(self, found: Hazard, age: int, registers: int) -> int:
        """Return the registers that a hazard still concerns after later matrix instructions; 0 if the hazard is void.

        `age` is the number of wait states since the hazard's first instruction. `RESULTS` has the hazards that
        concern the result of a matrix instruction. They end for registers that a later matrix instruction writes
        again. `AFTER_F64` has the hazards that exist only if a later matrix instruction is an f64 instruction."""
        later = [each for each, its_age in self.recent.items() if its_age < age and each.is_matrix]
        if found.id in AFTER_F64:
            return registers if any(_is_f64(each) for each in later) else 0
        if found.id in RESULTS:
            for each in later:
                registers &= ~each.writes
        return registers

    def _in_run(self, issue: Issue) -> list[Missed]:
        """Return the hazard of an instruction whose clause cannot be replayed, as a list of at most one item.

        With XNACK on, the processor may replay all memory instructions of a clause.
        """
        run = [each for each in self.run if each.kind == issue.kind]
        reads, writes = issue.reads, issue.writes
        for each in run:
            reads, writes = reads | each.reads, writes | each.writes
        spoiled = reads & writes & REGISTERS
        is_store = issue.kind == SCALAR and issue.stores
        if not any(each.writes for each in run) or not (spoiled or is_store):
            return []
        self.run = {}
        name = "scalar-clause" if issue.kind == SCALAR else "vector-clause"
        return [Missed(hazard(name), min(run, key=lambda each: each.pc), issue, "s_nop 0", spoiled)]

    # ---- the board after the instruction ---------------------------------------------------------------------------
    def _wait(self, issue: Issue) -> None:
        for counter, most in issue.waits.items():
            for key, entry in list(self.entries.items()):
                if entry.counter == counter and entry.later >= most:
                    self._restrict(key, entry, SCALAR_STORED)
        if issue.name.startswith("s_dcache_wb"):
            for key, entry in list(self.entries.items()):
                self._restrict(key, entry, ~SCALAR_STORED)

    def _restrict(self, key: tuple[int, str], entry: Owed, what: int) -> None:
        """Keep only the registers in mask `what` of an entry, or remove the entry if none is left."""
        if entry.owed & what or entry.locked & what:
            self.entries[key] = replace(entry, owed=entry.owed & what, locked=entry.locked & what)
        else:
            del self.entries[key]

    def _start(self, issue: Issue, reached: frozenset[str] | None) -> None:
        is_flat = issue.insn.op.family == "flat"
        for counted in issue.counted:
            counter, order, owed, when = counted.counter, counted.order, counted.owed, ""
            if is_flat:
                place = MEMORY if counter == "vm" else LDS
                if reached is None:
                    when = place
                    owed &= REGISTERS
                elif place not in reached:
                    owed = 0
                if reached is not None and LDS in reached:
                    order = FLAT
            if order not in UNORDERED:
                self._age(counter, order, MOST[counter][issue.level])
            if owed | counted.locked:
                self.entries[issue.pc, counter] = Owed(issue, counter, order, 0, owed, counted.locked, when)

    def _age(self, counter: str, order: str, most: int) -> None:
        for key, entry in list(self.entries.items()):
            if entry.counter == counter and entry.order == order:
                if entry.later + 1 >= most:
                    del self.entries[key]
                else:
                    self.entries[key] = replace(entry, later=entry.later + 1)

    def _pass(self, issue: Issue) -> None:
        if self.recent:
            takes = issue.takes
            self.recent = {each: age + takes for each, age in self.recent.items() if age + takes < _lasting(each)}
        if may_begin(issue):
            self.recent[issue] = 0
        if issue.kind in (VECTOR, SCALAR) and self.replays and may_replay(issue):
            same = ((each, age) for each, age in self.run.items() if each.kind == issue.kind)
            self.run = {issue: 0} | {each: age + 1 for each, age in same if each is not issue and age + 1 < LONGEST_RUN}
        elif self.run:
            self.run = {}


def _lasting(issue: Issue) -> int:
    """Return the largest number of wait states that any hazard needs after an instruction."""
    return LONGEST_MATRIX if issue.is_matrix else LONGEST


def _nops(states: int) -> str:
    """Return the s_nop instructions that take `states` wait states, as text."""
    whole, rest = divmod(states, MOST_STATES)
    return ", ".join([f"s_nop {MOST_STATES - 1}"] * whole + [f"s_nop {rest - 1}"] * bool(rest))


def may_replay(issue: Issue) -> bool:
    """Return True if the processor may have XNACK on, that is, may replay memory instructions after a page fault.

    That is possible on all processors of GFX9 and a few of GFX8, unless the target excludes it."""
    return issue.level >= 9 or "xnack" in issue.insn.target.has


def _needed_by(issue: Issue) -> int:
    """Return a mask of the kinds of pending data that must be complete before an instruction.

    The kinds are the pseudo-register bits `LDS_STORED`, `SCALAR_STORED` and `LDS_DMA`.
    """
    if issue.flow == "barrier":
        return LDS_STORED
    if issue.flow == "end":
        return SCALAR_STORED
    return LDS_DMA if issue.kind == LDS and issue.writes else 0


# ---- findings in words -----------------------------------------------------------------------------------------------
# The hazards of the scoreboard as findings in words.


CHECK: Final = "waits"
"""The name of the check."""
DISPUTED: Final = "disputed"
"""The basis of a hazard about which sources disagree."""


def finding(missed: Missed, base: int = 0, kernel: str = "", text: Callable[[int], str] | None = None) -> Diagnostic:
    """Return the diagnostic for a hazard.

    Addresses are given relative to `base`. `text` returns additional text for a pc."""

    def place(pc: int) -> str:
        more = (f"({kernel})" if kernel else "") if text is None else text(pc)
        return f"pc {pc - base:#x} {more}".rstrip()

    before, after, rule = missed.before, missed.after, missed.hazard.rule
    level = Level.WARNING if missed.is_doubtful or missed.when else Level.ERROR
    if missed.is_doubtful and missed.hazard.basis == DISPUTED:
        level = Level.NOTE
    suggestion = (
        f"add {missed.need} between the two instructions"
        if missed.hazard.kind is not Kind.STATES
        else f"add {missed.need} before this instruction"
    )
    return Diagnostic(
        level,
        CHECK,
        f"{after.text} {sentence(missed)}",
        place(after.pc),
        pc=after.pc - base,
        kernel=kernel,
        rule=rule,
        other=place(before.pc),
        suggestion=suggestion,
    )


def sentence(missed: Missed) -> str:
    """Return the sentence of a diagnostic about the later instruction of a hazard."""
    before, after, names = missed.before.text, missed.after, missed.names
    if missed.hazard.kind is Kind.STATES:
        about = f": hazard on {names}" if names else ""
        return f"comes too early after {before}{about}"
    if missed.hazard.kind is Kind.CLAUSE:
        why = f"reads and writes {names}" if names else "loads and stores"
        return f"makes the clause that begins with {before} unsafe to replay, since it {why}"
    name = missed.hazard.id.partition("/")[2]
    if name in _OTHERS:
        return _OTHERS[name].format(before=before)
    if name.endswith("-data"):
        return f"overwrites {names} before {before} has read it"
    condition = ", if that reached memory" if missed.when == MEMORY else ", if that reached LDS" if missed.when else ""
    verb = "reads" if missed.registers & after.reads else "overwrites"
    return f"{verb} {names} before {before} has written it{condition}"


_OTHERS: Final = {
    "lds-store-barrier": "does not wait until {before} is in LDS",
    "lds-dma": "may read LDS before {before} has written it",
    "scalar-store-end": "ends the wave while what {before} stored may be in the scalar cache alone",
}
