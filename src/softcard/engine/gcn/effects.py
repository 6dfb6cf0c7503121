"""The effects of an instruction, found by abstract interpretation of its semantics.

The JIT orders and groups instructions by their effects, so that the effects need no separate tables. The module also
returns the registers that a failing instruction has read, for error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from softcard.core.errors import Registers, SoftcardError
from softcard.engine.gcn.api import QUIET_HINTS
from softcard.isa.gcn.algebra import WaveIntegers
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import (
    EXEC,
    FLAT_SCRATCH,
    FULL,
    HW_GPR_ALLOC,
    HW_STATUS,
    INDEXED_SGPRS,
    M0,
    MODE,
    MODE_MASKS,
    VCC,
    VGPRS,
    Mode,
    Wave,
    register_name,
)

if TYPE_CHECKING:
    from softcard.isa.gcn.semantics.matrix.table import Use

ANY: object = object()
"""The abstract value that stands for any value."""


@dataclass(slots=True)
class Environment:
    """The floating-point settings of the host that an instruction needs.

    A field is None if the instruction does not depend on it; `rounding` is the rounding mode as numbered in MODE."""

    daz: bool | None = None
    ftz: bool | None = None
    rounding: int | None = None

    def over(self, other: Environment) -> Environment:
        """Return these settings; fields that are None are replaced by those of `other`."""
        return Environment(
            other.daz if self.daz is None else self.daz,
            other.ftz if self.ftz is None else self.ftz,
            other.rounding if self.rounding is None else self.rounding,
        )

    def joined(self, other: Environment) -> Environment | None:
        """Return the settings that satisfy both requirements; None if they contradict each other."""
        merged = self.over(other)
        return merged if other.over(self) == merged else None


@dataclass(slots=True)
class Effects:
    """The effects of an instruction: registers and memory that it reads and writes.

    Registers are operand codes; a register pair is named by its first. `loads` and `stores` are memory spaces.
    """

    s_reads: set[int] = field(default_factory=set)
    s_writes: set[int] = field(default_factory=set)
    mask_reads: set[int] = field(default_factory=set)
    mask_writes: set[int] = field(default_factory=set)
    v_reads: set[int] = field(default_factory=set)
    v_writes: set[int] = field(default_factory=set)
    reads_scc: bool = False
    writes_scc: bool = False
    lanes: bool = False
    """True if the instruction works lane by lane, so that it belongs into a strip-mined loop."""
    across: bool = False
    """True if the instruction accesses other lanes, or registers whose number is computed at run time.

    Such an instruction needs a strip-mined loop of its own.
    """
    everywhere: bool = False
    """True if it writes its vector registers in all lanes, whatever EXEC is."""
    indexes: bool = False
    """True if the instruction accesses a vector register whose number is computed at run time."""
    indexes_scalars: bool = False
    """True if the instruction accesses a scalar register whose number is computed at run time."""
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    accesses: list[tuple[str, str]] = field(default_factory=list)
    """The memory accesses in order, each as kind and address space.

    The kind is load, store or atomic for accesses by lanes, and `single` for an atomic of the wave as a whole.
    """
    environment: Environment | None = field(default_factory=Environment)
    """The floating-point control that the instruction needs from the host.

    It is None if no single setting of the host is sufficient.
    """
    orders: list[tuple[str, int]] = field(default_factory=list)
    """The waits and cache operations, with their numbers: see `WaveAlgebra.order`."""
    reference: bool = False
    """True if the instruction needs something that only the reference engine implements."""
    hwreg_written: int | None = None
    hardware: bool = False
    """True if the instruction reads or writes hardware registers."""
    mode_bits: int = 0
    """The bits of MODE on which the instruction's semantics depend."""
    flow: str = "next"
    """The control flow: next, branch, jump, indirect, end, barrier or sleep."""
    target: int = 0

    @property
    def writes_exec(self) -> bool:
        """True if the instruction writes EXEC."""
        return bool(self.s_writes & {EXEC, EXEC + 1}) or EXEC in self.mask_writes

    @property
    def atomic(self) -> bool:
        """True if the instruction has an atomic access. Such an instruction must not be repeated."""
        return any(kind == "atomic" for kind, _ in self.accesses)

    @property
    def is_repeatable(self) -> bool:
        """True if all accesses of the instruction are stores.

        Repeating such an instruction leaves memory unchanged.
        """
        return all(kind == "store" for kind, _ in self.accesses)

    @property
    def meets_itself(self) -> bool:
        """True if two accesses of the instruction may overlap, and one of them is not a load.

        Then all lanes must complete one access before the first lane makes the next.
        """
        return any(
            (kind, other) != ("load", "load") and meet(space, there)
            for n, (kind, space) in enumerate(self.accesses)
            for other, there in self.accesses[n + 1 :]
        )

    @property
    def phases(self) -> int:
        """The number of passes over the lanes that the instruction needs; 1 if a single loop is sufficient.

        If the accesses are to LDS and may overlap, each access needs its own pass. If the wave as a whole makes one
        of the accesses, each access needs its own pass, and one more pass is needed."""
        if self.lanes and any(kind == "single" for kind, _ in self.accesses):
            return len(self.accesses) + 1
        is_local = all(space == "lds" for _, space in self.accesses)
        return len(self.accesses) if is_local and self.meets_itself else 1

    @property
    def memory(self) -> bool:
        """True if the instruction accesses memory."""
        return bool(self.loads or self.stores)


def meet(space: str, other: str) -> bool:
    """Return True if accesses to these two address spaces may overlap.

    Flat addresses reach all spaces except GDS.
    """
    return space == other or (space == "flat" and other != "gds") or (other == "flat" and space != "gds")


def effects(insn: Insn, mode: Mode) -> Effects:
    """Return the effects of `insn` under `mode`."""
    notes = _Notes(mode)
    if insn.op.concrete or (insn.op.selectors is not None and insn.selectors is None):
        notes.found.reference = True
        return notes.found
    try:
        execute(notes, insn)
    except SoftcardError:  # the reference engine raises the same error, with its place
        notes.found = Effects(reference=True)
    return notes.found


class _InspectedMode:
    """A MODE register that records which of its fields are read."""

    def __init__(self, mode: Mode, notes: _Notes) -> None:
        self._mode = mode
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        self._notes.found.mode_bits |= MODE_MASKS.get(name, FULL)
        return getattr(self._mode, name)


class _Notes:
    """An operations interface for an instruction's semantics that records effects instead of computing values.

    The semantics of an instruction access the attribute `mode`, which records the fields that they read. Methods
    of this class use `_mode` instead, so that their reads are not recorded."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Any = _InspectedMode(mode, self)
        self._mode = mode
        self.found = Effects()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _PURE:
            raise AttributeError(name)
        return _any

    # scalar state
    def s(self, n: int) -> Any:
        self.found.s_reads.add(n)
        return ANY

    def set_s(self, n: int, v: Any) -> None:
        self.found.s_writes.add(n)

    def s64(self, n: int) -> Any:
        self.found.s_reads |= {n, n + 1}
        return ANY

    def set_s64(self, n: int, v: Any) -> None:
        self.found.s_writes |= {n, n + 1}

    def scc(self) -> Any:
        self.found.reads_scc = True
        return ANY

    def set_scc(self, v: Any) -> None:
        self.found.writes_scc = True

    def s_indexed(self, n: int, offset: Any, w: int = 32) -> Any:
        self.found.indexes_scalars = True
        self.found.s_reads |= {*range(INDEXED_SGPRS), n, n + w // 32 - 1}
        return ANY

    def set_s_indexed(self, n: int, offset: Any, v: Any, w: int = 32) -> None:
        self.found.indexes_scalars = True
        self.found.s_writes |= set(range(INDEXED_SGPRS))

    def hwreg(self, number: int) -> Any:
        self.found.hardware = True
        if number == HW_STATUS:
            self.found.reads_scc = True
            self.found.s_reads |= {EXEC, EXEC + 1, VCC, VCC + 1}
        self.found.reference |= number == HW_GPR_ALLOC
        return ANY

    def set_hwreg(self, number: int, v: Any) -> None:
        self.found.hardware = True
        self.found.hwreg_written = number

    def time(self, kind: str) -> Any:
        return ANY

    # lanes
    def v(self, n: int) -> Any:
        self.found.lanes = True
        self.found.v_reads.add(n)
        return ANY

    def set_v(self, n: int, v: Any, where: Any = None) -> None:
        self.found.lanes = True
        self.found.v_writes.add(n)
        if where is not None:
            self.found.v_reads.add(n)

    def mask(self, n: int) -> Any:
        self.found.lanes = True
        self.found.mask_reads.add(n)
        return ANY

    def set_mask(self, n: int, m: Any) -> None:
        self.found.lanes = True
        self.found.mask_writes.add(n)

    def lane_bits(self, b: Any) -> Any:
        self.found.lanes = True
        return ANY

    def lane_id(self) -> Any:
        self.found.lanes = True
        return ANY

    def active(self) -> Any:
        self.found.lanes = True
        return ANY

    # across lanes
    def v_at(self, n: int, lane: Any) -> Any:
        self.found.lanes = self.found.across = True
        self.found.v_reads.add(n)
        return ANY

    def push(self, n: int, v: Any, lane: Any) -> None:
        self.found.lanes = self.found.across = True
        self.found.v_writes.add(n)

    def lane(self, n: int, lane: Any) -> Any:
        self.found.across = True
        self.found.v_reads.add(n)
        return ANY

    def set_lane(self, n: int, lane: Any, v: Any) -> None:
        self.found.across = True
        self.found.v_writes.add(n)

    def matrix(self, use: Use) -> None:
        self.found.across = self.found.everywhere = True
        self.found.v_reads |= use.reads
        self.found.v_writes |= set(use.d_rows)

    def v_indexed(self, n: int, offset: Any) -> Any:
        self.found.lanes = self.found.across = self.found.indexes = True
        return ANY

    def set_v_indexed(self, n: int, offset: Any, v: Any) -> None:
        self.found.lanes = self.found.across = self.found.indexes = True

    # memory
    def load(self, space: str, bits: int, address: Any, where: Any = None) -> list[Any]:
        self.found.lanes = True
        self.found.loads.add(space)
        self.found.accesses.append(("load", space))
        return [ANY] * max(1, bits // 32)

    def store(self, space: str, bits: int, address: Any, values: Sequence[Any], where: Any = None) -> None:
        self.found.lanes = True
        self.found.stores.add(space)
        self.found.accesses.append(("store", space))

    def atomic(self, space: str, kind: str, *_: Any, **__: Any) -> Any:
        if kind in SUMS and self.found.environment is not None:  # independent of MODE
            self.found.environment = self.found.environment.joined(Environment(False, False, 0))
        self.found.lanes = True
        self.found.loads.add(space)
        self.found.stores.add(space)
        self.found.accesses.append(("atomic", space))
        return ANY

    def scalar_load(self, dwords: int, address: Any, where: Any = None) -> list[Any]:
        self.found.loads.add("scalar")
        return [ANY] * dwords

    def scalar_store(self, address: Any, values: Sequence[Any], where: Any = None) -> None:
        self.found.stores.add("scalar")

    def scalar_atomic(self, space: str, *_: Any, **__: Any) -> Any:
        self.found.loads.add(space)
        self.found.stores.add(space)
        self.found.accesses.append(("single", space))
        return ANY

    def aperture(self, which: str) -> Any:
        return ANY

    def order(self, what: str, n: int = 0) -> None:
        self.found.orders.append((what, n))

    # control
    def branch(self, c: Any, target: int) -> None:
        self.found.flow, self.found.target = "branch", target

    def jump(self, target: int) -> None:
        self.found.flow, self.found.target = "jump", target

    def jump_to(self, target: Any) -> None:
        self.found.flow = "indirect"

    def end(self) -> None:
        self.found.flow = "end"

    def barrier(self) -> None:
        self.found.flow = "barrier"

    def hint(self, what: str, n: int = 0) -> None:
        if what == "sleep":
            self.found.flow = "sleep"
        elif what not in QUIET_HINTS:
            self.found.reference = True

    def trap(self, number: int) -> None:
        self.found.reference = True

    # floats
    def _float(self, fmt: str, env: str | None, result: str | None = None) -> Any:
        """Record a floating-point operation on format `fmt`.

        binary16 operations are computed in binary32, so they do not depend on the host's setting for denormals."""
        mode, out = self._mode, result or fmt
        rounding = 0 if env == "raw" else mode.rounding(out)
        daz = None if fmt == "h" or env == "raw" else env == "flush" or not mode.keeps_denormals(fmt)[0]
        ftz = None if out == "h" or env == "raw" else env == "flush" or not mode.keeps_denormals(out)[1]
        found = self.found
        found.lanes = True
        if found.environment is not None:
            found.environment = found.environment.joined(Environment(daz, ftz, rounding))
        return ANY

    def fadd(self, fmt: str, a: Any, b: Any, env: str | None = None) -> Any:
        return self._float(fmt, env)

    fsub = fmul = fdiv = fadd

    def fma(self, fmt: str, a: Any, b: Any, c: Any, env: str | None = None) -> Any:
        return self._float(fmt, env)

    def fsqrt(self, fmt: str, a: Any, env: str | None = None) -> Any:
        return self._float(fmt, env)

    def fldexp(self, fmt: str, a: Any, n: Any, env: str | None = None) -> Any:
        return self._float(fmt, env)

    def feq(self, fmt: str, a: Any, b: Any) -> Any:
        if fmt != "h" and self.found.environment is not None:
            self.found.environment = self.found.environment.joined(
                Environment(daz=not self._mode.keeps_denormals(fmt)[0])
            )
        return ANY

    flt = fle = funo = feq

    def fround(self, fmt: str, a: Any, kind: str) -> Any:
        return self.feq(fmt, a, a)

    def fconvert(self, to: str, fmt: str, a: Any, env: str | None = None, rounding: int | None = None) -> Any:
        if (to, fmt) == ("s", "h"):  # exact, and the result is never denormal
            self.found.lanes = True
            return ANY
        return self._float(fmt, env, to)

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: Any, env: str | None = None) -> Any:
        return self._float(fmt, env)


SUMS: Final = frozenset({"fadd", "hadd", "badd"})
"""The atomics that add floats: of 32 or 64 bits, packed binary16 and packed bfloat16."""
_PURE: Final = {name for name in dir(WaveIntegers) if not name.startswith("_")} | {"fflush", "fto_int"}


def _any(*_: Any, **__: Any) -> Any:
    return ANY


# ---- registers of a failing instruction ------------------------------------------------------------------------------
# The registers that a failing instruction read, with their values before it, on either engine.
#
# Translated code does not store dead vector registers, and may be ahead with scalar registers that the instruction does
# not read. The registers that it reads are exact: the reference engine has just read them itself to find the fault.


PAIRS: Final = {EXEC: "exec", VCC: "vcc"}


def registers_read(insn: Insn, wave: Wave, lane: int | None, said: str) -> Registers:
    """Return EXEC and the registers that `insn` reads: scalar registers, and the vector registers of lane `lane`.

    `said` is the text of the instruction. Instructions that access buffers or images must be specialised
    (`Insn.specific`)."""
    found = effects(insn, Mode.decode(int(wave.words[MODE])))
    pairs = PAIRS | {FLAT_SCRATCH[insn.target.level]: "flat_scratch"}
    scalars = {"exec": wave.s64(EXEC)}
    for n in sorted(found.s_reads):
        first = n if n in pairs else n - 1 if n - 1 in pairs else None
        if first is not None:
            scalars[pairs[first]] = wave.s64(first)
        elif n < len(wave.sgpr):
            scalars["m0" if n == M0 else f"s{n}"] = int(wave.sgpr[n])
    vectors = {} if lane is None else {register_name(n): _vector(wave, n, lane) for n in sorted(found.v_reads)}
    return Registers(insn.pc, said, scalars, vectors, lane)


def _vector(wave: Wave, n: int, lane: int) -> int:
    return int(wave.vgpr[n, lane] if n < VGPRS else wave.acc[n - VGPRS, lane])
