"""The shared part of the engines' tests: small programs in flat memory, run on every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from softcard.core.errors import AccessFault
from softcard.core.space import PAGE_BITS, PAGE_SIZE, AddressSpace, Ram, Unit
from softcard.engine.riscv.api import Exit
from softcard.engine.riscv.jit.engine import JitEngine
from softcard.engine.riscv.reference import ReferenceEngine
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache
from softcard.isa.riscv import csr, csrnames
from softcard.isa.riscv.decode import assemble, decode, length
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.isa import REFSI, Isa
from softcard.isa.riscv.state import FFLAGS, FRM, NO_ADDRESS, RETURN_ADDRESS, F, Hart

CODE, CODE_BYTES = 0x1_0000, 0x1_0000
DATA, DATA_BYTES = 0x40_0000, 0x21_0000
DEVICE, DEVICE_BYTES = 0x80_0000, 0x1000
DATA_END = DATA + DATA_BYTES
WATCHED, PART = (0, 0xF_E000, DATA_BYTES - 0x3000), 0x3000
"""The offsets of the data memory that outcomes contain: its ends, and around the border of a page-table chunk."""
MASK64 = (1 << 64) - 1
UNKNOWN_ORIGIN = Unit(0)
CACHE = ObjectCache()
"""Objects of all tests: they are in memory only, and named by their content."""

ENGINES: dict[str, Callable[..., ReferenceEngine]] = {
    "reference": ReferenceEngine,
    "quick": lambda **options: JitEngine(tier=llvm.QUICK, cache=CACHE, **options),
    "optimised": lambda **options: JitEngine(tier=llvm.OPTIMISED, cache=CACHE, **options),
}


class Device:
    """Registers that note who touched them; a read gives how often that has happened before."""

    size = DEVICE_BYTES

    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []

    def read(self, offset: int, size: int, unit: Unit) -> bytes:
        self.log.append(("read", offset, size))
        return (len(self.log) & (1 << 8 * size) - 1).to_bytes(size, "little")

    def write(self, offset: int, data: bytes, unit: Unit) -> None:
        self.log.append(("write", offset, data))

    def host_address(self, offset: int, unit: Unit) -> int | None:
        return None


class FlatPort:
    """A view of a whole address space, with direct pages wherever the region allows them."""

    def __init__(self, space: AddressSpace) -> None:
        self.space = space
        self.asked: list[tuple[int, str]] = []

    def load(self, address: int, size: int) -> int:
        return int.from_bytes(self.space.read(address, size, UNKNOWN_ORIGIN), "little")

    def store(self, address: int, size: int, value: int) -> None:
        self.space.write(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"), UNKNOWN_ORIGIN)

    def fetch(self, address: int) -> int:
        return int.from_bytes(self.space.read(address, 2, UNKNOWN_ORIGIN), "little")

    def page(self, address: int, access: str) -> int | None:
        self.asked.append((address, access))
        found = self.space.find(address)
        if found is None:
            raise AccessFault(f"no memory at {address:#x}", address=address, access=access)
        page = address & -PAGE_SIZE
        host = found.region.host_address(page - found.base, UNKNOWN_ORIGIN)
        return None if host is None else (host - page) & MASK64


class WidePort(FlatPort):
    """A port that also tells how far a page's difference holds."""

    def extent(self, address: int, access: str) -> tuple[int, int]:
        found = self.space.find(address)
        assert found is not None
        return found.base, found.end


class OddPort(WidePort):
    """Data lies a byte further on."""

    further = 1

    def page(self, address: int, access: str) -> int | None:
        found = super().page(address, access)
        return found if found is None or not DATA <= address < DATA_END else found + self.further


@dataclass(frozen=True)
class Outcome:
    """Everything there is to see after a run."""

    ending: str
    pc: int
    cause: int
    value: int
    retired: int
    x: tuple[int, ...]
    f: tuple[int, ...]
    fcsr: int
    status: int
    memory: bytes
    log: tuple[tuple[object, ...], ...]


class Rig:
    """One engine, memory, and one hart or more."""

    def __init__(
        self,
        engine: ReferenceEngine,
        port: type[FlatPort] = WidePort,
        ram: Callable[[int], Ram] = Ram,
    ) -> None:
        self.engine = engine
        self.space = AddressSpace()
        self.code, self.data, self.device = ram(CODE_BYTES), ram(DATA_BYTES), Device()
        self.space.map(CODE, self.code, "code")
        self.space.map(DATA, self.data, "data")
        self.space.map(DEVICE, self.device, "device")
        self.port = port(self.space)
        self.hart = self.new_hart(0)

    def new_hart(self, index: int, port: FlatPort | None = None) -> Hart:
        hart = Hart(index, self.port if port is None else port)
        csr.reset(hart)
        floats_on(hart)
        return hart

    def place(self, text: str, at: int = CODE) -> int:
        """Assemble `text` into memory, as a host would; return the address after it."""
        code = assemble(text, at)
        self.space.write(at, code, UNKNOWN_ORIGIN)
        self.engine.code_written(self.host(at), len(code))
        return at + len(code)

    def host(self, address: int) -> int:
        found = self.space.find(address)
        assert found is not None
        host = found.region.host_address(address - found.base, UNKNOWN_ORIGIN)
        assert host is not None
        return host

    def warm(self, hart: Hart | None = None) -> None:
        """Fill the page tables, so that no first touch comes in between."""
        pages = self.engine.context(hart or self.hart).pages
        for address in range(DATA, DATA_END, PAGE_SIZE):
            if not pages.load[address >> PAGE_BITS]:
                pages.fill(address, "load")
            if not pages.store[address >> PAGE_BITS]:
                pages.fill(address, "store")

    def run(self, end: int, fuel: int = 100_000, pc: int = CODE, hart: Hart | None = None, **x: int) -> Outcome:
        """Run from `pc` with these registers, the others zero, until `end` is reached."""
        hart = hart or self.hart
        words = hart.words
        for n in range(32):
            words[n] = x.get(f"x{n}", 0) & MASK64
            words[F + n] = x.get(f"f{n}", 0) & MASK64
        words[FFLAGS], words[FRM] = 0, x.get("frm", 0)
        hart.pc, words[RETURN_ADDRESS] = pc, end
        before = hart.retired
        self.device.log.clear()
        exit_ = self.engine.run(hart, fuel)
        return self.outcome(hart, exit_, before)

    def outcome(self, hart: Hart, exit_: Exit, before: int = 0) -> Outcome:
        words = hart.words
        return Outcome(
            exit_.why.value,
            exit_.pc,
            exit_.cause,
            exit_.value,
            hart.retired - before,
            tuple(words[:32]),
            tuple(words[F : F + 32]),
            words[FRM] << 5 | words[FFLAGS],
            hart.csr.get(csrnames.MSTATUS, 0),
            b"".join(bytes(self.data.view[start : start + PART]) for start in WATCHED),
            tuple(self.device.log),
        )


def floats_on(hart: Hart, fs: int = 3) -> None:
    """Set mstatus.FS."""
    hart.csr[csrnames.MSTATUS] = hart.csr.get(csrnames.MSTATUS, 0) & ~(3 << 13) | fs << 13


def agree(
    text: str,
    fuels: Iterable[int] = (100_000,),
    *,
    end: int | None = None,
    memory: bytes = b"",
    at: int = DATA,
    warm: bool = True,
    port: type[FlatPort] = WidePort,
    **x: int,
) -> list[Outcome]:
    """Run a program on every engine once for each fuel, from the same state; all must agree on everything.

    `memory` is laid down at `at` before each run. `end` is the return address, by default after the program. Runs
    share an engine, so that the first may translate and the later ones find translated code.
    """
    outcomes: dict[str, list[Outcome]] = {}
    for name, make in ENGINES.items():
        rig = Rig(make(), port)
        following = rig.place(text)
        if warm:
            rig.warm()
        outcomes[name] = []
        for fuel in fuels:
            rig.data.clear()
            rig.space.write(at, memory, UNKNOWN_ORIGIN)
            if not warm:
                rig.engine.flush_pages(rig.hart)
            outcomes[name].append(rig.run(following if end is None else end, fuel, **x))
    expected = outcomes["reference"]
    for name, found in outcomes.items():
        for fuel, mine, theirs in zip(fuels, found, expected, strict=True):
            assert brief(mine) == brief(theirs), f"{name}, fuel {fuel}"
            assert mine.memory == theirs.memory, f"{name}, fuel {fuel}: memory"
    return expected


def brief(outcome: Outcome) -> dict[str, object]:
    """An outcome without its memory, in a form that pytest compares readably."""
    small = replace(outcome, memory=b"")
    x = {f"x{n}": value for n, value in enumerate(small.x) if value}
    f = {f"f{n}": value for n, value in enumerate(small.f) if value}
    others = {
        name: getattr(small, name) for name in ("ending", "pc", "cause", "value", "retired", "fcsr", "status", "log")
    }
    return others | x | f


def fetcher(text: str, at: int = CODE, isa: Isa = REFSI) -> Callable[[int], Insn | None]:
    """Return a `fetch` function for `discover`: the instruction of a program at a pc."""
    code = assemble(text, at)

    def fetch(pc: int) -> Insn | None:
        data = code[pc - at : pc - at + 4] if pc >= at else b""
        if len(data) < 2:
            return None
        word = int.from_bytes(data, "little")
        return decode(word if length(word & 0xFFFF) == 4 else word & 0xFFFF, isa)

    return fetch


NEVER = NO_ADDRESS
