"""Optimised code in which a mask decides about a choice by bits: llvm/llvm-project#157929 must not show."""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest

from softcard.ir import llvm
from softcard.ir.llvm import with_masks_apart

FORMS = ("and or", "or and", "xor", "copysign")
KEPT = ("x", "y", "other")
FLOAT = {16: "half", 32: "float", 64: "double"}
SHAPES = [
    (32, 16, 0),
    (64, 8, 0),
    (32, 8, 0),
    (32, 8, 256),
    (64, 16, 512),
    (64, 16, 256),
    (32, 4, 128),
    (16, 32, 512),
    (16, 4, 0),
]
"""Bits of an element, elements, and what a function says of the widest registers; 0: nothing."""


def function(name: str, form: str, kept: str, operands: str, bits: int, lanes: int) -> str:
    """Stores, where a mask says so, the lower bits of x with the highest one of y; elsewhere `kept`.

    `operands`: whether x and y are loaded where they are needed, or computed.
    """
    vector, floats = f"<{lanes} x i{bits}>", f"<{lanes} x {FLOAT[bits]}>"
    low, high = (f"splat (i{bits} {number})" for number in ((1 << bits - 1) - 1, -(1 << bits - 1)))
    lines = [f"define void @{name}(ptr %r, i{lanes} %mask) #0 {{", f"%m = bitcast i{lanes} %mask to <{lanes} x i1>"]
    for number, each in enumerate(KEPT):
        lines.append(f"%p{each} = getelementptr i8, ptr %r, i64 {256 * (number + 1)}")
        lines.append(f"%{each}.0 = load {vector}, ptr %p{each}, align 64")
        one = 1 if operands == "computed" and each != "other" else 0
        lines.append(f"%{each} = add {vector} %{each}.0, splat (i{bits} {one})")
    if form in ("and or", "or and"):
        first, second = ("%a", "%b") if form == "and or" else ("%b", "%a")
        lines += [f"%a = and {vector} %x, {low}", f"%b = and {vector} %y, {high}"]
        lines += [f"%z = or {vector} {first}, {second}"]
    elif form == "xor":
        lines += [f"%a = xor {vector} %x, %y", f"%b = and {vector} %a, {low}", f"%z = xor {vector} %b, %y"]
    else:
        lines += [f"%f{each} = bitcast {vector} %{each} to {floats}" for each in "xy"]
        lines += [f"%fz = call {floats} @llvm.copysign.v{lanes}f{bits}({floats} %fx, {floats} %fy)"]
        lines += [f"%z = bitcast {floats} %fz to {vector}"]
    lines += [f"%s = select <{lanes} x i1> %m, {vector} %z, {vector} %{kept}"]
    return "\n".join([*lines, f"store {vector} %s, ptr %r, align 64", "ret void", "}"])


@pytest.mark.parametrize(("bits", "lanes", "width"), SHAPES)
def test_a_masked_choice_is_what_it_says(bits: int, lanes: int, width: int) -> None:
    cases = list(product(FORMS, KEPT, ("loaded", "computed")))
    text = "\n".join(function(f"f{number}", *case, bits, lanes) for number, case in enumerate(cases))
    if width:
        text += f'\nattributes #0 = {{ "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" }}'
    else:
        text += "\nattributes #0 = { nounwind }"
    floats = f"<{lanes} x {FLOAT[bits]}>"
    code = llvm.Code(
        llvm.compile_ir(f"{text}\ndeclare {floats} @llvm.copysign.v{lanes}f{bits}({floats}, {floats})", llvm.OPTIMISED)
    )
    rng, kind = np.random.default_rng(bits), np.dtype(f"u{bits // 8}")
    room = np.zeros(2048 + 64, np.uint8)
    data = room[-room.ctypes.data % 64 :][:2048].view(kind)
    for number, (form, kept, operands) in enumerate(cases):
        data[:] = rng.integers(0, 1 << bits, len(data), kind)
        x, y, other = (data[at * 256 * 8 // bits :][:lanes].copy() for at in (1, 2, 3))
        if operands == "computed":
            x, y = x + kind.type(1), y + kind.type(1)
        mask = int(rng.integers(1, 1 << lanes))
        code.function(f"f{number}", None, ctypes.c_void_p, ctypes.c_uint64)(data.ctypes.data, mask)
        low = kind.type((1 << bits - 1) - 1)
        chosen = np.array([mask >> lane & 1 for lane in range(lanes)], bool)
        expected = np.where(chosen, x & low | y & ~low, {"x": x, "y": y, "other": other}[kept])
        assert data[:lanes].tolist() == expected.tolist(), (form, kept, operands)


def test_what_is_no_choice_by_bits_stays_as_it_is() -> None:
    text = "%s = add <4 x i32> %a, %b\n%t = select <4 x i1> %m, <4 x i32> %s, <4 x i32> %b"
    assert with_masks_apart(text) == text
    text = "%m = or <4 x i1> %n, %o\n%t = select <4 x i1> %m, <4 x i1> %m, <4 x i1> %o"
    assert with_masks_apart(text) == text
    text = "%s = or <4 x i32> %a, %b\nstore <4 x i32> %s, ptr %p"
    assert with_masks_apart(text) == text


def test_functions_without_the_instruction_stay_as_they_are() -> None:
    text = "%s = or <8 x i32> %a, %b\n%t = select <8 x i1> %m, <8 x i32> %s, <8 x i32> %b"
    text += '\nattributes #0 = { "target-features"="+avx2,-avx512f,-avx512vl" }'
    assert with_masks_apart(text) == text


def test_names_are_whole_names() -> None:
    text = "%s = or <4 x i32> %s.1, %b\n%t = select <4 x i1> %m, <4 x i32> %s, <4 x i32> %s.1"
    *_, last = with_masks_apart(text).split("\n")
    assert last == "%t = select <4 x i1> %m, <4 x i32> %apart.1, <4 x i32> %s.1"


def test_functions_that_prefer_narrow_registers() -> None:
    """That alone may be left of what was said of them: on hosts with narrower ones there are no wider ones."""
    text = "%s = or <16 x i32> %a, %b\n%t = select <16 x i1> %m, <16 x i32> %s, <16 x i32> %b"
    made = with_masks_apart(f'{text}\nattributes #0 = {{ "prefer-vector-width"="256" }}')
    assert made.count('call <8 x i32> asm "", "=v,0"') == 2
    assert with_masks_apart(text).count('call <16 x i32> asm "", "=v,0"') == 1
