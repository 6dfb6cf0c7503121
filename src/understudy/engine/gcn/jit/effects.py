"""What an instruction touches, found by running its meaning over an algebra that only takes notes.

The JIT orders and groups instructions by this, so that nothing about them is written down a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.core.errors import UnderstudyError
from understudy.engine.gcn.api import QUIET_HINTS
from understudy.isa.gcn.algebra import WaveIntegers
from understudy.isa.gcn.hwreg import HW_GPR_ALLOC, HW_STATUS
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics.execute import execute
from understudy.isa.gcn.state import EXEC, FULL, INDEXED_SGPRS, MODE_MASKS, VCC, Mode

ANY: object = object()
"""Stands for every value."""


@dataclass(slots=True)
class Environment:
    """The float control a host must have: None where it does not matter. `rounding` is MODE's number."""

    daz: bool | None = None
    ftz: bool | None = None
    rounding: int | None = None

    def over(self, other: Environment) -> Environment:
        """This, and `other` where this does not care."""
        return Environment(
            other.daz if self.daz is None else self.daz,
            other.ftz if self.ftz is None else self.ftz,
            other.rounding if self.rounding is None else self.rounding,
        )

    def joined(self, other: Environment) -> Environment | None:
        """What satisfies both, or None."""
        merged = self.over(other)
        return merged if other.over(self) == merged else None


@dataclass(slots=True)
class Effects:
    """Registers by operand code; a register pair by its first. `loads`, `stores`: memory spaces."""

    s_reads: set[int] = field(default_factory=set)
    s_writes: set[int] = field(default_factory=set)
    mask_reads: set[int] = field(default_factory=set)
    mask_writes: set[int] = field(default_factory=set)
    v_reads: set[int] = field(default_factory=set)
    v_writes: set[int] = field(default_factory=set)
    reads_scc: bool = False
    writes_scc: bool = False
    lanes: bool = False
    """Works lane by lane: belongs into a strip."""
    across: bool = False
    """Sees other lanes, or registers by a computed number: a strip of its own."""
    indexes: bool = False
    """Vector registers by a computed number."""
    indexes_scalars: bool = False
    """Scalar registers by a computed number."""
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    accesses: list[tuple[str, str]] = field(default_factory=list)
    """In order: load, store or atomic of lanes, or `single`, an atomic of the wave, and the space."""
    environment: Environment | None = field(default_factory=Environment)
    """None: no one setting of the host will do."""
    orders: list[tuple[str, int]] = field(default_factory=list)
    """Waits and cache operations, with their numbers: see `WaveAlgebra.order`."""
    reference: bool = False
    """Touches what only the reference engine has."""
    hwreg_written: int | None = None
    hardware: bool = False
    """Looks at or writes hardware registers."""
    mode_bits: int = 0
    """Bits of MODE that its meaning has looked at."""
    flow: str = "next"
    """next, branch, jump, indirect, end, barrier or sleep."""
    target: int = 0

    @property
    def writes_exec(self) -> bool:
        """Whether EXEC changes."""
        return bool(self.s_writes & {EXEC, EXEC + 1}) or EXEC in self.mask_writes

    @property
    def atomic(self) -> bool:
        """Whether it must not be done twice."""
        return any(kind == "atomic" for kind, _ in self.accesses)

    @property
    def is_repeatable(self) -> bool:
        """Whether all its accesses are stores: done once more, memory is the same."""
        return all(kind == "store" for kind, _ in self.accesses)

    @property
    def meets_itself(self) -> bool:
        """Whether all lanes must have done one access before the first of them does another."""
        return any(
            (kind, other) != ("load", "load") and meet(space, there)
            for n, (kind, space) in enumerate(self.accesses)
            for other, there in self.accesses[n + 1 :]
        )

    @property
    def phases(self) -> int:
        """How often it is gone through, once for each access: 1 where one loop over the lanes does all of it.

        More where the wave itself accesses memory for its lanes, or where accesses to LDS may meet.
        """
        if self.lanes and any(kind == "single" for kind, _ in self.accesses):
            return len(self.accesses) + 1
        is_local = all(space == "lds" for _, space in self.accesses)
        return len(self.accesses) if is_local and self.meets_itself else 1

    @property
    def memory(self) -> bool:
        """Whether memory is accessed."""
        return bool(self.loads or self.stores)


def meet(space: str, other: str) -> bool:
    """Whether accesses to these spaces may meet: flat addresses reach everything but GDS."""
    return space == other or (space == "flat" and other != "gds") or (other == "flat" and space != "gds")


def effects(insn: Insn, mode: Mode) -> Effects:
    """The effects of `insn` where MODE is `mode`."""
    notes = _Notes(mode)
    if insn.op.concrete or (insn.op.told is not None and insn.told is None):
        notes.found.reference = True
        return notes.found
    try:
        execute(notes, insn)
    except UnderstudyError:  # the reference engine will meet it as well, and say where
        notes.found = Effects(reference=True)
    return notes.found


class _LookedAt:
    """MODE, and notes of what is asked of it."""

    def __init__(self, mode: Mode, notes: _Notes) -> None:
        self._mode = mode
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        self._notes.found.mode_bits |= MODE_MASKS.get(name, FULL)
        return getattr(self._mode, name)


class _Notes:
    """The algebra that takes notes. `mode` is for meanings, `_mode` for what it does itself."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Any = _LookedAt(mode, self)
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
        if kind == "fadd" and self.found.environment is not None:  # whatever MODE says
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
        """An operation on `fmt` (binary16 is computed in binary32, whose settings do not matter to it)."""
        mode, out = self._mode, result or fmt
        rounding = 0 if env == "raw" else mode.rounding(out)
        daz = None if fmt == "h" or env == "raw" else env == "flush" or not mode.keeps(fmt)[0]
        ftz = None if out == "h" or env == "raw" else env == "flush" or not mode.keeps(out)[1]
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
            self.found.environment = self.found.environment.joined(Environment(daz=not self._mode.keeps(fmt)[0]))
        return ANY

    flt = fle = funo = feq

    def fround(self, fmt: str, a: Any, kind: str) -> Any:
        return self.feq(fmt, a, a)

    def fconvert(self, to: str, fmt: str, a: Any, env: str | None = None, rounding: int | None = None) -> Any:
        if (to, fmt) == ("s", "h"):  # exact, and no result is a denormal
            self.found.lanes = True
            return ANY
        return self._float(fmt, env, to)

    def ffrom_int(self, fmt: str, w: int, signed: bool, a: Any, env: str | None = None) -> Any:
        return self._float(fmt, env)


_PURE: Final = {name for name in dir(WaveIntegers) if not name.startswith("_")} | {"fflush", "fto_int"}


def _any(*_: Any, **__: Any) -> Any:
    return ANY
