"""Translated regions, and the tables through which the dispatcher finds the regions of a hart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.jit.dispatcher import SLOTS
from softcard.engine.riscv.jit.region import Region
from softcard.engine.riscv.pages import PageTables, Words, zeros
from softcard.engine.riscv.reference import Context, ReferenceEngine
from softcard.ir import llvm
from softcard.isa.riscv.state import CODE_TABLE, FRM, NATIVE_VLEN, RETURN_ADDRESS, Hart
from softcard.isa.riscv.unitstate import FLOATS, VECTORS

if TYPE_CHECKING:
    from softcard.ir.background import Task

FIRST_SLICE: Final = 100_000


@dataclass(slots=True)
class Translation:
    """A translated region: its machine code, and the guest bytes from which it was made."""

    region: Region
    key: str
    native_float: bool
    snapshot: list[tuple[int, bytes]]
    tier: int
    code: llvm.Code
    address: int
    better: Task[llvm.Code | None] | None = None
    """The task that compiles the region's optimised code, if it was submitted."""
    is_unimprovable: bool = False
    """True if the optimisation of the region has failed: it is not tried again."""
    old: list[llvm.Code] = field(default_factory=list)


class JitContext(Context):
    """A hart's context with the dispatcher's tables of translated code.

    One table is for code with native floats, one for code whose float instructions run on the reference engine. Two
    more tables of these kinds contain translations of single instructions, which are used at the end of a time slice
    when fuel is short.
    """

    def __init__(self, owner: ReferenceEngine, hart: Hart, pages: PageTables, evaluator: Evaluator) -> None:
        super().__init__(owner, hart, pages, evaluator)
        self.tables = _code_tables()
        self.single_tables: dict[bool, Words] = {}
        self.addresses = {native: int(table.ctypes.data) for native, table in self.tables.items()}
        self.single_addresses: dict[bool, int] = {}
        self.installed: dict[bool, dict[int, Translation]] = {True: {}, False: {}}
        self.singles: dict[bool, dict[int, Translation]] = {True: {}, False: {}}
        self.dropped: list[Translation] = []
        self.return_address = hart.words[RETURN_ADDRESS]
        self.visits: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        """By pc: the number of time slices that ended there with too little fuel to continue in translated code."""
        self.slice = FIRST_SLICE
        self.work = 0
        self.native = True

    def choose(self) -> bool:
        """Select the table for the present float mode; return True if floats are native."""
        words = self.hart.words
        self.dropped.clear()  # the hart is not running them, since this code runs on its thread
        if words[RETURN_ADDRESS] != self.return_address:
            self.return_address = words[RETURN_ADDRESS]
            if any(translation.region.holds(self.return_address) for translation in self.translations()):
                self.uninstall()
        native = words[FRM] <= 3 and FLOATS.is_dirty(self.hart)
        self.native = native
        words[NATIVE_VLEN] = self.hart.vlen if VECTORS.is_dirty(self.hart) else 0
        words[CODE_TABLE] = self.addresses[native]
        return native

    def install(self, translation: Translation) -> None:
        """Add a translation to the table at all of its entry points."""
        table, known = self.tables[translation.native_float], self.installed[translation.native_float]
        region = translation.region
        for pc in region.entries | region.heads:
            slot = (pc >> 1) & (SLOTS - 1)
            _vacate(table, slot)
            table[slot, 1] = translation.address
            table[slot, 0] = pc
            known[pc] = translation

    @property
    def single_address(self) -> int:
        """The address of the table of single instructions for the present float mode."""
        if not self.single_tables:  # most harts do not need these tables
            self.single_tables = _code_tables()
            self.single_addresses = {native: int(table.ctypes.data) for native, table in self.single_tables.items()}
        return self.single_addresses[self.native]

    def install_single(self, translation: Translation) -> None:
        """Add the code of one instruction to the table of single instructions, for the end of a time slice."""
        table, pc = self.single_tables[translation.native_float], translation.region.entry
        slot = (pc >> 1) & (SLOTS - 1)
        _vacate(table, slot)
        table[slot] = pc, translation.address
        self.singles[translation.native_float][pc] = translation

    def translations(self) -> list[Translation]:
        """Return all installed translations except those of single instructions."""
        return list({id(t): t for known in self.installed.values() for t in known.values()}.values())

    def uninstall(self) -> None:
        """Remove all translations of this hart, even if one is running at the moment."""
        self.dropped += self.translations()
        for tables, installed in ((self.tables, self.installed), (self.single_tables, self.singles)):
            for native, known in installed.items():
                for pc in known:
                    _vacate(tables[native], (pc >> 1) & (SLOTS - 1))
                known.clear()

    def close(self) -> None:
        """Release the memory of the context and of its tables."""
        super().close()
        self.uninstall()
        self.dropped.clear()
        self.hart.words[CODE_TABLE] = 0
        self.tables, self.single_tables, self.single_addresses = {}, {}, {}

    def forget(self) -> None:
        """Drop everything that was made from code which may have changed; such code has to become hot again."""
        super().forget()
        self.uninstall()
        self.visits.clear()
        self.ends.clear()


def _code_tables() -> dict[bool, Words]:
    """Return two empty tables of translated code, one for each value of "floats are computed by native instructions".

    Code in the table False leaves instructions on floats to the reference engine."""
    found: dict[bool, Words] = {native: zeros(2 * SLOTS).reshape(SLOTS, 2) for native in (True, False)}
    for table in found.values():
        _vacate(table, 0)
    return found


def _vacate(table: Words, slot: int) -> None:
    """Mark a table row as empty: its tag becomes a pc that belongs to another row, so that lookups never match."""
    table[slot, 0] = 0 if slot else 2


def snapshot_of(region: Region) -> list[tuple[int, bytes]]:
    """Return the code bytes of a region: address and bytes of each contiguous range."""
    words: dict[int, bytes] = {}
    for block in region.blocks.values():
        for pc, insn in block.insns:
            words[pc] = insn.word.to_bytes(insn.length, "little")
    out = []
    for first, last in region.address_ranges:
        data = bytearray(last - first)
        for pc, code in words.items():
            if first <= pc < last:
                data[pc - first : pc - first + len(code)] = code
        out.append((first, bytes(data)))
    return out
