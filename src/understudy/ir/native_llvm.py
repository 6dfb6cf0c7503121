"""From native functions to LLVM IR: see `native` for what they may use."""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from understudy.core.errors import ModelBug
from understudy.ir import llvm, native
from understudy.ir.native import AtomicView, Function, View
from understudy.ir.native_source import ALL, Source

_PLAIN: Final = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
_DIVISIONS: Final = {ast.FloorDiv: "udiv", ast.Mod: "urem"}
_TESTS: Final = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "ult", ast.LtE: "ule", ast.Gt: "ugt", ast.GtE: "uge",
}  # fmt: skip
_DECLARED: Final = """
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.cttz.i64(i64, i1)
declare <16 x i32> @llvm.umax.v16i32(<16 x i32>, <16 x i32>)
declare i32 @llvm.vector.reduce.umax.v16i32(<16 x i32>)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
_X86: Final = """declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
"""


def module(functions: Iterable[Function[Any]], text: str = "") -> str:
    """The IR of functions, which can be called from elsewhere, of those that they call, which cannot, and of `text`."""
    parts = _definitions(list(functions), "").values()
    lines = "\n".join([*parts, text, _DECLARED, _X86 if llvm.is_x86() else ""]).splitlines()
    declared = dict.fromkeys(line for line in lines if line.startswith("declare "))
    return "\n".join([*(line for line in lines if line not in declared), *declared, ""])


@cache
def embedded(function: Function[Any]) -> dict[str, str]:
    """What another module needs to call a function: definitions and declarations, by name."""
    parts = _definitions([function], "internal ")
    names = {line.split("@")[1].split("(")[0]: line for line in _DECLARED.splitlines() if line}
    whole = "".join(parts.values())
    return parts | {name: line for name, line in names.items() if f"@{name}(" in whole}


def _definitions(functions: list[Function[Any]], linkage: str) -> dict[str, str]:
    """The IR of functions, and of those that they call, by name."""
    written: dict[str, Function[Any]] = {}
    waiting, parts = list(functions), dict[str, str]()
    while waiting:
        function = waiting.pop(0)
        if written.setdefault(function.name, function) is not function:
            raise ModelBug(f"two native functions are called {function.name}")
        if function.name not in parts:
            writer = _Writer(function)
            parts[function.name] = writer.text(linkage if function in functions else "internal ")
            waiting += writer.called
    return parts


class _Writer:
    """Writes one function. Local names are slots on the stack, which LLVM makes registers of."""

    def __init__(self, function: Function[Any]) -> None:
        self.function = function
        self.source = Source(function)
        self.called: list[Function[Any]] = []
        self._lines: list[str] = []
        self._slots: dict[str, str] = {}
        """Their types, by name."""
        self._count = 0
        self._loops: list[tuple[str, str]] = []
        self._views: dict[str, Any] = {}
        """Layouts and views of local names that hold the address of one."""
        self._known: set[str] | None = set()
        """Names that have a value here, whichever way was taken; None where no way leads."""

    def text(self, linkage: str) -> str:
        """The definition."""
        arguments = self.source.tree.args
        names = [each.arg for each in arguments.args]
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults or arguments.posonlyargs:
            self.source.refuse(self.source.tree, "has parameters that are not plain names")
        for each in arguments.args:
            self._assign_name(each.arg, f"%a.{each.arg}", self.function.layout(each.arg))
        self._block(self.source.tree.body)
        self._put("ret i64 0")
        slots = [f"  {slot} = alloca {kind}" for slot, kind in self._slots.items()]
        given = ", ".join(f"i64 %a.{name}" for name in names)
        marks = "nounwind alwaysinline" if self.function.is_inline else "nounwind"
        head = f"define {linkage}i64 @{self.function.name}({given}) {marks} {{"
        return "\n".join([head, "entry:", *slots, *self._lines, "}", ""])

    # ---- lines ---------------------------------------------------------------------------------------------------

    def _let(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"  %t{self._count} = {text}")
        return f"%t{self._count}"

    def _put(self, text: str) -> None:
        self._lines.append("  " + text)

    def _label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def _start(self, label: str) -> None:
        self._lines.append(f"{label}:")

    def _go(self, label: str) -> None:
        self._put(f"br label %{label}")

    def _leave(self) -> None:
        """What follows is reached by no way."""
        self._start(self._label())
        self._known = None

    # ---- names ---------------------------------------------------------------------------------------------------

    def _slot(self, name: str, kind: str = "i64") -> str:
        self._slots.setdefault(f"%v.{name}", kind)
        return f"%v.{name}"

    def _assign_name(self, name: str, value: str, view: Any = None) -> None:
        if self._views.setdefault(name, view) != view:
            raise ModelBug(f"{self.source.path}: {name} in {self.function.name}() is of two kinds")
        self._put(f"store i64 {value}, ptr {self._slot(name)}")
        if self._known is not None:
            self._known.add(name)

    def _local(self, node: ast.Name) -> str:
        if self._known is not None and node.id not in self._known:
            self.source.refuse(node, "may have no value here")
        return self._let(f"load i64, ptr {self._slot(node.id)}")

    def _view(self, node: ast.AST) -> Any:
        """The layout or view whose address an expression gives; None for plain words."""
        match node:
            case ast.Name(id=name) if name in self.source.locals:
                return self._views.get(name)
            case ast.Call(func=ast.Attribute(value=base, attr="at")):
                found = self.source.value(base)
                return found if isinstance(found, View) else None
        return self.source.layout(node) if isinstance(node, ast.Call) else None

    # ---- memory --------------------------------------------------------------------------------------------------

    def _place(self, node: ast.Subscript | ast.Attribute) -> tuple[View, str]:
        """The view and the address, as a pointer, of what is read or written."""
        if isinstance(node, ast.Attribute):
            field = getattr(self._view(node.value), node.attr, None)
            if field is None:
                self.source.refuse(node)
            base = self._pointer(self._base(node.value))
            return native.U64, self._let(f"getelementptr i8, ptr {base}, i64 {field.offset}")
        whole = self.source.value(node.value)
        if isinstance(whole, View):
            return whole, self._pointer(self._value(node.slice))
        view = self._view(node.value)
        if not isinstance(view, View):
            self.source.refuse(node)
        index, base = self._value(node.slice), self._pointer(self._base(node.value))
        return view, self._let(f"getelementptr i{view.bits}, ptr {base}, i64 {index}")

    def _base(self, node: ast.expr) -> str:
        """The address that a name holds, whatever lies there, or that an expression gives."""
        return self._local(node) if isinstance(node, ast.Name) and self._view(node) is not None else self._value(node)

    def _pointer(self, address: str) -> str:
        return self._let(f"inttoptr i64 {address} to ptr")

    def _load(self, view: View, pointer: str) -> str:
        volatile = "volatile " if view.volatile else ""
        return self._wide(self._let(f"load {volatile}i{view.bits}, ptr {pointer}, align 1"), view.bits)

    def _store(self, view: View, pointer: str, value: str) -> None:
        volatile = "volatile " if view.volatile else ""
        self._put(f"store {volatile}i{view.bits} {self._narrow(value, view.bits)}, ptr {pointer}, align 1")

    def _wide(self, value: str, bits: int) -> str:
        return value if bits == 64 else self._let(f"zext i{bits} {value} to i64")

    def _narrow(self, value: str, bits: int) -> str:
        return value if bits == 64 else self._let(f"trunc i64 {value} to i{bits}")

    # ---- values --------------------------------------------------------------------------------------------------

    def _value(self, node: ast.AST) -> str:
        number = self.source.constant(node)
        if number is not None:
            return str(native.signed(number & ALL))
        match node:
            case ast.Name() if node.id in self.source.locals and self._view(node) is None:
                return self._local(node)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._let(f"xor i64 {self._value(operand)}, -1")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._let(f"sub i64 0, {self._value(operand)}")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._wide(self._let(f"icmp eq i64 {self._value(operand)}, 0"), 1)
            case ast.BinOp(left=ast.Call(args=[word]) as left, op=ast.RShift(), right=right) if self._is_signed(left):
                return self._shifted("ashr", self._value(word), right)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(node, self._value(left), op, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._wide(self._compare(node, left, op, right), 1)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._either(test, body, orelse)
            case ast.Subscript() | ast.Attribute():
                return self._load(*self._place(node))
            case ast.Call() if not node.keywords:
                return self._call(node)
        return self.source.refuse(node)

    def _operation(self, node: ast.AST, value: str, op: ast.operator, right: ast.expr) -> str:
        kind = type(op)
        if kind in _PLAIN:
            return self._let(f"{_PLAIN[kind]} i64 {value}, {self._value(right)}")
        if kind in _DIVISIONS:
            divisor = self.source.constant(right)
            if divisor is None or divisor <= 0:
                self.source.refuse(node, "needs a constant divisor above 0")
            return self._let(f"{_DIVISIONS[kind]} i64 {value}, {divisor}")
        if kind in (ast.LShift, ast.RShift):
            return self._shifted("shl" if kind is ast.LShift else "lshr", value, right)
        return self.source.refuse(node)

    def _shifted(self, operation: str, value: str, by: ast.expr) -> str:
        number = self.source.constant(by)
        if number is not None and 0 <= number < 64:
            return self._let(f"{operation} i64 {value}, {number}")
        count = self._value(by)
        least = self._let(f"call i64 @llvm.umin.i64(i64 {count}, i64 63)")
        made = self._let(f"{operation} i64 {value}, {least}")
        if operation == "ashr":
            return made
        return self._let(f"select i1 {self._let(f'icmp ult i64 {count}, 64')}, i64 {made}, i64 0")

    def _is_signed(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.source.value(node.func) is native.signed and len(node.args) == 1

    def _compare(self, node: ast.AST, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
        """A bit."""
        test = _TESTS.get(type(op)) or self.source.refuse(node)
        sides = [left, right]
        signs = [self._is_signed(side) for side in sides]
        if any(signs):
            if not all(sign or self.source.constant(side) is not None for sign, side in zip(signs, sides, strict=True)):
                self.source.refuse(node, "compares signed and unsigned words")
            sides = [side.args[0] if sign else side for sign, side in zip(signs, sides, strict=True)]  # type: ignore[attr-defined]
            test = test.replace("u", "s")
        one, other = (self._value(side) for side in sides)
        return self._let(f"icmp {test} i64 {one}, {other}")

    def _either(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> str:
        yes, no, end = self._label(), self._label(), self._label()
        slot = self._slot(f"either.{end}")
        self._branch(test, yes, no)
        for label, part in ((yes, body), (no, orelse)):
            self._start(label)
            self._put(f"store i64 {self._value(part)}, ptr {slot}")
            self._go(end)
        self._start(end)
        return self._let(f"load i64, ptr {slot}")

    # ---- calls ---------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> str:
        function = self.source.value(node.func)
        if isinstance(function, Function):
            self.called.append(function)
            if len(node.args) != len(function.parameters):
                self.source.refuse(node, "has another number of arguments")
            layouts = [function.layout(name) for name in function.parameters]
            if any(self._view(each) is not wanted for each, wanted in zip(node.args, layouts, strict=True)):
                self.source.refuse(node, "gives an argument of another kind")
            given = ", ".join(f"i64 {self._base(each)}" for each in node.args)
            return self._let(f"call i64 @{function.name}({given})")
        if isinstance(node.func, ast.Attribute):
            base = self.source.value(node.func.value)
            if isinstance(base, AtomicView):
                return self._atomic(node, base, node.func.attr)
            if self._view(node) is not None and len(node.args) == 1:  # an address, and what lies there
                return self._value(node.args[0])
        if function is ctypes.addressof and len(node.args) == 1:
            return self._base(node.args[0])
        name = getattr(function, "__name__", "")
        if function in (min, max):
            return self._extreme(name, node)
        written = getattr(self, f"_call_{name}", None)
        if written is None or function is not getattr(native, name, None):
            self.source.refuse(node)
        return str(written(*(self._value(each) for each in node.args)))

    def _extreme(self, name: str, node: ast.Call) -> str:
        if len(node.args) < 2:
            self.source.refuse(node)
        made, *others = (self._value(each) for each in node.args)
        for other in others:
            made = self._let(f"call i64 @llvm.u{name}.i64(i64 {made}, i64 {other})")
        return made

    def _atomic(self, node: ast.Call, view: AtomicView, name: str) -> str:
        address, *words = (self._value(each) for each in node.args)
        pointer, kind = self._pointer(address), f"i{view.bits}"
        values = [f"{kind} {self._narrow(word, view.bits)}" for word in words]
        align = f"align {view.bits // 8}"
        match name, values:
            case "load", []:
                return self._wide(self._let(f"load atomic {kind}, ptr {pointer} seq_cst, {align}"), view.bits)
            case (("store" | "release"), [value]):
                order = "seq_cst" if name == "store" else "release"
                self._put(f"store atomic {value}, ptr {pointer} {order}, {align}")
                return "0"
            case "compare_exchange", [expected, value]:
                pair = self._let(f"cmpxchg ptr {pointer}, {expected}, {value} seq_cst seq_cst, {align}")
                return self._wide(self._let(f"extractvalue {{ {kind}, i1 }} {pair}, 0"), view.bits)
            case (("add" | "sub"), [value]):
                return self._wide(self._let(f"atomicrmw {name} ptr {pointer}, {value} seq_cst, {align}"), view.bits)
        return self.source.refuse(node)

    def _call_lowest_bit(self, word: str) -> str:
        return self._let(f"call i64 @llvm.cttz.i64(i64 {word}, i1 false)")

    def _call_add_floats(self, a: str, b: str) -> str:
        return self._float_sum("float", 32, a, b, 0x7FC0_0000)

    def _call_add_doubles(self, a: str, b: str) -> str:
        return self._float_sum("double", 64, a, b, 0x7FF8_0000_0000_0000)

    def _float_sum(self, kind: str, bits: int, a: str, b: str, nan: int) -> str:
        one, other = (self._let(f"bitcast i{bits} {self._narrow(each, bits)} to {kind}") for each in (a, b))
        total = self._let(f"fadd {kind} {one}, {other}")
        is_nan = self._let(f"fcmp uno {kind} {total}, {total}")
        raw = self._let(f"bitcast {kind} {total} to i{bits}")
        return self._wide(self._let(f"select i1 {is_nan}, i{bits} {nan}, i{bits} {raw}"), bits)

    def _call_copy(self, to: str, source: str, size: str) -> str:
        one, other = self._pointer(to), self._pointer(source)
        self._put(f"call void @llvm.memcpy.p0.p0.i64(ptr {one}, ptr {other}, i64 {size}, i1 false)")
        return "0"

    def _call_fill(self, to: str, byte: str, size: str) -> str:
        value = self._narrow(byte, 8)
        self._put(f"call void @llvm.memset.p0.i64(ptr {self._pointer(to)}, i8 {value}, i64 {size}, i1 false)")
        return "0"

    def _call_fill_lines(self, to: str, dword: str, count: str) -> str:
        one = self._let(f"insertelement <16 x i32> poison, i32 {self._narrow(dword, 32)}, i64 0")
        line = self._let(f"shufflevector <16 x i32> {one}, <16 x i32> poison, <16 x i32> zeroinitializer")
        for place in self._lines_of(to, count):
            self._put(f"store <16 x i32> {line}, ptr {place}, align 4")
        return "0"

    def _call_largest_in_lines(self, at: str, count: str) -> str:
        found = self._slot("largest", "<16 x i32>")
        self._put(f"store <16 x i32> zeroinitializer, ptr {found}")
        for place in self._lines_of(at, count):
            sides = [self._let(f"load <16 x i32>, ptr {each}") for each in (f"{place}, align 1", found)]
            larger = self._let(f"call <16 x i32> @llvm.umax.v16i32(<16 x i32> {sides[0]}, <16 x i32> {sides[1]})")
            self._put(f"store <16 x i32> {larger}, ptr {found}")
        whole = self._let(f"load <16 x i32>, ptr {found}")
        return self._wide(self._let(f"call i32 @llvm.vector.reduce.umax.v16i32(<16 x i32> {whole})"), 32)

    def _lines_of(self, at: str, count: str) -> Iterator[str]:
        """A loop over so many times 64 bytes: where they are."""
        head, inside, end = self._label(), self._label(), self._label()
        line = self._slot(f"line.{head}")
        self._put(f"store i64 0, ptr {line}")
        self._go(head)
        self._start(head)
        number = self._let(f"load i64, ptr {line}")
        self._put(f"br i1 {self._let(f'icmp ult i64 {number}, {count}')}, label %{inside}, label %{end}")
        self._start(inside)
        yield self._pointer(self._let(f"add i64 {at}, {self._let(f'shl i64 {number}, 6')}"))
        self._put(f"store i64 {self._let(f'add i64 {number}, 1')}, ptr {line}")
        self._go(head)
        self._start(end)

    def _call_read_float_control(self) -> str:
        if not llvm.is_x86():
            return "0"
        pointer = self._slot("float_control")
        self._put(f"call void @llvm.x86.sse.stmxcsr(ptr {pointer})")
        return self._wide(self._let(f"load i32, ptr {pointer}"), 32)

    def _call_write_float_control(self, word: str) -> str:
        if llvm.is_x86():
            pointer = self._slot("float_control")
            self._put(f"store i32 {self._narrow(word, 32)}, ptr {pointer}")
            self._put(f"call void @llvm.x86.sse.ldmxcsr(ptr {pointer})")
        return "0"

    def _call_call(self, function: str, *arguments: str) -> str:
        given = ", ".join(f"i64 {each}" for each in arguments)
        return self._let(f"call i64 {self._pointer(function)}({given})")

    # ---- conditions ----------------------------------------------------------------------------------------------

    def _branch(self, node: ast.expr, yes: str, no: str) -> None:
        """Go to one of two labels."""
        match node:
            case ast.BoolOp(op=op, values=[*values, last]):
                for each in values:
                    on = self._label()
                    self._branch(each, *((on, no) if isinstance(op, ast.And) else (yes, on)))
                    self._start(on)
                self._branch(last, yes, no)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._branch(operand, no, yes)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                self._put(f"br i1 {self._compare(node, left, op, right)}, label %{yes}, label %{no}")
            case _:
                number = self.source.constant(node)
                if number is not None:
                    self._go(yes if number else no)
                else:
                    self._put(f"br i1 {self._let(f'icmp ne i64 {self._value(node)}, 0')}, label %{yes}, label %{no}")

    # ---- statements ----------------------------------------------------------------------------------------------

    def _block(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as value):
                self._value(value)
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
                self._put(f"ret i64 {'0' if part is None else self._value(part)}")
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

    def _assign(self, target: ast.expr, value: str, view: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._assign_name(name, value, view)
            case ast.Subscript() | ast.Attribute():
                self._store(*self._place(target), value)
            case _:
                self.source.refuse(target)

    def _if(self, node: ast.If) -> None:
        yes, no, end = self._label(), self._label(), self._label()
        self._branch(node.test, yes, no)
        before, behind = self._known, []
        for label, part in ((yes, node.body), (no, node.orelse)):
            self._start(label)
            self._known = None if before is None else set(before)
            self._block(part)
            self._go(end)
            behind.append(self._known)
        self._start(end)
        self._known = behind[0] if behind[1] is None else behind[1] if behind[0] is None else behind[0] & behind[1]

    def _while(self, test: ast.expr, body: list[ast.stmt]) -> None:
        head, inside, end = self._label(), self._label(), self._label()
        self._go(head)
        self._start(head)
        self._branch(test, inside, end)
        self._loop(inside, body, head, end)
        self._go(head)
        self._start(end)

    def _loop(self, inside: str, body: list[ast.stmt], head: str, end: str, target: str = "", at: str = "") -> None:
        """The body of a loop, first `target` from slot `at`; behind it is known what was known before."""
        before = self._known
        self._known = None if before is None else set(before)
        self._start(inside)
        if target:
            self._assign_name(target, self._let(f"load i64, ptr {at}"))
        self._loops.append((head, end))
        self._block(body)
        self._loops.pop()
        self._known = before

    def _for(self, node: ast.For, target: ast.Name, call: ast.Call, body: list[ast.stmt]) -> None:
        if self.source.value(call.func) is not range or call.keywords or not 1 <= len(call.args) <= 3:
            self.source.refuse(node, "goes over something else than a range")
        step = 1 if len(call.args) < 3 else self.source.constant(call.args[2])
        if step is None or step <= 0:
            self.source.refuse(node, "needs a constant step above 0")
        first, last = ("0", self._value(call.args[0])) if len(call.args) == 1 else map(self._value, call.args[:2])
        head, inside, end = self._label(), self._label(), self._label()
        at = self._slot(f"for.{head}")
        self._put(f"store i64 {first}, ptr {at}")
        self._put(f"br i1 {self._let(f'icmp ult i64 {first}, {last}')}, label %{inside}, label %{end}")
        self._start(head)
        now = self._let(f"load i64, ptr {at}")
        following = self._let(f"add i64 {now}, {step}")
        self._put(f"store i64 {following}, ptr {at}")
        more = f"icmp ult i64 {following}, {last}"
        if step > 1:  # it may wrap around
            more = f"icmp ugt i64 {self._let(f'sub i64 {last}, {now}')}, {step}"
        self._put(f"br i1 {self._let(more)}, label %{inside}, label %{end}")
        self._loop(inside, body, head, end, target.id, at)
        self._go(head)
        self._start(end)
