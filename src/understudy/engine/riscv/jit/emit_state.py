"""The algebra over LLVM IR, where registers and memory are: slots of the region's function, tables of the hart."""

from __future__ import annotations

from understudy.engine.riscv.jit.dispatcher import STEP
from understudy.engine.riscv.jit.emit_float import BITS, TYPE, FloatEmitter, Held
from understudy.engine.riscv.jit.floatreps import FORMAT, INTEGER, Rep, Reps, analyse
from understudy.engine.riscv.jit.region import Region

_AMO = {"swap": "xchg", "add": "add", "and": "and", "or": "or", "xor": "xor"}
_AMO |= {"min": "min", "max": "max", "minu": "umin", "maxu": "umax"}


_LOG2 = {8: 0, 16: 1, 32: 2, 64: 3}


class StateEmitter(FloatEmitter):
    """Registers are read into IR values at first use in a block and written to their slots where it ends."""

    def __init__(self, region: Region, features: frozenset[str], native_float: bool = True) -> None:
        super().__init__()
        self.region = region
        self.features = features
        self.native_float = native_float
        self.fused = "fma" in features
        self.reps_before = analyse(region) if native_float else {start: {} for start in region.blocks}
        self.xs: dict[int, str] = {}
        self.fs: dict[int, Held | str] = {}
        self.reps: Reps = {}
        self.dirty_x: set[int] = set()
        self.dirty_f: set[int] = set()
        self.used_x: set[int] = set()
        self.written_x: set[int] = set()
        self.slots: set[tuple[int, str]] = set()
        self.written_f: set[int] = set()
        self.exits: dict[tuple[int, tuple[tuple[int, Rep], ...]], str] = {}
        self.pc = self.next_pc = 0
        self.fuel = "0"
        self.refund = 0
        self.out: str | None = None
        self.terminator: tuple[str, ...] = ()
        self.addends: dict[int, str] = {}
        self.back: tuple[int, str] | None = None

    # -- registers

    def x(self, n: int) -> str:
        """Integer register."""
        if not n:
            return "0"
        if n not in self.xs:
            self.used_x.add(n)
            self.xs[n] = self.value(f"load i64, ptr %x{n}")
        return self.xs[n]

    def set_x(self, n: int, v: str) -> None:
        """Write an integer register."""
        if n:
            self.xs[n] = v
            self.dirty_x.add(n)
            self.used_x.add(n)
            self.written_x.add(n)

    def _held(self, n: int) -> Held | str:
        if n not in self.fs:
            fmt, kind = self.reps.get(n, INTEGER)
            self.slots.add((n, fmt))
            ty = "i64" if fmt == "I" else TYPE[fmt.lower()]
            name = self.value(f"load {ty}, ptr %f{fmt}{n}")
            self.fs[n] = name if fmt == "I" else Held(fmt.lower(), kind, name)
        return self.fs[n]

    def f(self, n: int, fmt: str) -> Held:
        """Register in a format."""
        v = self._held(n)
        if isinstance(v, Held) and v.fmt == fmt:
            return v
        return self.from_integer(fmt, self.as_integer(v) if isinstance(v, Held) else v)

    def set_f(self, n: int, fmt: str, v: Held) -> None:
        """Write a register."""
        self.fs[n] = v
        self.reps[n] = (FORMAT[fmt], v.kind)
        self.dirty_f.add(n)
        self.written_f.add(n)

    def f_raw(self, n: int) -> str:
        """All 64 bits."""
        v = self._held(n)
        return self.as_integer(v) if isinstance(v, Held) else v

    def f_from_bits(self, fmt: str, v: str) -> Held:
        """The float with this bit pattern; a value loaded for this alone is loaded as a float instead."""
        prefix = f"  {v} = load volatile i{BITS[fmt]}, "
        if not self.lines[-1].startswith(prefix) or v in self.xs.values():
            return super().f_from_bits(fmt, v)
        self.lines[-1] = f"  {v} = load volatile {TYPE[fmt]}, " + self.lines[-1][len(prefix) :]
        return Held(fmt, "x", v)

    # -- memory

    def _pointer(self, w: int, address: str, tables: tuple[str, ...]) -> str:
        known = self.addends.get(self.pc)
        if known is not None:
            return self.value(f"inttoptr i64 {self.value(f'add i64 {known}, {address}')} to ptr")
        log2 = _LOG2[w]
        if log2:
            self.declared.add("declare i64 @llvm.fshr.i64(i64, i64, i64)")
            turned = self.value(f"call i64 @llvm.fshr.i64(i64 {address}, i64 {address}, i64 {log2})")
        else:
            turned = address
        # A misaligned address has low bits that the rotation brought to the top: one comparison tests both.
        self.side(self.value(f"icmp ugt i64 {turned}, {(1 << (32 - log2)) - 1}"))
        page = self.value(f"lshr i64 {turned}, {12 - log2}")
        addend = ""
        for table in tables:
            slot = self.value(f"getelementptr i64, ptr %{table}, i64 {page}")
            addend = self.value(f"load i64, ptr {slot}")
            self.side(self.value(f"icmp eq i64 {addend}, 0"))
        host = self.value(f"add i64 {addend}, {address}")
        return self.value(f"inttoptr i64 {host} to ptr")

    def load(self, w: int, address: str) -> str:
        """Aligned load."""
        pointer = self._pointer(w, address, ("loads",))
        return self.value(f"load volatile i{w}, ptr {pointer}, align {w >> 3}")

    def store(self, w: int, address: str, v: str) -> None:
        """Aligned store."""
        pointer = self._pointer(w, address, ("stores",))
        held = self.float_of.get(v)
        if held is not None and BITS[held.fmt] != w:
            held = None  # all 64 bits of a boxed single
        what = f"{TYPE[held.fmt]} {held.name}" if held is not None else f"i{w} {v}"
        self.line(f"store volatile {what}, ptr {pointer}, align {w >> 3}")

    def amo(self, kind: str, w: int, address: str, v: str) -> str:
        """Atomic read-modify-write."""
        self._synchronize()
        pointer = self._pointer(w, address, ("loads", "stores"))
        return self.value(f"atomicrmw volatile {_AMO[kind]} ptr {pointer}, i{w} {v} seq_cst")

    def load_reserved(self, w: int, address: str) -> str:
        """Load and reserve."""
        self._synchronize()
        pointer = self._pointer(w, address, ("loads",))
        old = self.value(f"load atomic volatile i{w}, ptr {pointer} seq_cst, align {w >> 3}")
        self.line(f"store i64 {address}, ptr %reserved")
        self.line(f"store i64 {self.zext(64, w, old)}, ptr %reserved_value")
        return old

    def store_conditional(self, w: int, address: str, v: str) -> str:
        """0 and stored if the reservation holds, else 1."""
        self._synchronize()
        pointer = self._pointer(w, address, ("loads", "stores"))
        reserved = self.value("load i64, ptr %reserved")
        held = self.value(f"icmp eq i64 {reserved}, {address}")
        self.line("store i64 -1, ptr %reserved")
        self.line("store i64 1, ptr %scratch")
        attempt, join = self.label("sc"), self.label("join")
        self.line(f"br i1 {held}, label %{attempt}, label %{join}")
        self.lines.append(f"{attempt}:")
        expected = self.value("load i64, ptr %reserved_value")
        narrow = self.trunc(w, 64, expected)
        pair = self.value(f"cmpxchg volatile ptr {pointer}, i{w} {narrow}, i{w} {v} seq_cst seq_cst")
        done = self.value(f"extractvalue {{ i{w}, i1 }} {pair}, 1")
        failed = self.value(f"xor i1 {done}, true")
        self.line(f"store i64 {self.zext(64, 1, failed)}, ptr %scratch")
        self.line(f"br label %{join}")
        self.lines.append(f"{join}:")
        return self.value("load i64, ptr %scratch")

    def fence(self) -> None:
        """Order accesses of this thread."""
        self._synchronize()
        self.line("fence seq_cst")

    def _synchronize(self) -> None:
        """What synchronizes harts leaves while others run, and is noted."""
        shared = self.value("load i64, ptr %shared")
        self.side(self.value(f"icmp ne i64 {shared}, 0"))
        self.line("store i64 1, ptr %synchronized")

    # -- control flow

    def branch(self, c: str, offset: int) -> None:
        """Conditional, pc-relative."""
        self.terminator = ("branch", c)

    def jump(self, offset: int) -> None:
        """Unconditional, pc-relative."""
        self.terminator = ("jump", str((self.pc + offset) & ((1 << 64) - 1)))

    def jump_to(self, address: str) -> None:
        """Computed."""
        self.terminator = ("indirect", address)

    def side(self, condition: str) -> None:
        """Leave to the reference engine, before this instruction, where `condition` is 1."""
        if self.out is None:
            self.out = self.label("side")
            body, self.lines = self.lines, [f"{self.out}:"]
            self._leave(str(self.const(64, self.pc)), STEP, self.refund)
            self.tail += self.lines
            self.lines = body
        join = self.label("on")
        self.line(f"br i1 {condition}, label %{self.out}, label %{join}, !prof !0")
        self.lines.append(f"{join}:")

    def _leave(self, pc: str, code: int, refund: int) -> None:
        """Write what is dirty to its slot and go to the exit for the present representations."""
        self._flush()
        fuel = self.value(f"add i64 {self.fuel}, {refund}") if refund else self.fuel
        self.line(f"store i64 {fuel}, ptr %fuel")
        self.line(f"store i64 {pc}, ptr %pc")
        key = (code, tuple(sorted((n, rep) for n, rep in self.reps.items() if rep != INTEGER)))
        label = self.exits.setdefault(key, f"exit{len(self.exits)}")
        self.line(f"br label %{label}")

    def _flush(self) -> None:
        """Write what is dirty to its slot."""
        for n in sorted(self.dirty_x):
            self.line(f"store i64 {self.xs[n]}, ptr %x{n}")
        for n in sorted(self.dirty_f):
            self._spill(n)

    def _spill(self, n: int) -> None:
        v = self.fs[n]
        fmt = v.fmt.upper() if isinstance(v, Held) else "I"
        self.slots.add((n, fmt))
        ty, name = (TYPE[v.fmt], v.name) if isinstance(v, Held) else ("i64", v)
        self.line(f"store {ty} {name}, ptr %f{fmt}{n}")

    def _begin(self, start: int, label: str) -> None:
        self.xs, self.fs, self.dirty_x, self.dirty_f = {}, {}, set(), set()
        self.reps = dict(self.reps_before[start])
        self.float_of.clear()
        self.terminator = ()
        self.lines.append(f"{label}:")
        self.fuel = self.value("load i64, ptr %fuel")
