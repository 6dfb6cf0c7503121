"""Operands of LLVM IR with operators: ``(row + 8 * number).inttoptr().load("i64")`` writes three instructions.

An `Operand` is the name of a value in the IR text, with the value's type. An operator adds an instruction to
the text and returns the operand of its result; operands whose types do not agree raise an error. An operand
is a `str` that contains the name, so it can be inserted into a line of IR text. Two operands are equal if
their names are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from softcard.core.errors import ModelBug

if TYPE_CHECKING:
    from softcard.ir.builder import Text

POINTER: Final = "ptr"


class Operand(str):
    """A value in IR: its name or a constant, and its LLVM `type`. Operators add instructions to `text`.

    Operators are unsigned. A Python integer as the other operand is a constant of the type, in every lane of a vector.
    """

    __slots__ = ("text", "type")
    text: Text
    type: str

    def __new__(cls, text: Text, type: str, name: str) -> Operand:
        """Return the operand for `name`, which has a value of this type in `text`."""
        made = super().__new__(cls, name)
        made.text = text
        made.type = type
        return made

    @property
    def typed(self) -> str:
        """The type and the name, as in the arguments of a call: ``i64 %x``."""
        return f"{self.type} {self}"

    # ---- operands ------------------------------------------------------------------------------------------------
    def like(self, other: Operand | int) -> str:
        """Return `other` as an operand of this operand's type; a Python integer becomes a constant.

        Raise `ModelBug` for an operand of another type.
        """
        if isinstance(other, Operand):
            if other.type != self.type:
                raise ModelBug(f"operands {self.typed} and {other.typed} differ in type: convert one of them")
            return other
        if isinstance(other, int):
            return constant(self.type, other)
        raise ModelBug(f"operand {self.typed} cannot be combined with {other!r}, expected an operand or an integer")

    def binary(self, operation: str, other: Operand | int) -> Operand:
        """Add an instruction whose operands and result have this operand's type; return the result."""
        kind = self.type
        like = other if isinstance(other, Operand) and other.type == kind else self.like(other)
        return self.text.define(kind, f"{operation} {kind} {self}, {like}")

    def compare(self, test: str, other: Operand | int) -> Operand:
        """Return the i1 result of an integer comparison, lane by lane; `test` is LLVM's name for it."""
        return self.text.define(flags(self.type), f"icmp {test} {self.type} {self}, {self.like(other)}")

    def cast(self, operation: str, type: str) -> Operand:
        """Return this value converted to another type by an instruction such as ``zext``."""
        return self.text.define(type, f"{operation} {self.type} {self} to {type}")

    # ---- arithmetic ----------------------------------------------------------------------------------------------
    def __add__(self, other: Operand | int) -> Operand:  # type: ignore[override]
        return self.binary("add", other)

    def __radd__(self, other: int) -> Operand:
        raise ModelBug(f"{other!r} + operand {self.typed}: write the operand on the left")

    def __sub__(self, other: Operand | int) -> Operand:
        return self.binary("sub", other)

    def __rsub__(self, other: int) -> Operand:
        return self.text.define(self.type, f"sub {self.type} {self.like(other)}, {self}")

    def __mul__(self, other: Operand | int) -> Operand:  # type: ignore[override]
        return self.binary("mul", other)

    def __mod__(self, other: Operand | int) -> Operand:
        return self.binary("urem", other)

    def __floordiv__(self, other: Operand | int) -> Operand:
        return self.binary("udiv", other)

    def __and__(self, other: Operand | int) -> Operand:
        return self.binary("and", other)

    def __or__(self, other: Operand | int) -> Operand:
        return self.binary("or", other)

    def __xor__(self, other: Operand | int) -> Operand:
        return self.binary("xor", other)

    def __invert__(self) -> Operand:
        return self.binary("xor", -1)

    def __lshift__(self, other: Operand | int) -> Operand:
        return self.binary("shl", other)

    def __rlshift__(self, other: int) -> Operand:
        return self.text.define(self.type, f"shl {self.type} {self.like(other)}, {self}")

    def __rshift__(self, other: Operand | int) -> Operand:
        return self.binary("lshr", other)

    def ashr(self, other: Operand | int) -> Operand:
        """Return this value shifted right arithmetically."""
        return self.binary("ashr", other)

    def fadd(self, other: Operand) -> Operand:
        """Return the sum of two floats."""
        return self.binary("fadd", other)

    def fsub(self, other: Operand) -> Operand:
        """Return the difference of two floats."""
        return self.binary("fsub", other)

    def fmul(self, other: Operand) -> Operand:
        """Return the product of two floats."""
        return self.binary("fmul", other)

    def fneg(self) -> Operand:
        """Return a float with its sign flipped."""
        return self.text.define(self.type, f"fneg {self.typed}")

    # ---- comparisons ---------------------------------------------------------------------------------------------
    def eq(self, other: Operand | int) -> Operand:
        """Return the i1 result of a comparison for equality, lane by lane."""
        return self.compare("eq", other)

    def ne(self, other: Operand | int) -> Operand:
        """Return the i1 result of a comparison for inequality, lane by lane."""
        return self.compare("ne", other)

    def __lt__(self, other: Operand | int) -> Operand:  # type: ignore[override]
        return self.compare("ult", other)

    def __le__(self, other: Operand | int) -> Operand:  # type: ignore[override]
        return self.compare("ule", other)

    def __gt__(self, other: Operand | int) -> Operand:  # type: ignore[override]
        return self.compare("ugt", other)

    def __ge__(self, other: Operand | int) -> Operand:  # type: ignore[override]
        return self.compare("uge", other)

    def slt(self, other: Operand | int) -> Operand:
        """Return the i1 result of signed less-than."""
        return self.compare("slt", other)

    def sle(self, other: Operand | int) -> Operand:
        """Return the i1 result of signed less-or-equal."""
        return self.compare("sle", other)

    def sgt(self, other: Operand | int) -> Operand:
        """Return the i1 result of signed greater-than."""
        return self.compare("sgt", other)

    def sge(self, other: Operand | int) -> Operand:
        """Return the i1 result of signed greater-or-equal."""
        return self.compare("sge", other)

    def compare_floats(self, test: str, other: Operand | str) -> Operand:
        """Return the i1 result of a float comparison; `other` may be a constant such as ``0.0``."""
        return self.text.define(flags(self.type), f"fcmp {test} {self.type} {self}, {other}")

    def is_unordered(self, other: Operand | str) -> Operand:
        """Return an i1 that is true if either float is a NaN; `other` may be a constant such as ``0.0``."""
        return self.compare_floats("uno", other)

    def select(self, a: Operand | int, b: Operand | int, type: str = "") -> Operand:
        """Return `a` where this i1 is true, else `b`; `type` is needed if both are Python integers."""
        like = a if isinstance(a, Operand) else b
        type = type or (like.type if isinstance(like, Operand) else "")
        if not type:
            raise ModelBug(f"select of {a!r} and {b!r} needs a type because neither is an operand: pass a type")
        one, other = (each if isinstance(each, Operand) else constant(type, each) for each in (a, b))
        for each in (a, b):
            if isinstance(each, Operand) and each.type != type:
                raise ModelBug(f"select has the value {each.typed}, expected the type {type}")
        return self.text.define(type, f"select {self.type} {self}, {type} {one}, {type} {other}")

    # ---- conversions ---------------------------------------------------------------------------------------------
    def zext(self, type: str) -> Operand:
        """Return this integer widened to `type` with zeros."""
        return self.cast("zext", type)

    def sext(self, type: str) -> Operand:
        """Return this integer widened to `type` with copies of its sign bit."""
        return self.cast("sext", type)

    def trunc(self, type: str) -> Operand:
        """Return the low bits of this integer, as an integer of type `type`."""
        return self.cast("trunc", type)

    def bitcast(self, type: str) -> Operand:
        """Return the bits of this value read as another type."""
        return self.cast("bitcast", type)

    def inttoptr(self, type: str = POINTER) -> Operand:
        """Return this integer address as a pointer."""
        return self.cast("inttoptr", type)

    def ptrtoint(self, type: str = "i64") -> Operand:
        """Return this pointer as an integer address."""
        return self.cast("ptrtoint", type)

    # ---- memory --------------------------------------------------------------------------------------------------
    def element(self, type: str, number: Operand | int) -> Operand:
        """Return the pointer to element `number` of an array of `type` at this pointer."""
        kind = self.type
        if kind != POINTER and not kind.endswith(" x ptr>"):
            self._refuse("an element of")
        index = number.typed if isinstance(number, Operand) else f"i64 {number}"
        result = with_lanes(index, POINTER) if kind == POINTER and index[0] == "<" else kind
        return self.text.define(result, f"getelementptr {type}, {kind} {self}, {index}")

    def offset(self, size: Operand | int) -> Operand:
        """Return the pointer to the address `size` bytes after this pointer."""
        return self.element("i8", size)

    def load(self, type: str, *, align: int = 0, volatile: bool = False, tail: str = "") -> Operand:
        """Load a value of `type` from this pointer; `tail` is appended to the instruction, such as metadata."""
        if self.type != POINTER:
            self._refuse("a load from")
        if align:
            tail = f", align {align}{tail}"
        return self.text.define(type, f"load {'volatile ' if volatile else ''}{type}, ptr {self}{tail}")

    def store(
        self, value: Operand | int, *, type: str = "i64", align: int = 0, volatile: bool = False, tail: str = ""
    ) -> None:
        """Store `value` to this pointer; `type` is the type of the value if it is a Python integer."""
        if self.type != POINTER:
            self._refuse("a store to")
        if isinstance(value, Operand):
            what = f"{value.type} {value}"
        elif isinstance(value, int):
            what = f"{type} {constant(type, value)}"
        else:
            raise ModelBug(f"cannot store {value!r}, expected an operand or an integer")
        if align:
            tail = f", align {align}{tail}"
        self.text.put(f"store {'volatile ' if volatile else ''}{what}, ptr {self}{tail}")

    # ---- atomic accesses, which other threads see in one order ----------------------------------------------------
    def load_atomic(self, type: str, order: str, *, align: int, volatile: bool = False) -> Operand:
        """Return a value loaded atomically from this pointer; `order` is the memory order, such as ``seq_cst``."""
        kind = "atomic volatile" if volatile else "atomic"
        return self.text.define(type, f"load {kind} {type}, ptr {self} {order}, align {align}")

    def store_atomic(self, value: Operand, order: str, *, align: int) -> None:
        """Store a value atomically to this pointer; `order` is the memory order, such as ``release``."""
        self.text.put(f"store atomic {value.typed}, ptr {self} {order}, align {align}")

    def update(
        self, operation: str, value: Operand, order: str = "seq_cst", *, align: int = 0, volatile: bool = False
    ) -> Operand:
        """Apply an atomic read-modify-write operation to memory at this pointer; return the old value.

        `operation` is the operation as in LLVM's instruction ``atomicrmw``, such as ``add``, and `value` its
        operand."""
        kind, tail = "atomicrmw volatile" if volatile else "atomicrmw", f", align {align}" if align else ""
        return self.text.define(value.type, f"{kind} {operation} {self.typed}, {value.typed} {order}{tail}")

    def compare_exchange(
        self, expected: Operand, value: Operand, *, align: int = 0, volatile: bool = False
    ) -> tuple[Operand, Operand]:
        """Store `value` atomically if memory at this pointer holds `expected`.

        Return the old value, and an i1 that is true if `value` was stored.
        """
        kind, tail = "cmpxchg volatile" if volatile else "cmpxchg", f", align {align}" if align else ""
        exchange = f"{kind} {self.typed}, {expected.typed}, {value.typed} seq_cst seq_cst{tail}"
        pair = self.text.define(f"{{ {value.type}, i1 }}", exchange)
        return pair.field(0, value.type), pair.field(1, "i1")

    def _refuse(self, what: str) -> NoReturn:
        raise ModelBug(f"{what} {self.typed}: expected a pointer")

    # ---- structures ----------------------------------------------------------------------------------------------
    def field(self, number: int, type: str) -> Operand:
        """Return field `number`, of type `type`, of this structure."""
        return self.text.define(type, f"extractvalue {self.typed}, {number}")

    def with_field(self, number: int, value: Operand) -> Operand:
        """Return a copy of this structure with field `number` replaced by `value`."""
        return self.text.define(self.type, f"insertvalue {self.typed}, {value.typed}, {number}")

    # ---- vectors -------------------------------------------------------------------------------------------------
    def lane(self, number: Operand | int) -> Operand:
        """Return lane `number` of this vector."""
        index = number.typed if isinstance(number, Operand) else f"i64 {number}"
        return self.text.define(element_type(self.type), f"extractelement {self.type} {self}, {index}")

    def with_lane(self, number: Operand | int, value: Operand) -> Operand:
        """Return a copy of this vector with lane `number` replaced by `value`."""
        index = number.typed if isinstance(number, Operand) else f"i64 {number}"
        return self.text.define(self.type, f"insertelement {self.type} {self}, {value.typed}, {index}")


def constant(type: str, number: int) -> str:
    """Return a number as a constant of type `type`; a constant of a vector type has it in every lane."""
    if type.startswith("<"):
        return f"splat ({element_type(type)} {constant(element_type(type), number)})" if number else "zeroinitializer"
    if type == "i1":
        return "true" if number else "false"
    return str(int(number))


def element_type(type: str) -> str:
    """Return the type of the lanes of a vector type."""
    return type[type.index(" x ") + 3 : -1]


def with_lanes(vector: str, type: str) -> str:
    """Return a vector type with elements of `type` and as many lanes as `vector`, a type or typed operand."""
    return f"{vector[: vector.index(' x ')]} x {type}>"


def flags(type: str) -> str:
    """Return the type of the results of comparing values of `type`: i1, or a vector of i1."""
    return with_lanes(type, "i1") if type.startswith("<") else "i1"
