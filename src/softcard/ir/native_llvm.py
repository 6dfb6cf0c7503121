"""Compilation of native functions to LLVM IR: see `native` for the accepted Python."""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, cast

from softcard.core.errors import ModelBug
from softcard.ir import lanes, llvm, native
from softcard.ir.builder import Text
from softcard.ir.lanes import Lanes
from softcard.ir.native import AtomicView, Function, View
from softcard.ir.native_source import ALL, Readable, Source
from softcard.ir.native_vectors import OPERATORS, TESTS, WORD, Bound, Kind, Vector, VectorWriter
from softcard.ir.operand import Operand

_DIVISIONS: Final = {ast.FloorDiv: "udiv", ast.Mod: "urem"}
_DECLARED: Final = """
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1)
declare float @llvm.fma.f32(float, float, float)
declare double @llvm.fma.f64(double, double, double)
declare <16 x i32> @llvm.umax.v16i32(<16 x i32>, <16 x i32>)
declare i32 @llvm.vector.reduce.umax.v16i32(<16 x i32>)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
_GATHERS: Final = "".join(
    f"declare <{n} x i64> @llvm.masked.gather.v{n}i64.v{n}p0(<{n} x ptr>, <{n} x i1>, <{n} x i64>)\n"
    f"declare void @llvm.masked.scatter.v{n}i64.v{n}p0(<{n} x i64>, <{n} x ptr>, <{n} x i1>)\n"
    for n in (1, 2, 4, 8)
)
_HINTS: Final = {
    "!90": '!90 = !{!"branch_weights", i32 1, i32 1000}',
    "!91": '!91 = !{!"branch_weights", i32 1000, i32 1}',
}
_UNLIKELY: Final = ", !prof !90"
_LIKELY: Final = ", !prof !91"
_OPPOSITE: Final = {"": "", _UNLIKELY: _LIKELY, _LIKELY: _UNLIKELY}
_X86: Final = """declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
"""


def module(functions: Iterable[Function[Any]], text: str = "") -> str:
    """Return the IR of a module with native functions, their callees, and `text`.

    The functions are exported; the callees are internal.
    """
    parts = _definitions(list(functions), "").values()
    lines = "\n".join([*parts, text, _DECLARED, _X86 if llvm.is_x86() else ""]).splitlines()
    whole = "".join(parts)
    lines += [*_used(_GATHERS, whole).values(), *_hints(whole).values()]
    declared = dict.fromkeys(line for line in lines if line.startswith("declare "))
    return "\n".join([*(line for line in lines if line not in declared), *declared, ""])


def embedded(function: Function[Any], attributes: str = "nounwind", **constants: int) -> dict[str, str]:
    """Return the definitions and declarations, by name, that another module needs to call a native function.

    `constants` are values of parameters: the function is compiled for these values, under a separate name. `attributes`
    are the attributes of the definition; an inlined function keeps its own.
    """
    return _embedded(function, attributes, tuple(constants.items()))


@cache
def _embedded(function: Function[Any], attributes: str, constants: tuple[tuple[str, int], ...]) -> dict[str, str]:
    parts = _definitions([function], "internal ", attributes, dict(constants))
    whole = "".join(parts.values())
    return parts | _used(_DECLARED, whole) | _used(_GATHERS, whole) | _hints(whole)


def call(
    text: Text, function: Function[Any], *arguments: str, attributes: str = "nounwind", **constants: int
) -> Operand:
    """Write a call of an embedded function (see `embedded`); return its result as an operand."""
    declarations, name, types = _callee(function, attributes, tuple(constants.items()))
    text.declarations.update(declarations)
    given = ", ".join([f"{type_} {each}" for type_, each in zip(types, arguments, strict=True)])
    return text.define(WORD, f"call i64 @{name}({given})")


@cache
def _callee(
    function: Function[Any], attributes: str, constants: tuple[tuple[str, int], ...]
) -> tuple[dict[str, str], str, list[str]]:
    """Return the IR that a call of an embedded function needs, the function's name, and its parameter types."""
    known = dict(constants)
    types = [_parameter(function, name) for name in function.parameters if name not in known]
    return _embedded(function, attributes, constants), _symbol(function, known), types


def _symbol(function: Function[Any], constants: Mapping[str, int]) -> str:
    """Return the symbol of a function that is compiled for the given constants."""
    return "_".join([function.name, *(str(each) for each in constants.values())])


def _parameter(function: Function[Any], name: str) -> str:
    """Return the LLVM type of the parameter `name` of a function."""
    wanted = function.annotation(name)
    return Kind(WORD, wanted.count).whole if isinstance(wanted, type) and issubclass(wanted, Lanes) else WORD


def _takes_vectors(function: Function[Any]) -> bool:
    """Return True if a parameter of the function is annotated as a vector."""
    return any(_parameter(function, name) != WORD for name in function.parameters)


def _used(declared: str, whole: str) -> dict[str, str]:
    """Return those lines of `declared` that declare functions called in the IR text `whole`, by function name."""
    names = {line.split("@")[1].split("(")[0]: line for line in declared.splitlines() if line}
    return {name: line for name, line in names.items() if f"@{name}(" in whole}


def _hints(whole: str) -> dict[str, str]:
    """Return the branch-weight metadata to which the IR text `whole` refers, by name."""
    return {name: line for name, line in _HINTS.items() if f"!prof {name}" in whole}


def _definitions(
    functions: list[Function[Any]], linkage: str, attributes: str = "nounwind", constants: Mapping[str, int] = {}
) -> dict[str, str]:
    """Return the IR of functions, and of their callees, by name."""
    written: dict[str, Function[Any]] = {}
    waiting, parts = [(each, constants) for each in functions], dict[str, str]()
    while waiting:
        function, values = waiting.pop(0)
        name = _symbol(function, values)
        if written.setdefault(function.name, function) is not function:
            raise ModelBug(f"two native functions are called {function.name}")
        if name not in parts:
            is_outer = function in functions
            writer = _Writer(function, values)
            # Vector registers of the module that calls, whatever width it has.
            own = attributes if is_outer or writer.uses_vectors else "nounwind"
            parts[name] = writer.text(linkage if is_outer else "internal ", own)
            waiting += writer.called
    return parts


class _Writer:
    """A translator of one native function to IR. Local names are stack slots, which LLVM moves to registers."""

    def __init__(
        self,
        function: Function[Any],
        constants: Mapping[str, int] = {},
        outer: _Writer | None = None,
        bound: dict[str, Bound] | None = None,
    ) -> None:
        self.function = function
        self.source = Source(function, constants)
        self.called: list[tuple[Function[Any], Mapping[str, int]]] = outer.called if outer else []
        self._text: Text = outer._text if outer else Text()
        self._slots: dict[str, str] = outer._slots if outer else {}
        """The IR type of the stack slot of each local name."""
        self._vectors = VectorWriter(self.source, self._text, self._value, self._check, self._inner, bound or {})
        self._loops: list[tuple[str, str]] = []
        self._views: dict[str, Any] = {}
        """The layout or memory view of each local name that holds its address."""
        self._known: set[str] | None = set()
        """The local names that have a value at the current position on every path; None in unreachable code."""

    @property
    def uses_vectors(self) -> bool:
        """True if some of the function's values are vectors."""
        return self._vectors.is_used

    def _inner(self, function: Readable, bound: dict[str, Bound], constants: dict[str, int]) -> VectorWriter:
        """Return a translator for `function`, which is inlined into this function in place of a call.

        `bound` maps its parameters to values that are vectors or words, and `constants` maps parameters to numbers."""
        inner = _Writer(cast("Function[Any]", function), constants, self, bound)._vectors
        inner.head, inner.splats = self._vectors.head, self._vectors.splats
        return inner

    def text(self, linkage: str, attributes: str = "nounwind") -> str:
        """Return the function's definition as IR text."""
        arguments = self.source.tree.args
        names = [each.arg for each in arguments.args if each.arg not in self.source.constants]
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults or arguments.posonlyargs:
            self.source.refuse(self.source.tree, "has parameters that are not plain names")
        for name in names:
            self._parameter(name, _parameter(self.function, name))
        self._block(self.source.tree.body)
        self._text.ret(0)
        slots = [f"  {slot} = alloca {kind}" for slot, kind in self._slots.items()]
        given = ", ".join(f"{_parameter(self.function, name)} %a.{name}" for name in names)
        marks = "nounwind alwaysinline" if self.function.is_inline else attributes
        head = f"define {linkage}i64 @{_symbol(self.function, self.source.constants)}({given}) {marks} {{"
        return "\n".join([head, "entry:", *slots, *self._vectors.head, *self._text.lines, "}", ""])

    def _parameter(self, name: str, type_: str) -> None:
        """Make the parameter `name`, of LLVM type `type_`, available to the statements of the function.

        A word that is assigned to gets a stack slot; any other parameter keeps its value. The necessary
        instructions are placed at the head of the function."""
        if type_ == WORD and (name in self.source.assigned or not self._vectors.is_used):
            self._assign_name(name, self._text.word(f"%a.{name}"), self.function.layout(name))
        elif type_ == WORD:
            self._vectors.bound[name] = self._text.word(f"%a.{name}")
            self._views[name] = self.function.layout(name)
        else:
            kind = Kind(WORD, self.function.annotation(name).count)
            self._vectors.is_used = True
            self._vectors.bound[name] = Vector(kind, tuple(self._halves(name, kind)))

    def _halves(self, name: str, kind: Kind) -> Iterator[Operand]:
        """Yield the parts of the vector parameter `name`; each part fills a register of the host."""
        whole = self._text.operand(kind.whole, f"%a.{name}")
        if kind.count == kind.width:
            yield whole
            return
        for first in range(0, kind.count, kind.width):
            order = ", ".join(f"i32 {each}" for each in range(first, first + kind.width))
            yield self._text.shuffle(whole, f"<{kind.width} x i32> <{order}>")

    # ---- lines ---------------------------------------------------------------------------------------------------

    def _label(self) -> str:
        return self._text.fresh("b")

    def _start(self, label: str) -> None:
        self._text.start(label)

    def _go(self, label: str) -> None:
        self._text.jump(label)

    def _leave(self) -> None:
        """Begin a block for the statements after a jump, which are never executed."""
        self._start(self._label())
        self._known = None

    # ---- names ---------------------------------------------------------------------------------------------------

    def _slot(self, name: str, kind: str = "i64") -> Operand:
        self._slots.setdefault(f"%v.{name}", kind)
        return self._text.pointer(f"%v.{name}")

    def _assign_name(self, name: str, value: Operand, view: Any = None) -> None:
        if self._views.setdefault(name, view) != view:
            raise ModelBug(f"{self.source.path}: {name} in {self.function.name}() is used for values of two kinds")
        self._slot(name).store(value)
        if self._known is not None:
            self._known.add(name)

    def _assign_vector(self, node: ast.AST, name: str, value: Vector) -> None:
        if self._vectors.kinds.setdefault(name, value.kind) != value.kind or name in self._views:
            self.source.refuse(node, f"assigns a value of another kind to {name}")
        self._slots.update(self._vectors.slots(name, value.kind))
        self._vectors.assign(name, value)
        if self._known is not None:
            self._known.add(name)

    def _local(self, node: ast.Name) -> Operand:
        bound = self._vectors.bound.get(node.id)
        if isinstance(bound, Operand):
            return bound
        self._check(node)
        return self._slot(node.id).load("i64")

    def _check(self, node: ast.Name) -> None:
        """Raise an error if a name may be used before a value is assigned to it."""
        if self._known is not None and node.id not in self._known:
            self.source.refuse(node, "may be unassigned here")

    def _view(self, node: ast.AST) -> Any:
        """Return the layout or memory view through which the address that `node` evaluates to is accessed.

        Return None if the expression is a plain word."""
        match node:
            case ast.Name(id=name) if name in self.source.locals:
                return self._views.get(name)
            case ast.Call(func=ast.Attribute(value=base, attr="at")):
                found = self.source.value(base)
                return found if isinstance(found, View) else None
        return self.source.layout(node) if isinstance(node, ast.Call) else None

    # ---- memory --------------------------------------------------------------------------------------------------

    def _place(self, node: ast.Subscript | ast.Attribute) -> tuple[View, Operand]:
        """Return the memory view that a subscript or attribute accesses, and the pointer to the accessed word."""
        if isinstance(node, ast.Attribute):
            field = getattr(self._view(node.value), node.attr, None)
            if field is None:
                self.source.refuse(node)
            base = self._pointer(self._base(node.value))
            return native.U64, base.offset(field.offset)
        whole = self.source.value(node.value)
        if isinstance(whole, View):
            return whole, self._pointer(self._value(node.slice))
        view = self._view(node.value)
        if not isinstance(view, View):
            self.source.refuse(node)
        index, base = self._value(node.slice), self._pointer(self._base(node.value))
        return view, base.element(f"i{view.bits}", index)

    def _base(self, node: ast.expr) -> Operand:
        """Return the address that an expression holds, or that a name bound to a layout or view holds."""
        return self._local(node) if isinstance(node, ast.Name) and self._view(node) is not None else self._value(node)

    def _pointer(self, address: Operand) -> Operand:
        return address.inttoptr()

    def _load(self, view: View, pointer: Operand) -> Operand:
        return self._wide(pointer.load(f"i{view.bits}", align=1, volatile=view.volatile), view.bits)

    def _store(self, view: View, pointer: Operand, value: Operand) -> None:
        pointer.store(self._narrow(value, view.bits), align=1, volatile=view.volatile)

    def _wide(self, value: Operand, bits: int) -> Operand:
        return value if bits == 64 else value.zext("i64")

    def _narrow(self, value: Operand, bits: int) -> Operand:
        return value if bits == 64 else value.trunc(f"i{bits}")

    # ---- values --------------------------------------------------------------------------------------------------

    def _value(self, node: ast.AST) -> Operand:
        number = self.source.constant(node)
        if number is not None:
            return self._text.word(native.signed(number & ALL))
        match node:
            case ast.Name() if node.id in self.source.locals and self._view(node) is None:
                return self._local(node)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return ~self._value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return 0 - self._value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._wide(self._value(operand).eq(0), 1)
            case ast.BinOp(left=ast.Call(args=[word]) as left, op=ast.RShift(), right=right) if self._is_signed(left):
                return self._shifted("ashr", self._value(word), right)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(node, self._value(left), op, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._wide(self._compare(node, left, op, right), 1)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                static = self.source.static(test)
                if static is not None:
                    return self._value(body if static else orelse)
                return self._either(test, body, orelse)
            case ast.Subscript() | ast.Attribute():
                return self._load(*self._place(node))
            case ast.Call() if not node.keywords:
                return self._call(node)
        return self.source.refuse(node)

    def _operation(self, node: ast.AST, value: Operand, op: ast.operator, right: ast.expr) -> Operand:
        kind = type(op)
        if kind in OPERATORS:
            return value.binary(OPERATORS[kind], self._value(right))
        if kind in _DIVISIONS:
            divisor = self.source.constant(right)
            if divisor is None or divisor <= 0:
                self.source.refuse(node, "needs a constant divisor above 0")
            return value.binary(_DIVISIONS[kind], divisor)
        if kind in (ast.LShift, ast.RShift):
            return self._shifted("shl" if kind is ast.LShift else "lshr", value, right)
        return self.source.refuse(node)

    def _shifted(self, operation: str, value: Operand, by: ast.expr) -> Operand:
        number = self.source.constant(by)
        if number is not None and 0 <= number < 64:
            return value.binary(operation, number)
        count = self._value(by)
        least = self._text.invoke("i64", "@llvm.umin.i64", count, 63)
        made = value.binary(operation, least)
        if operation == "ashr":
            return made
        return (count < 64).select(made, 0)

    def _is_signed(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.source.value(node.func) is native.signed and len(node.args) == 1

    def _compare(self, node: ast.AST, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Operand:
        """Return the result of a comparison as an i1."""
        test = TESTS.get(type(op)) or self.source.refuse(node)
        sides = [left, right]
        signs = [self._is_signed(side) for side in sides]
        if any(signs):
            if not all(sign or self.source.constant(side) is not None for sign, side in zip(signs, sides, strict=True)):
                self.source.refuse(node, "compares signed and unsigned words")
            sides = [side.args[0] if sign else side for sign, side in zip(signs, sides, strict=True)]  # type: ignore[attr-defined]
            test = test.replace("u", "s")
        one, other = (self._value(side) for side in sides)
        return one.compare(test, other)

    def _either(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Operand:
        yes, no, end = self._label(), self._label(), self._label()
        slot = self._slot(f"either.{end}")
        self._branch(test, yes, no)
        for label, part in ((yes, body), (no, orelse)):
            self._start(label)
            slot.store(self._value(part))
            self._go(end)
        self._start(end)
        return slot.load("i64")

    # ---- calls ---------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Operand:
        function = self.source.value(node.func)
        if function in (lanes.lane, lanes.bits_of, lanes.any_of):
            return self._of_vector(function, node.args)
        if isinstance(function, Function):
            if len(node.args) != len(function.parameters):
                self.source.refuse(node, "passes a wrong number of arguments")
            if any(self._vectors.kind(each) is not None for each in node.args) and not _takes_vectors(function):
                made = self._vectors.expanded(node, function, node.args)
                assert isinstance(made, Operand)
                return made
            return self._called_function(node, function)
        if isinstance(node.func, ast.Attribute):
            base = self.source.value(node.func.value)
            if isinstance(base, AtomicView):
                return self._atomic(node, base, node.func.attr)
            if self._view(node) is not None and len(node.args) == 1:  # from_address(...): its address
                return self._value(node.args[0])
        if function is ctypes.addressof and len(node.args) == 1:
            return self._base(node.args[0])
        name = getattr(function, "__name__", "")
        if function is native.unlikely and len(node.args) == 1:
            return self._value(node.args[0])
        if function in (min, max):
            return self._extreme(name, node)
        written = getattr(self, f"_call_{name}", None)
        if written is None or function is not getattr(native, name, None):
            self.source.refuse(node)
        made = written(*(self._value(each) for each in node.args))
        return self._text.word(0) if made is None else cast("Operand", made)

    def _called_function(self, node: ast.Call, function: Function[Any]) -> Operand:
        """Write a call of a native function.

        A parameter for which the caller passes a known constant is a constant in the callee, too.
        """
        pairs, given = list(zip(function.parameters, node.args, strict=True)), list[Operand]()
        names = {name: each.id for name, each in pairs if isinstance(each, ast.Name)}
        constants = {name: self.source.constants[own] for name, own in names.items() if own in self.source.constants}
        self.called.append((function, constants))
        for name, each in pairs:
            if name in constants:
                continue
            kind = self._vectors.kind(each)
            if kind is None and self._view(each) is not function.layout(name):
                self.source.refuse(node, "passes an argument of a wrong kind")
            type_ = WORD if kind is None else kind.whole
            if type_ != _parameter(function, name):
                self.source.refuse(node, f"passes {type_} for {name}, expected {_parameter(function, name)}")
            given.append(self._base(each) if kind is None else self._vectors.whole(each))
        return self._text.invoke(WORD, f"@{_symbol(function, constants)}", *given)

    def _of_vector(self, function: Any, arguments: list[ast.expr]) -> Operand:
        """Write a call of a function of `lanes` that computes a word from a vector, such as `bits_of`; return the
        word."""
        if function is lanes.any_of:
            return self._wide(self._vectors.any_of(*arguments), 1)
        made: Operand = getattr(self._vectors, function.__name__)(*arguments)
        return made

    def _extreme(self, name: str, node: ast.Call) -> Operand:
        if len(node.args) < 2:
            self.source.refuse(node)
        made, *others = (self._value(each) for each in node.args)
        for other in others:
            made = self._text.invoke("i64", f"@llvm.u{name}.i64", made, other)
        return made

    def _atomic(self, node: ast.Call, view: AtomicView, name: str) -> Operand:
        address, *words = (self._value(each) for each in node.args)
        pointer, kind = self._pointer(address), f"i{view.bits}"
        values = [self._narrow(word, view.bits) for word in words]
        align = view.bits // 8
        match name, values:
            case "load", []:
                return self._wide(pointer.load_atomic(kind, "seq_cst", align=align), view.bits)
            case (("store" | "release"), [value]):
                pointer.store_atomic(value, "seq_cst" if name == "store" else "release", align=align)
                return self._text.word(0)
            case "compare_exchange", [expected, value]:
                return self._wide(pointer.compare_exchange(expected, value, align=align)[0], view.bits)
            case (("add" | "sub"), [value]):
                return self._wide(pointer.update(name, value, align=align), view.bits)
        return self.source.refuse(node)

    def _call_lowest_bit(self, word: Operand) -> Operand:
        return self._text.invoke("i64", "@llvm.cttz.i64", word, self._text.constant("i1", 0))

    def _call_add_floats(self, a: Operand, b: Operand) -> Operand:
        return self._float_sum("float", 32, a, b, 0x7FC0_0000)

    def _call_add_doubles(self, a: Operand, b: Operand) -> Operand:
        return self._float_sum("double", 64, a, b, 0x7FF8_0000_0000_0000)

    def _call_fma_floats(self, a: Operand, b: Operand, c: Operand) -> Operand:
        return self._fused("float", 32, a, b, c, 0x7FC0_0000)

    def _call_fma_doubles(self, a: Operand, b: Operand, c: Operand) -> Operand:
        return self._fused("double", 64, a, b, c, 0x7FF8_0000_0000_0000)

    def _fused(self, kind: str, bits: int, a: Operand, b: Operand, c: Operand, nan: int) -> Operand:
        operands = [self._narrow(each, bits).bitcast(kind) for each in (a, b, c)]
        return self._canonical(self._text.invoke(kind, f"@llvm.fma.f{bits}", *operands), bits, nan)

    def _float_sum(self, kind: str, bits: int, a: Operand, b: Operand, nan: int) -> Operand:
        one, other = (self._narrow(each, bits).bitcast(kind) for each in (a, b))
        return self._canonical(one.fadd(other), bits, nan)

    def _canonical(self, total: Operand, bits: int, nan: int) -> Operand:
        is_nan = total.is_unordered(total)
        raw = total.bitcast(f"i{bits}")
        return self._wide(is_nan.select(nan, raw), bits)

    def _call_copy(self, to: Operand, source: Operand, size: Operand) -> Operand:
        one, other = self._pointer(to), self._pointer(source)
        self._text.invoke_void("@llvm.memcpy.p0.p0.i64", one, other, size, self._text.constant("i1", 0))
        return self._text.word(0)

    def _call_fill(self, to: Operand, byte: Operand, size: Operand) -> Operand:
        value = self._narrow(byte, 8)
        self._text.invoke_void("@llvm.memset.p0.i64", self._pointer(to), value, size, self._text.constant("i1", 0))
        return self._text.word(0)

    def _call_fill_lines(self, to: Operand, dword: Operand, count: Operand) -> Operand:
        one = self._text.operand("<16 x i32>", "poison").with_lane(0, self._narrow(dword, 32))
        line = self._text.shuffle(one, "<16 x i32> zeroinitializer")
        for place in self._lines_of(to, count):
            place.store(line, align=4)
        return self._text.word(0)

    def _call_largest_in_lines(self, at: Operand, count: Operand) -> Operand:
        found = self._slot("largest", "<16 x i32>")
        found.store(0, type="<16 x i32>")
        for place in self._lines_of(at, count):
            sides = place.load("<16 x i32>", align=1), found.load("<16 x i32>")
            larger = self._text.invoke("<16 x i32>", "@llvm.umax.v16i32", sides[0], sides[1])
            found.store(larger)
        whole = found.load("<16 x i32>")
        return self._wide(self._text.invoke("i32", "@llvm.vector.reduce.umax.v16i32", whole), 32)

    def _lines_of(self, at: Operand, count: Operand) -> Iterator[Operand]:
        """Write a loop over `count` lines of 64 bytes; yield the address of the current line for its body."""
        head, inside, end = self._label(), self._label(), self._label()
        line = self._slot(f"line.{head}")
        line.store(0)
        self._go(head)
        self._start(head)
        number = line.load("i64")
        self._text.branch(number < count, inside, end)
        self._start(inside)
        yield self._pointer(at + (number << 6))
        line.store(number + 1)
        self._go(head)
        self._start(end)

    def _call_read_float_control(self) -> Operand:
        if not llvm.is_x86():
            return self._text.word(0)
        pointer = self._slot("float_control")
        self._text.invoke_void("@llvm.x86.sse.stmxcsr", pointer)
        return self._wide(pointer.load("i32"), 32)

    def _call_write_float_control(self, word: Operand) -> Operand:
        if llvm.is_x86():
            pointer = self._slot("float_control")
            pointer.store(self._narrow(word, 32))
            self._text.invoke_void("@llvm.x86.sse.ldmxcsr", pointer)
        return self._text.word(0)

    def _call_call(self, function: Operand, *arguments: Operand) -> Operand:
        return self._text.invoke(WORD, self._pointer(function), *arguments)

    # ---- conditions ----------------------------------------------------------------------------------------------

    def _branch(self, node: ast.expr, yes: str, no: str, hint: str = "") -> None:
        """Write a branch on a condition to the label `yes` or `no`; `hint` is metadata on the likely target."""
        static = self.source.static(node)
        if static is not None:
            self._go(yes if static else no)
            return
        match node:
            case ast.BoolOp(op=op, values=[*values, last]):
                for each in values:
                    on = self._label()
                    self._branch(each, *((on, no) if isinstance(op, ast.And) else (yes, on)), hint)
                    self._start(on)
                self._branch(last, yes, no, hint)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._branch(operand, no, yes, _OPPOSITE[hint])
            case ast.Call(func=function, args=[condition]) if self.source.value(function) is native.unlikely:
                self._branch(condition, yes, no, _UNLIKELY)
            case ast.Call(func=function, args=[flags]) if self.source.value(function) is lanes.any_of:
                self._text.branch(self._vectors.any_of(flags), yes, no, hint)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                self._text.branch(self._compare(node, left, op, right), yes, no, hint)
            case _:
                bit = self._value(node).ne(0)
                self._text.branch(bit, yes, no, hint)

    # ---- statements ----------------------------------------------------------------------------------------------

    def _block(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call(func=function, args=arguments)) if self.source.value(function) in (
                lanes.scatter,
                lanes.store_words,
                lanes.store_dwords,
            ):
                self._store_vector(self.source.value(function), arguments)
            case ast.Expr(value=ast.Call() as value):
                self._value(value)
            case ast.Assign(targets=[ast.Name(id=vector)], value=part) if self._vectors.kind(part) is not None:
                self._assign_vector(node, vector, self._vectors.vector(part))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=parts)) if len(names) == len(parts):
                values = [(self._value(each), self._view(each)) for each in parts]
                for name, (given, kind) in zip(names, values, strict=True):
                    self._assign(name, given, kind)
            case ast.Assign(targets=[target], value=part) | ast.AnnAssign(target=target, value=ast.expr() as part):
                self._assign(target, self._value(part), self._view(part))
            case ast.AugAssign(target=ast.Name() as target, op=op, value=part):
                self._assign(target, self._operation(node, self._value(target), op, part), None)
            case ast.AugAssign(target=ast.Subscript() | ast.Attribute() as target, op=op, value=part):
                view, pointer = self._place(target)
                self._store(view, pointer, self._operation(node, self._load(view, pointer), op, part))
            case ast.Return(value=part):
                self._text.ret(0 if part is None else self._value(part))
                self._leave()
            case ast.Break():
                self._go(self._loops[-1][1])
                self._leave()
            case ast.Continue():
                self._go(self._loops[-1][0])
                self._leave()
            case ast.If():
                self._if(node)
            case ast.While(test=test, body=body, orelse=[]):
                self._while(test, body)
            case ast.For(target=ast.Name() as target, iter=ast.Call() as call, body=body, orelse=[]):
                self._for(node, target, call, body)
            case _:
                self.source.refuse(node)

    def _store_vector(self, function: Any, arguments: list[ast.expr]) -> None:
        """Write a call of a function of `lanes` that stores a vector."""
        if function is lanes.scatter:
            self._vectors.scatter(*arguments)
        else:
            self._vectors.store_words(*arguments, bits=64 if function is lanes.store_words else 32)

    def _assign(self, target: ast.expr, value: Operand, view: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(name, value, view)
            case ast.Subscript() | ast.Attribute():
                self._store(*self._place(target), value)
            case _:
                self.source.refuse(target)

    def _if(self, node: ast.If) -> None:
        static = self.source.static(node.test)
        if static is not None:
            self._block(node.body if static else node.orelse)
            return
        yes, no, end = self._label(), self._label(), self._label()
        self._branch(node.test, yes, no)
        before, afterwards = self._known, []
        for label, part in ((yes, node.body), (no, node.orelse)):
            self._start(label)
            self._known = None if before is None else set(before)
            self._block(part)
            self._go(end)
            afterwards.append(self._known)
        self._start(end)
        self._known = (
            afterwards[0]
            if afterwards[1] is None
            else afterwards[1]
            if afterwards[0] is None
            else afterwards[0] & afterwards[1]
        )

    def _while(self, test: ast.expr, body: list[ast.stmt]) -> None:
        head, inside, end = self._label(), self._label(), self._label()
        self._go(head)
        self._start(head)
        self._branch(test, inside, end)
        self._loop(inside, body, head, end)
        self._go(head)
        self._start(end)

    def _loop(
        self, inside: str, body: list[ast.stmt], head: str, end: str, target: str = "", at: Operand | None = None
    ) -> None:
        """Write the body of a loop as the block `inside`; `head` is the label for continue, `end` for break.

        In a ``for`` loop, the body first copies the loop counter from the stack slot `at` to the local name
        `target`. After the loop, only the names assigned before it are known to have a value."""
        before = self._known
        self._known = None if before is None else set(before)
        self._start(inside)
        if at is not None:
            self._assign_name(target, at.load("i64"))
        self._loops.append((head, end))
        self._block(body)
        self._loops.pop()
        self._known = before

    def _for(self, node: ast.For, target: ast.Name, call: ast.Call, body: list[ast.stmt]) -> None:
        if self.source.value(call.func) is not range or call.keywords or not 1 <= len(call.args) <= 3:
            self.source.refuse(node, "must iterate over a range")
        step = 1 if len(call.args) < 3 else self.source.constant(call.args[2])
        if step is None or step <= 0:
            self.source.refuse(node, "needs a constant step above 0")
        rounds = self._rounds(call, body, step)
        if rounds is not None:
            self._written_out(target.id, body, rounds)
            return
        ends = [self._value(each) for each in call.args[:2]]
        first, last = (self._text.word(0), *ends) if len(ends) == 1 else ends
        head, inside, end = self._label(), self._label(), self._label()
        at = self._slot(f"for.{head}")
        at.store(first)
        self._text.branch(first < last, inside, end)
        self._start(head)
        now = at.load("i64")
        following = now + step
        at.store(following)
        # Beyond a step of 1 the sum may wrap around.
        self._text.branch(last - now > step if step > 1 else following < last, inside, end)
        self._loop(inside, body, head, end, target.id, at)
        self._go(head)
        self._start(end)

    def _rounds(self, call: ast.Call, body: list[ast.stmt], step: int) -> range | None:
        """Return the iterations of a loop whose bounds depend only on constants; None for other loops.

        Parameters with a constant value count as constants.
        """
        bounds = call.args[:2]
        numbers = [number for number in map(self.source.constant, bounds) if number is not None]
        is_specialised = any(isinstance(each, ast.Name) and each.id in self.source.constants for each in bounds)
        leaves = any(isinstance(inner, ast.Break | ast.Continue) for each in body for inner in ast.walk(each))
        if not is_specialised or len(numbers) != len(bounds) or leaves:
            return None
        first, end = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
        return range(first, end, step)

    def _written_out(self, target: str, body: list[ast.stmt], rounds: range) -> None:
        """Write the body of a loop once for each iteration; the optimisation passes do not unroll loops."""
        before = self._known
        for number in rounds:
            self._known = None if before is None else set(before)
            self._assign_name(target, self._text.word(number))
            self._block(body)
            if self._known is None:
                break
        self._known = before
