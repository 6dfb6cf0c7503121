"""Translated regions, and the tables through which the dispatcher finds those of one hart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from understudy.engine.riscv.evaluate import Evaluator
from understudy.engine.riscv.jit.dispatcher import SLOTS
from understudy.engine.riscv.jit.region import Region
from understudy.engine.riscv.pages import PageTables, Words, zeros
from understudy.engine.riscv.reference import Context, ReferenceEngine
from understudy.ir import llvm
from understudy.isa.riscv import floatstate, vectorstate
from understudy.isa.riscv.state import CODE_TABLE, FRM, NATIVE_VLEN, RETURN_ADDRESS, Hart

if TYPE_CHECKING:
    from concurrent.futures import Future

FIRST_SLICE: Final = 100_000


@dataclass(slots=True)
class Translation:
    """A region, its code, and the guest bytes it was made from."""

    region: Region
    key: str
    native_float: bool
    snapshot: list[tuple[int, bytes]]
    tier: int
    code: llvm.Code
    address: int
    better: Future[llvm.Code] | None = None
    old: list[llvm.Code] = field(default_factory=list)


class JitContext(Context):
    """Adds the table that the dispatcher reads: one for native floats, one for floats on the reference.

    Two more lead to code of one instruction each, for the end of a turn: with no more fuel than that takes.
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
        self.home = hart.words[RETURN_ADDRESS]
        self.visits: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        """How often a turn was at a pc with too little fuel to go on there in translated code."""
        self.slice = FIRST_SLICE
        self.work = 0
        self.native = True

    def choose(self) -> bool:
        """Point the dispatcher at the table for the present float mode; gives whether floats are native."""
        words = self.hart.words
        self.dropped.clear()  # the hart is not in them, or else nobody would be here
        if words[RETURN_ADDRESS] != self.home:
            self.home = words[RETURN_ADDRESS]
            if any(translation.region.holds(self.home) for translation in self.translations()):
                self.uninstall()
        native = words[FRM] <= 3 and floatstate.is_dirty(self.hart)
        self.native = native
        words[NATIVE_VLEN] = self.hart.vlen if vectorstate.is_dirty(self.hart) else 0
        words[CODE_TABLE] = self.addresses[native]
        return native

    def install(self, translation: Translation) -> None:
        """Make a translation reachable at all its entries."""
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
        """Of the table of code of one instruction each, for the present float mode."""
        if not self.single_tables:  # most harts need none
            self.single_tables = _code_tables()
            self.single_addresses = {native: int(table.ctypes.data) for native, table in self.single_tables.items()}
        return self.single_addresses[self.native]

    def install_single(self, translation: Translation) -> None:
        """Make code of one instruction reachable, for the end of a turn."""
        table, pc = self.single_tables[translation.native_float], translation.region.entry
        slot = (pc >> 1) & (SLOTS - 1)
        _vacate(table, slot)
        table[slot] = pc, translation.address
        self.singles[translation.native_float][pc] = translation

    def translations(self) -> list[Translation]:
        """All that are installed, but those of one instruction."""
        return list({id(t): t for known in self.installed.values() for t in known.values()}.values())

    def uninstall(self) -> None:
        """Forget all translations of this hart, which may be running one at the moment."""
        self.dropped += self.translations()
        for tables, installed in ((self.tables, self.installed), (self.single_tables, self.singles)):
            for native, known in installed.items():
                for pc in known:
                    _vacate(tables[native], (pc >> 1) & (SLOTS - 1))
                known.clear()

    def close(self) -> None:
        """Give the tables' memory back as well."""
        super().close()
        self.uninstall()
        self.dropped.clear()
        self.hart.words[CODE_TABLE] = 0
        self.tables, self.single_tables, self.single_addresses = {}, {}, {}

    def forget(self) -> None:
        """Drop everything that came from code which may have changed, which then has to prove hot again."""
        super().forget()
        self.uninstall()
        self.visits.clear()
        self.ends.clear()


def _code_tables() -> dict[bool, Words]:
    """A table for native floats and one for floats on the reference, without any code."""
    found: dict[bool, Words] = {native: zeros(2 * SLOTS).reshape(SLOTS, 2) for native in (True, False)}
    for table in found.values():
        _vacate(table, 0)
    return found


def _vacate(table: Words, slot: int) -> None:
    """Let no pc match this row: its tag is a pc that belongs into another one."""
    table[slot, 0] = 0 if slot else 2


def snapshot_of(region: Region) -> list[tuple[int, bytes]]:
    """The code bytes of a region, run by run."""
    words: dict[int, bytes] = {}
    for block in region.blocks.values():
        for pc, insn in block.insns:
            words[pc] = insn.word.to_bytes(insn.length, "little")
    out = []
    for first, last in region.spans:
        data = bytearray(last - first)
        for pc, code in words.items():
            if first <= pc < last:
                data[pc - first : pc - first + len(code)] = code
        out.append((first, bytes(data)))
    return out
