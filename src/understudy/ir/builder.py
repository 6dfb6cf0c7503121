"""Values of the JIT: names of LLVM IR values, and the text they are written into.

A `Value` is scalar or per-lane (one vector of `LaneText.lanes` lanes: the chunk that the loop around a strip works on).
It has an integer form, a float form, or both; each is made from the other when first asked for. A float form may hold
any NaN: the integer form made from it holds the canonical one, so arithmetic that feeds arithmetic pays for that once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from understudy.ir import llvm

FLOAT_TYPE: Final = {"h": "half", "s": "float", "d": "double"}
WIDTH: Final = {"h": 16, "s": 32, "d": 64}
QUIET_NAN: Final = {"h": 0x7E00, "s": 0x7FC0_0000, "d": 0x7FF8_0000_0000_0000}
INFINITY: Final = {"h": 0x7C00, "s": 0x7F80_0000, "d": 0x7FF0_0000_0000_0000}


class Value:
    """An IR value of `w` bits; `number` is its value where that is known at translation time.

    What is remembered of integers, for addresses: `halves` of 64 bits, the operation that `made` it, and the `scalar`
    that all lanes hold.
    """

    __slots__ = ("fmt", "halves", "ir", "is_canonical", "made", "number", "real", "scalar", "vec", "w")

    def __init__(
        self,
        w: int,
        vec: bool,
        ir: str | None = None,
        *,
        number: int | None = None,
        real: str | None = None,
        fmt: str = "",
        is_canonical: bool = False,
    ) -> None:
        self.w = w
        self.vec = vec
        self.ir = ir
        self.number = number
        self.real = real
        self.fmt = fmt
        self.is_canonical = is_canonical
        self.halves: Halves | None = None
        self.made: tuple[str, Value, Value] | None = None
        self.scalar: Value | None = None if vec else self


class Halves(NamedTuple):
    """What a 64-bit value per lane was made of: two of 32 bits, and a scalar of 64 bits that was added."""

    low: Value
    high: Value
    plus: Value | None = None


class Text:
    """Lines of IR being written: those that follow now, and those for head and end of the function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.label = "entry"
        self.tail: list[str] = []
        """Blocks that stand behind everything else."""
        self.allocas: list[str] = []
        """Lines for the head of the function."""
        self.declarations: dict[str, str] = {}
        """By name."""
        self._count = 0

    def put(self, line: str) -> None:
        """Add an instruction without a result."""
        self.lines.append("  " + line)

    def let(self, line: str) -> str:
        """Add an instruction and name its result."""
        self._count += 1
        name = f"%t{self._count}"
        self.lines.append(f"  {name} = {line}")
        return name

    def fresh(self, stem: str) -> str:
        """A new name for a label or variable, without its prefix."""
        self._count += 1
        return f"{stem}{self._count}"

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, condition: str, yes: str, no: str, hint: str = "") -> None:
        """End a block with a conditional branch."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}{hint}")

    def apart(self, label: str) -> Apart:
        """What is written in here is a block of its own at the end of the function."""
        return Apart(self, label)

    def taken(self) -> list[str]:
        """What was written so far, which is then no longer there."""
        lines, self.lines = self.lines, []
        return lines

    def alloca(self, line: str) -> None:
        """Have a variable at the head of the function, once."""
        if line not in self.allocas:
            self.allocas.append(line)

    def call(self, result: str, name: str, *arguments: str) -> str:
        """Call an external function or intrinsic whose arguments are written ``type value``."""
        self.declare(result, name, arguments)
        return self.let(f"call {result} @{name}({', '.join(arguments)})")

    def call_void(self, name: str, *arguments: str) -> None:
        """Likewise without a result."""
        self.declare("void", name, arguments)
        self.put(f"call void @{name}({', '.join(arguments)})")

    def declare(self, result: str, name: str, arguments: tuple[str, ...]) -> None:
        """Note that `name` is needed."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(map(_type, arguments))})"


class Apart:
    """A block that is written while another one is, and stands at the end of the function."""

    __slots__ = ("_label", "_lines", "_now", "_text")

    def __init__(self, text: Text, label: str) -> None:
        self._text = text
        self._label = label

    def __enter__(self) -> None:
        text = self._text
        self._lines, self._now, text.lines = text.lines, text.label, []
        text.start(self._label)

    def __exit__(self, *error: object) -> None:
        text = self._text
        text.tail += text.lines
        text.lines, text.label = self._lines, self._now


class LaneText(Text):
    """Lines of IR over chunks of `lanes` lanes, and the forms of values."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes

    # ---- types -----------------------------------------------------------------------------------------------
    def itype(self, w: int, vec: bool) -> str:
        """The integer type."""
        return f"<{self.lanes} x i{w}>" if vec else f"i{w}"

    def ftype(self, fmt: str, vec: bool) -> str:
        """The float type."""
        return f"<{self.lanes} x {FLOAT_TYPE[fmt]}>" if vec else FLOAT_TYPE[fmt]

    def suffix(self, kind: str, vec: bool) -> str:
        """How intrinsics are named for a type: kind like "i32" or "f64"."""
        return f"v{self.lanes}{kind}" if vec else kind

    # ---- values ----------------------------------------------------------------------------------------------
    def number(self, w: int, n: int) -> Value:
        """A constant."""
        n &= (1 << w) - 1
        return Value(w, False, number=n)

    def splat(self, kind: str, ir: str) -> str:
        """A vector whose lanes are all the scalar `ir` of LLVM type `kind`."""
        one = self.let(f"insertelement <{self.lanes} x {kind}> poison, {kind} {ir}, i64 0")
        return self.let(
            f"shufflevector <{self.lanes} x {kind}> {one}, <{self.lanes} x {kind}> poison, "
            f"<{self.lanes} x i32> zeroinitializer"
        )

    def mask_of(self, bits: str) -> str:
        """The instruction that spreads an integer of one bit per lane over a vector of width 1."""
        if self.lanes == 16:
            return f"bitcast i16 {bits} to <16 x i1>"
        # Hosts without mask registers take bits apart one by one where this is a bitcast.
        every = self.splat("i32", self.let(f"zext i{self.lanes} {bits} to i32"))
        ones = ", ".join(f"i32 {1 << lane}" for lane in range(self.lanes))
        return (
            f"icmp ne <{self.lanes} x i32> {self.let(f'and <{self.lanes} x i32> {every}, <{ones}>')}, zeroinitializer"
        )

    def hidden(self, element: str, ir: str) -> str:
        """A vector of "float" or "double", of whose lanes LLVM knows nothing; it costs no code."""
        whole, half = f"<{self.lanes} x {element}>", f"<{self.lanes // 2} x {element}>"
        if element == "float":
            return self._hidden(whole, ir)
        lanes = [f"i32 {lane}" for lane in range(self.lanes)]
        halves = []  # as many as a register holds
        for picked in (lanes[: self.lanes // 2], lanes[self.lanes // 2 :]):
            mask = f"<{len(picked)} x i32> <{', '.join(picked)}>"
            part = self.let(f"shufflevector {whole} {ir}, {whole} poison, {mask}")
            halves.append(f"{half} {self._hidden(half, part)}")
        return self.let(f"shufflevector {', '.join(halves)}, <{self.lanes} x i32> <{', '.join(lanes)}>")

    def _hidden(self, kind: str, ir: str) -> str:
        return self.let(f'call {kind} asm "", "=v,0"({kind} {ir})')

    def bits(self, value: Value, vec: bool | None = None) -> str:
        """The integer form; with `vec` as a vector even where the value is scalar."""
        wide = value.vec if vec is None else vec
        if value.number is not None:
            return self.literal(value.w, value.number, wide)
        if value.ir is None:
            value.ir = self._from_real(value)
        return self.splat(f"i{value.w}", value.ir) if wide and not value.vec else value.ir

    def literal(self, w: int, number: int, vec: bool) -> str:
        """A constant operand."""
        if w == 1:
            text = "true" if number else "false"
        else:
            text = str(number - (1 << w) if number >> (w - 1) else number)
        return f"splat (i{w} {text})" if vec else text

    def floating(self, value: Value, fmt: str, vec: bool | None = None) -> str:
        """The float form in the format `fmt`, whose width is the value's."""
        wide = value.vec if vec is None else vec
        if value.real is None or value.fmt != fmt:
            source = self.bits(value)
            value.real = self.let(f"bitcast {self.itype(value.w, value.vec)} {source} to {self.ftype(fmt, value.vec)}")
            value.fmt = fmt
            value.is_canonical = True
        return self.splat(FLOAT_TYPE[fmt], value.real) if wide and not value.vec else value.real

    def _from_real(self, value: Value) -> str:
        assert value.real is not None
        ftype, itype = self.ftype(value.fmt, value.vec), self.itype(value.w, value.vec)
        raw = self.let(f"bitcast {ftype} {value.real} to {itype}")
        if value.is_canonical:
            return raw
        nan = self.let(
            f"fcmp uno {ftype} {value.real}, zeroinitializer" if value.vec else f"fcmp uno {ftype} {value.real}, 0.0"
        )
        quiet = self.literal(value.w, QUIET_NAN[value.fmt], value.vec)
        return self.let(f"select {self.itype(1, value.vec)} {nan}, {itype} {quiet}, {itype} {raw}")


def vector_width(lanes: int) -> str:
    """Attributes of functions that work on chunks of `lanes` lanes.

    Chunks narrower than the host's are for hosts with narrower vectors, and use only what those have.
    """
    # Spilled vectors that cross cache lines are slow to come back.
    text = f'alignstack={4 * lanes} "prefer-vector-width"="{32 * lanes}" "min-legal-vector-width"="{32 * lanes}"'
    features = llvm.host_features()
    unused = sorted(name for name in features if (lanes < 16 and "avx512" in name) or (lanes < 8 and name == "avx2"))
    if not unused:
        return text
    kept = [f"+{name}" for name in sorted(features) if name not in unused]
    return f'{text} "target-features"="{",".join([*kept, *(f"-{name}" for name in unused)])}"'


def _type(argument: str) -> str:
    """The type of an argument ``type value`` whose value may be ``splat (...)`` or a constant vector."""
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    if argument.startswith("["):
        return argument[: argument.index("]") + 1]
    return argument.split(" ", 1)[0]
