"""A builder of LLVM IR text for the JIT, and the values that the text computes.

A `Value` is a scalar, or has a value for each lane of a wave or vector. A per-lane value is one IR vector of
`LaneText.lanes` lanes, the number that one iteration of a strip-mined loop processes. A value has an integer form, a
float form, or both; a missing form is made from the other at its first use. A float form may hold any NaN. The integer
form that is made from it holds the canonical NaN, so a chain of float operations canonicalises only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from softcard.core.errors import ModelBug
from softcard.ir import llvm
from softcard.ir.operand import POINTER, Operand, constant, element_type, with_lanes

FLOAT_TYPE: Final = {"h": "half", "s": "float", "d": "double"}
WIDTH: Final = {"h": 16, "s": 32, "d": 64}
QUIET_NAN: Final = {"h": 0x7E00, "s": 0x7FC0_0000, "d": 0x7FF8_0000_0000_0000}
INFINITY: Final = {"h": 0x7C00, "s": 0x7F80_0000, "d": 0x7FF0_0000_0000_0000}


_new: Final = str.__new__


class Value:
    """An IR value of `w` bits. `number` is its value if that is known at translation time, else None.

    For address arithmetic an integer value has more attributes: `halves` are the parts of a 64-bit value, `made`
    is the operation that computed the value, with its operands, and `scalar` is the value that all lanes hold."""

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
    """The parts of a 64-bit per-lane value: its two halves of 32 bits, and a 64-bit scalar added to them."""

    low: Value
    high: Value
    plus: Value | None = None


class Text:
    """A builder of a function's IR text.

    It holds the lines of the current block, and lines for the head and the end of the function.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.label = "entry"
        self.tail: list[str] = []
        """The blocks to be placed at the end of the function."""
        self.allocas: list[str] = []
        """The lines to be placed at the head of the function, such as stack allocations."""
        self.declarations: dict[str, str] = {}
        """The declarations of called external functions, by name."""
        self._count = 0

    def put(self, line: str) -> None:
        """Add an instruction that has no result."""
        self.lines.append("  " + line)

    def define(self, type: str, line: str) -> Operand:
        """Add an instruction with a result; `type` is the type of the result. Return the result as an operand."""
        self._count = count = self._count + 1
        self.lines.append(f"  %t{count} = {line}")
        # Made without `Operand.__new__`, which would take as long as the rest.
        made = _new(Operand, f"%t{count}")
        made.text = self
        made.type = type
        return made

    def named(self, name: str, result: Operand) -> Operand:
        """Rename the result of the last instruction to `name`, so that IR that is written elsewhere can refer to it."""
        made, _, line = self.lines[-1].strip().partition(" = ")
        if made != result:
            raise ModelBug(f"cannot name {result.typed} {name}, expected the result of the last instruction, {made}")
        self.lines[-1] = f"  {name} = {line}"
        return self.operand(result.type, name)

    def fixed(self, name: str, place: Operand, tail: str = "", type: str = POINTER) -> Operand:
        """Load a value through the pointer `place`, and give fixed names to the pointer and to the value.

        The pointer, which must be the last instruction's result, gets the name ``%q_name``; the loaded value, of
        type `type`, gets the name ``%name``. `tail` is appended to the load, such as metadata."""
        return self.named(f"%{name}", self.named(f"%q_{name}", place).load(type, tail=tail))

    def operand(self, type: str, name: str) -> Operand:
        """Return the operand of type `type` for `name`, a name or constant in IR text."""
        return Operand(self, type, name)

    def pointer(self, name: str) -> Operand:
        """Return the operand for a pointer with the given name."""
        return Operand(self, POINTER, name)

    def word(self, name: str | int) -> Operand:
        """Return the operand for a 64-bit integer: a name in the text, or a constant."""
        return Operand(self, "i64", str(name))

    def flag(self, value: bool) -> Operand:
        """Return a bool as a constant operand of type i1."""
        return Operand(self, "i1", "true" if value else "false")

    def constant(self, type: str, number: int) -> Operand:
        """Return the constant `number` of type `type` as an operand."""
        return Operand(self, type, constant(type, number))

    def shuffle(self, one: Operand, mask: str, other: Operand | None = None) -> Operand:
        """Return lanes of one or two vectors in the order of `mask`, a constant vector with its type."""
        second = f"{one.type} poison" if other is None else other.typed
        return self.define(with_lanes(mask, element_type(one.type)), f"shufflevector {one.typed}, {second}, {mask}")

    def gathered(
        self, type: str, pointers: Operand, mask: Operand, *, align: int, other: Operand | None = None
    ) -> Operand:
        """Load a vector of `type` through a vector of pointers, in the lanes that `mask` selects.

        The lanes that are not selected get the lanes of `other`, or 0.
        """
        name = f"llvm.masked.gather.{_suffix(type)}.{_suffix(pointers.type)}"
        rest = self.constant(type, 0) if other is None else other
        given = f"{pointers.type} align {align} {pointers}, {mask.typed}, {rest.typed}"
        return self.define(type, f"call {type} @{name}({given})")

    def scatter(self, value: Operand, pointers: Operand, mask: Operand, *, align: int) -> None:
        """Store the lanes of a vector that `mask` selects, each through the pointer in its lane."""
        name = f"llvm.masked.scatter.{_suffix(value.type)}.{_suffix(pointers.type)}"
        self.put(f"call void @{name}({value.typed}, {pointers.type} align {align} {pointers}, {mask.typed})")

    def jump(self, label: str) -> None:
        """End the current block with a branch to `label`."""
        self.lines.append(f"  br label %{label}")

    def ret(self, value: Operand | int) -> None:
        """End the function with the return value `value`; a Python integer is a 64-bit constant."""
        self.put(f"ret {value.typed if isinstance(value, Operand) else f'i64 {value}'}")

    def phi(self, type: str, *arms: tuple[Operand | int, str]) -> Operand:
        """Add a phi instruction; `arms` are pairs of a value and the label of the block from which it comes."""
        return self.define(type, f"phi {type} {', '.join(f'[ {value}, %{label} ]' for value, label in arms)}")

    def switch(self, value: Operand, other: str, *arms: tuple[int | str, str]) -> None:
        """End the current block with a switch instruction.

        It branches to the label of the arm whose number equals `value`, or else to the label `other`.
        """
        cases = " ".join(f"{value.type} {number}, label %{label}" for number, label in arms)
        self.put(f"switch {value.typed}, label %{other} [ {cases} ]")

    def invoke(self, result: str, function: str, *arguments: Operand | int) -> Operand:
        """Call a function of the module (``@name``) or at a pointer; return its result, of type `result`.

        A Python integer as an argument is a 64-bit constant.
        """
        given = ", ".join(each.typed if isinstance(each, Operand) else f"i64 {each}" for each in arguments)
        return self.define(result, f"call {result} {function}({given})")

    def invoke_void(self, function: str, *arguments: Operand | int) -> None:
        """Call a function without a result: one of the module, or one at a pointer."""
        given = ", ".join(each.typed if isinstance(each, Operand) else f"i64 {each}" for each in arguments)
        self.put(f"call void {function}({given})")

    def variable(self, name: str, type: str, tail: str = "") -> Operand:
        """Allocate a stack variable of type `type` at the current position; return its pointer.

        `tail` is appended to the instruction, such as an alignment.
        """
        self.put(f"{name} = alloca {type}{tail}")
        return self.pointer(name)

    def fresh(self, stem: str) -> str:
        """Return a new unique name for a label or variable, without the prefix ``%``; it begins with `stem`."""
        self._count += 1
        return f"{stem}{self._count}"

    def start(self, label: str) -> None:
        """Begin the block `label`."""
        self.lines.append(f"{label}:")
        self.label = label

    def branch(self, condition: str, yes: str, no: str, hint: str = "") -> None:
        """End the current block with a conditional branch; `hint` is metadata about the likely target."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}{hint}")

    def apart(self, label: str) -> Apart:
        """Return a context manager: the lines written inside it become the block `label` at the end of the function."""
        return Apart(self, label)

    def taken(self) -> list[str]:
        """Remove the lines written so far from the builder, and return them."""
        lines, self.lines = self.lines, []
        return lines

    def alloca(self, line: str) -> None:
        """Add an instruction, such as an alloca, to the head of the function, unless it is there already."""
        if line not in self.allocas:
            self.allocas.append(line)

    @contextmanager
    def at_head(self) -> Iterator[None]:
        """Collect the lines written inside this context, and add them to the head of the function on exit.

        A line that the head already contains is not repeated, so its result must have a fixed name."""
        lines, self.lines = self.lines, []
        try:
            yield
        finally:
            made, self.lines = self.lines, lines
        for line in made:
            self.alloca(line)

    def slot(self, name: str, type: str, tail: str = "") -> Operand:
        """Return the pointer of the stack variable `name`, which is allocated once at the function's head.

        `tail` is appended to the instruction, such as an alignment.
        """
        self.alloca(f"{name} = alloca {type}{tail}")
        return self.pointer(name.strip())

    def call(self, result: str, name: str, *arguments: str, tail: str = "") -> Operand:
        """Call an external function or intrinsic; return its result, of type `result`.

        Arguments are written ``type value``; `tail` are attributes of the call.
        """
        self.declare(result, name, arguments)
        return self.define(result, f"call {result} @{name}({', '.join(arguments)}){tail}")

    def call_void(self, name: str, *arguments: str) -> None:
        """Call an external function or intrinsic that has no result."""
        self.declare("void", name, arguments)
        self.put(f"call void @{name}({', '.join(arguments)})")

    def declare(self, result: str, name: str, arguments: tuple[str, ...]) -> None:
        """Declare the external function `name`, unless it is declared already."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(map(_type, arguments))})"


class Apart:
    """A context manager that writes an out-of-line block at the end of the function."""

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
    """An IR builder for vectors of `lanes` lanes, which also converts values between integer and float forms."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes

    # ---- types -----------------------------------------------------------------------------------------------
    def itype(self, w: int, vec: bool) -> str:
        """Return the LLVM type of integers of `w` bits; a vector type with all lanes if `vec` is True."""
        return f"<{self.lanes} x i{w}>" if vec else f"i{w}"

    def ftype(self, fmt: str, vec: bool) -> str:
        """Return the LLVM type of floats of format `fmt`; a vector type with all lanes if `vec` is True."""
        return f"<{self.lanes} x {FLOAT_TYPE[fmt]}>" if vec else FLOAT_TYPE[fmt]

    def suffix(self, kind: str, vec: bool) -> str:
        """Return the type suffix of an intrinsic's name; `kind` is the element type, such as "i32" or "f64"."""
        return f"v{self.lanes}{kind}" if vec else kind

    # ---- values ----------------------------------------------------------------------------------------------
    def number(self, w: int, n: int) -> Value:
        """Return the constant `n` as a value of `w` bits."""
        n &= (1 << w) - 1
        return Value(w, False, number=n)

    def splat(self, kind: str, ir: str) -> Operand:
        """Return a vector whose lanes all hold the scalar `ir` of LLVM type `kind`."""
        vector = f"<{self.lanes} x {kind}>"
        one = self.operand(vector, "poison").with_lane(0, self.operand(kind, ir))
        return self.shuffle(one, f"<{self.lanes} x i32> zeroinitializer")

    def mask_of(self, bits: Operand) -> Operand:
        """Return the vector of i1 that corresponds to an integer with one bit per lane."""
        if self.lanes == 16:
            return bits.bitcast("<16 x i1>")
        # On hosts without mask registers a bitcast would extract the bits one by one.
        every = self.splat("i32", bits.zext("i32"))
        ones = ", ".join(f"i32 {1 << lane}" for lane in range(self.lanes))
        return (every & self.operand(every.type, f"<{ones}>")).ne(0)

    def hidden(self, element: str, ir: str) -> Operand:
        """Return a copy of a "float" or "double" vector, made by an empty asm so that LLVM cannot analyse it.

        The copy costs no machine code.
        """
        whole, half = f"<{self.lanes} x {element}>", f"<{self.lanes // 2} x {element}>"
        if element == "float":
            return self._hidden(whole, ir)
        lanes = [f"i32 {lane}" for lane in range(self.lanes)]
        halves = []  # each has as many lanes as a register
        for picked in (lanes[: self.lanes // 2], lanes[self.lanes // 2 :]):
            mask = f"<{len(picked)} x i32> <{', '.join(picked)}>"
            halves.append(self._hidden(half, self.shuffle(self.operand(whole, ir), mask)))
        return self.shuffle(halves[0], f"<{self.lanes} x i32> <{', '.join(lanes)}>", halves[1])

    def _hidden(self, kind: str, ir: str) -> Operand:
        return self.define(kind, f'call {kind} asm "", "=v,0"({kind} {ir})')

    def bits(self, value: Value, vec: bool | None = None) -> Operand:
        """Return the bits of `value` as an integer operand; a float value is bit-cast, with every NaN made canonical.

        With `vec` True, a scalar value becomes a vector; with None, it stays a scalar."""
        wide = value.vec if vec is None else vec
        if value.number is not None:
            return self.literal(value.w, value.number, wide)
        if value.ir is None:
            value.ir = self._from_real(value)
        if wide and not value.vec:
            return self.splat(f"i{value.w}", value.ir)
        return value.ir if isinstance(value.ir, Operand) else self.operand(self.itype(value.w, wide), value.ir)

    def literal(self, w: int, number: int, vec: bool) -> Operand:
        """Return the constant `number` of `w` bits as an operand; a vector if `vec` is True."""
        if w == 1:
            text = "true" if number else "false"
        else:
            text = str(number - (1 << w) if number >> (w - 1) else number)
        return self.operand(self.itype(w, vec), f"splat (i{w} {text})" if vec else text)

    def floating(self, value: Value, fmt: str, vec: bool | None = None) -> Operand:
        """Return the bits of `value`, interpreted as a float of format `fmt`, as an operand.

        The format has the width of the value. With `vec` True, a scalar value becomes a vector; with None, it stays
        a scalar."""
        wide = value.vec if vec is None else vec
        if value.real is None or value.fmt != fmt:
            value.real = self.bits(value).bitcast(self.ftype(fmt, value.vec))
            value.fmt = fmt
            value.is_canonical = True
        if wide and not value.vec:
            return self.splat(FLOAT_TYPE[fmt], value.real)
        return value.real if isinstance(value.real, Operand) else self.operand(self.ftype(fmt, wide), value.real)

    def _from_real(self, value: Value) -> Operand:
        assert value.real is not None
        ftype, itype = self.ftype(value.fmt, value.vec), self.itype(value.w, value.vec)
        real = self.operand(ftype, value.real)
        raw = real.bitcast(itype)
        if value.is_canonical:
            return raw
        nan = real.is_unordered("zeroinitializer" if value.vec else "0.0")
        return nan.select(self.literal(value.w, QUIET_NAN[value.fmt], value.vec), raw)


def vector_width(lanes: int) -> str:
    """Return the LLVM attributes of a function that uses vectors of `lanes` lanes of 32 bits.

    They set the preferred vector width. They also disable those instruction sets of the host (AVX-512, AVX2)
    that are for wider vectors."""
    # Spilled vectors that cross cache lines are slow to reload.
    text = f'alignstack={4 * lanes} "prefer-vector-width"="{32 * lanes}" "min-legal-vector-width"="{32 * lanes}"'
    features = llvm.host_features()
    unused = sorted(name for name in features if (lanes < 16 and "avx512" in name) or (lanes < 8 and name == "avx2"))
    if not unused:
        return text
    kept = [f"+{name}" for name in sorted(features) if name not in unused]
    return f'{text} "target-features"="{",".join([*kept, *(f"-{name}" for name in unused)])}"'


def _suffix(type: str) -> str:
    """Return the part of an intrinsic's name that stands for the vector type `type`."""
    count, element = type[1:-1].split(" x ")
    return f"v{count}{'p0' if element == POINTER else element}"


def _type(argument: str) -> str:
    """Return the type in an argument that is written ``type value``.

    The value may be ``splat (...)`` or a constant vector.
    """
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    if argument.startswith("["):
        return argument[: argument.index("]") + 1]
    return argument.split(" ", 1)[0]
