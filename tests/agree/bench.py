"""Runs a case on one of our engines, in the same address layout as the qemu program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softcard.core.errors import AccessFault, BeyondModel
from softcard.core.space import PAGE_SIZE, AddressSpace, Ram, Unit
from softcard.engine.riscv.api import Engine, Exit
from softcard.isa.riscv import csr
from softcard.isa.riscv.isa import ALL
from softcard.isa.riscv.state import (
    FFLAGS,
    FRM,
    NO_ADDRESS,
    RESERVED_ADDRESS,
    RESERVED_VALUE,
    RETURN_ADDRESS,
    F,
    Hart,
)
from tests.agree.qemu import CODE, CODE_SLOT, DATA, DATA_SLOT, SCRATCH_BYTES, SLOTS, Case, State

UNKNOWN_ORIGIN = Unit(0)


Prepare = Callable[[Hart], None]
"""Last changes to a hart before it runs: csrs, privilege, reservation."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The whole hart after a run, and how the run ended."""

    state: State
    ending: str
    pc: int
    retired: int
    privilege: int
    csr: dict[int, int]
    reservation: tuple[int, int] | None
    elsewhere: bytes
    """The page of the data slot, and the next."""


class FlatPort:
    """A hart's whole view of an address space, with direct pages wherever the region allows them."""

    def __init__(self, space: AddressSpace) -> None:
        self.space = space

    def load(self, address: int, size: int) -> int:
        return int.from_bytes(self.space.read(address, size, UNKNOWN_ORIGIN), "little")

    def store(self, address: int, size: int, value: int) -> None:
        self.space.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"), UNKNOWN_ORIGIN)

    def fetch(self, address: int) -> int:
        return self.load(address, 2)

    def page(self, address: int, access: str) -> int | None:
        page = address & -PAGE_SIZE
        found = self.space.find(page, PAGE_SIZE)
        if found is None:
            if self.space.find(address) is None:
                raise AccessFault(f"no memory at {address:#x}", address=address, access=access)
            return None
        host = found.region.host_address(page - found.base, UNKNOWN_ORIGIN)
        return None if host is None else (host - page) % (1 << 64)

    def place(self, address: int) -> int | None:
        """Where in this process a byte lies."""
        found = self.space.find(address)
        return None if found is None else found.region.host_address(address - found.base, UNKNOWN_ORIGIN)


class WidePort(FlatPort):
    """A port that also tells engines how far a page's direct way goes."""

    def extent(self, address: int, access: str) -> tuple[int, int]:
        """First address and end of the region around `address`."""
        found = self.space.find(address)
        assert found is not None
        return found.base, found.end


class Bench:
    """One engine, one hart and memory for all slots; every case keeps its own addresses."""

    def __init__(self, engine: Engine, port: type[FlatPort] = FlatPort, ram: type[Ram] = Ram) -> None:
        self.engine = engine
        self.space = AddressSpace()
        self.space.map(CODE, ram(SLOTS * CODE_SLOT), "code")
        self.space.map(DATA, ram(SLOTS * DATA_SLOT), "data")
        self.hart = Hart(0, port(self.space), ALL)

    def load_code(self, cases: Sequence[Case]) -> None:
        """Place the code of all cases, as a host would: the engine is told."""
        for case in cases:
            self.space.write(case.slot.code, case.code, UNKNOWN_ORIGIN)
            found = self.space.find(case.slot.code)
            assert found is not None
            host = found.region.host_address(case.slot.code - found.base, UNKNOWN_ORIGIN)
            assert host is not None
            self.engine.code_written(host, len(case.code))

    def run(self, case: Case, fuel: int = 1000, prepare: Prepare | None = None) -> tuple[Exit, State]:
        """Run one loaded case from its state, at most to the end of its code; counters and csrs start afresh."""
        csr.reset(self.hart)
        self.enter(case)
        if prepare is not None:
            prepare(self.hart)
        return self.engine.run(self.hart, fuel), self.state(case)

    def outcome(self, case: Case, fuel: int, prepare: Prepare) -> Outcome:
        """Run one loaded case and note everything there is to see."""
        try:
            exit_, _ = self.run(case, fuel, prepare)
            ending = f"{exit_.why.value} at {exit_.pc:#x}, cause {exit_.cause}, value {exit_.value:#x}, {exit_.detail}"
        except BeyondModel as error:
            ending = f"BeyondModel: {error}"
        hart, words = self.hart, self.hart.words
        reserved = words[RESERVED_ADDRESS]
        return Outcome(
            state=self.state(case),
            ending=ending,
            pc=hart.pc,
            retired=hart.retired,
            privilege=hart.privilege,
            csr={number: value for number, value in sorted(hart.csr.items()) if value},
            reservation=None if reserved == NO_ADDRESS else (reserved, words[RESERVED_VALUE]),
            elsewhere=self.space.read(case.slot.data & -PAGE_SIZE, 2 * PAGE_SIZE, UNKNOWN_ORIGIN),
        )

    def enter(self, case: Case) -> None:
        """Set registers and memory for a case."""
        hart, words, before = self.hart, self.hart.words, case.before
        for n in range(32):
            words[n], words[F + n] = before.x[n], before.f[n]
        words[FFLAGS], words[FRM] = before.fcsr & 31, before.fcsr >> 5
        words[RETURN_ADDRESS] = case.slot.code + len(case.code)
        hart.pc = case.slot.code
        self.space.write(case.slot.scratch, before.memory, UNKNOWN_ORIGIN)

    def state(self, case: Case) -> State:
        """The state now."""
        words = self.hart.words
        return State(
            x=tuple(words[:32].tolist()),
            f=tuple(words[F : F + 32].tolist()),
            fcsr=words[FRM] << 5 | words[FFLAGS],
            memory=self.space.read(case.slot.scratch, SCRATCH_BYTES, UNKNOWN_ORIGIN),
        )
