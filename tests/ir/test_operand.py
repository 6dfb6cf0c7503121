"""Operands of LLVM IR: what operators write, and which operands they refuse."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from softcard.core.errors import ModelBug
from softcard.ir import llvm
from softcard.ir.builder import LaneText, Text
from softcard.ir.operand import Operand

WRITTEN: dict[str, Callable[[Operand, Operand, Operand], object]] = {
    "add i64 %a, %b": lambda a, b, p: a + b,
    "sub i64 %a, 1": lambda a, b, p: a - 1,
    "sub i64 0, %a": lambda a, b, p: 0 - a,
    "mul i64 %a, %b": lambda a, b, p: a * b,
    "udiv i64 %a, 3": lambda a, b, p: a // 3,
    "urem i64 %a, 3": lambda a, b, p: a % 3,
    "and i64 %a, -8": lambda a, b, p: a & -8,
    "or i64 %a, %b": lambda a, b, p: a | b,
    "xor i64 %a, -1": lambda a, b, p: ~a,
    "shl i64 1, %a": lambda a, b, p: 1 << a,
    "lshr i64 %a, 5": lambda a, b, p: a >> 5,
    "ashr i64 %a, 5": lambda a, b, p: a.ashr(5),
    "icmp eq i64 %a, %b": lambda a, b, p: a.eq(b),
    "icmp ult i64 %a, %b": lambda a, b, p: a < b,
    "icmp uge i64 %a, 7": lambda a, b, p: a >= 7,
    "icmp sle i64 %a, 7": lambda a, b, p: a.sle(7),
    "trunc i64 %a to i8": lambda a, b, p: a.trunc("i8"),
    "inttoptr i64 %a to ptr": lambda a, b, p: a.inttoptr(),
    "getelementptr i32, ptr %p, i64 %a": lambda a, b, p: p.element("i32", a),
    "getelementptr i8, ptr %p, i64 12": lambda a, b, p: p.offset(12),
    "load volatile i32, ptr %p, align 1, !m": lambda a, b, p: p.load("i32", align=1, volatile=True, tail=", !m"),
    "store i64 %a, ptr %p": lambda a, b, p: p.store(a),
    "store i8 3, ptr %p, align 2": lambda a, b, p: p.store(3, type="i8", align=2),
    "call i64 @f(i64 %a, ptr %p, i64 4)": lambda a, b, p: a.text.invoke("i64", "@f", a, p, 4),
    "phi i64 [ %a, %x ], [ 0, %y ]": lambda a, b, p: a.text.phi("i64", (a, "x"), (0, "y")),
    "ret i64 %a": lambda a, b, p: a.text.ret(a),
    "br label %x": lambda a, b, p: a.text.jump("x"),
}
REFUSED: dict[str, Callable[[Operand, Operand], object]] = {
    "i64 %a and i32 %n differ": lambda a, n: a + n,
    "i64 %a cannot be combined with 'b'": lambda a, n: a + "b",  # type: ignore[operator]
    "'b' [+] operand i64 %a": lambda a, n: "b" + a,
    "a load from i64 %a": lambda a, n: a.load("i64"),
    "select has the value i32 %n": lambda a, n: a.eq(0).select(a, n),
    "select of 1 and 2": lambda a, n: a.eq(0).select(1, 2),
    "cannot store 'b'": lambda a, n: a.inttoptr().store("b"),  # type: ignore[arg-type]
    "cannot name i64 %a %x, expected the result of the last instruction": lambda a, n: (a + 1, a.text.named("%x", a)),
}


def words(text: Text) -> tuple[Operand, Operand, Operand]:
    return text.word("%a"), text.word("%b"), text.pointer("%p")


@pytest.mark.parametrize("line", WRITTEN)
def test_an_operator_writes_one_instruction(line: str) -> None:
    text = Text()
    made = WRITTEN[line](*words(text))
    assert [each.split(" = ")[-1].strip() for each in text.lines] == [line]
    assert made is None or text.lines[0].startswith(f"  {made} = ")


@pytest.mark.parametrize("message", REFUSED)
def test_operands_that_do_not_agree_are_refused(message: str) -> None:
    text = Text()
    with pytest.raises(ModelBug, match=message):
        REFUSED[message](text.word("%a"), text.operand("i32", "%n"))


def test_vectors_have_their_own_types() -> None:
    text = LaneText(8)
    v = text.operand("<8 x i32>", "%v")
    assert (v + 3).type == "<8 x i32>"
    assert (v < v).type == "<8 x i1>"
    assert v.lane(2).type == "i32"
    assert text.shuffle(v, "<4 x i32> zeroinitializer").type == "<4 x i32>"
    assert v.zext("<8 x i64>").inttoptr("<8 x ptr>").element("i8", 1).type == "<8 x ptr>"
    assert text.pointer("%p").offset(v).type == "<8 x ptr>"
    assert "add <8 x i32> %v, splat (i32 3)" in text.lines[0]


def test_a_result_may_have_a_name_of_its_own() -> None:
    text = Text()
    a, b, _ = words(text)
    total = text.named("%total", a + b)
    assert (total, total.type) == ("%total", "i64")
    assert text.lines == ["  %total = add i64 %a, %b"]


def test_lines_for_the_head_stand_there_once() -> None:
    text = Text()
    for _ in range(2):
        with text.at_head():
            text.named("%row", text.pointer("%st").element("i64", 3))
    assert text.lines == []
    assert text.allocas == ["  %row = getelementptr i64, ptr %st, i64 3"]


def test_what_operators_write_runs() -> None:
    text = Text()
    a, b, _ = words(text)
    text.ret((a < b).select(b - a, a - b) * 3 + (a & 1) | 1 << b % 64)
    code = "\n".join(["define i64 @f(i64 %a, i64 %b) {", *text.lines, "}", ""])
    run = llvm.Code(llvm.compile_ir(code, llvm.QUICK)).function("f", *[ctypes.c_uint64] * 3)
    for one, other in ((0, 0), (5, 70), (1 << 63, 3)):
        assert run(one, other) == ((abs(one - other) * 3 + (one & 1)) | 1 << other % 64) & (1 << 64) - 1
