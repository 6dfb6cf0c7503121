"""Conversions with a scale (gfx950) between FP8, BF8, FP6, BF6, FP4 and wider floats.

The scale is a power of two, given by the exponent field of a binary32 number; its sign and fraction are ignored. Narrow
numbers are widened and then multiplied by the scale. Wide numbers are divided by the scale and then rounded, once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import BeyondModel, ModelBug
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn
from softcard.isa.gcn.semantics import fp, source
from softcard.isa.gcn.semantics.access import set_vregs
from softcard.isa.gcn.word import Word

NAN, INFINITY = fp.quiet_nan("s"), fp.infinity("s")
SIGN: Final = 0x8000_0000


@dataclass(frozen=True, slots=True)
class Narrow:
    """An OCP float format of 4 to 8 bits.

    - `largest`: the code of the largest finite number
    - `beyond`: the code for numbers above it (infinity or NaN)
    - `nan`: the code of a NaN

    If a format has no infinity or no NaN, `beyond` or `nan` is the code of its largest number (Choice
    ``gcn/scaled-conversions``)."""

    bits: int
    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int


NARROW: Final = {
    "fp8": Narrow(8, 3, 7, 0x7E, 0x7F, 0x7F),
    "bf8": Narrow(8, 2, 15, 0x7B, 0x7C, 0x7F),
    "fp6": Narrow(6, 3, 1, 0x1F, 0x1F, 0x1F),
    "bf6": Narrow(6, 2, 3, 0x1F, 0x1F, 0x1F),
    "fp4": Narrow(4, 1, 1, 0x7, 0x7, 0x7),
}
_NAME: Final = re.compile(r"v_cvt_scalef32_(sr_)?(2xpk16_|pk32_|pk_)?(\w+)_(\w+)")


def conversion(name: str) -> Execution:
    """Return the semantics of the conversion with mnemonic `name`."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ModelBug(f"{name}: expected the name of a conversion with a scale")
    is_random, packed, to, of = found.groups()
    count = {None: 1, "pk_": 2}.get(packed, 32)
    if of in NARROW:
        return _widen(of, to, count)
    return _narrow(of, to, count, is_random=bool(is_random), has_two_sources=not is_random and of == "f32")


def factor_of(b: Builder, i: Insn, name: str) -> Word:
    """Return the exponent field of the scale, whose operand is in the field `name` of the instruction."""
    return (_single(b, i, name) >> 23) & 0xFF


def _single(b: Builder, i: Insn, name: str) -> Word:
    return source.single(b, i, i[name], "b32", name)


def _words(b: Builder, i: Insn, name: str, count: int) -> list[Word]:
    """Return the values of the `count` registers of the source operand in field `name`."""
    code = i[name]
    if count == 1:
        return [_single(b, i, name)]
    if code < 256:
        raise BeyondModel(f"{i.name}: a source of {count} registers is modelled only for vector registers")
    return [b.v(code - 256 + k & 0xFF) for k in range(count)]


def _check_signs(i: Insn, allowed: int = 0) -> None:
    """Raise `BeyondModel` if omod or clamp is set, or neg or abs of a source outside of the mask `allowed`."""
    if (i["abs"] | i["neg"]) & ~allowed or i["omod"] or i["clamp"]:
        raise BeyondModel(f"{i.name}: neg, abs, omod and clamp are not modelled")


# ---- from narrow formats ---------------------------------------------------------------------------------------------
def widened(form: Narrow, code: Word) -> Word:
    """Convert the number of format `form` in the low bits of `code` to binary32."""
    sign = (code >> form.bits - 1 & 1) << 31
    rest = code & (1 << form.bits - 1) - 1
    normal = (rest << 23 - form.mantissa) + (127 - form.bias << 23)
    tiny = rest.ffrom_int("s", False).fmul(code.const(fp.power("s", 1 - form.bias - form.mantissa)), "raw")
    value = sign | (rest < 1 << form.mantissa).select(tiny, normal)
    if form.bits < 8:
        return value
    if form.mantissa == 3:
        return (rest == form.nan).select(NAN, value)
    return fp.choose([(rest == form.beyond, sign | INFINITY), (rest > form.beyond, code.const(NAN))], value)


def multiplied(value: Word, factor: Word) -> Word:
    """Multiply a binary32 number, not a denormal, by the power of two with exponent field `factor`; 255 gives NaN.

    The function uses integer arithmetic, because engines may flush denormal floats.
    """
    sign, magnitude = value & SIGN, value & ~SIGN
    field, fraction = magnitude >> 23, magnitude & 0x7F_FFFF
    exponent = field + factor - 127
    shift = (1 - exponent).smax(1).smin(31)
    whole = fraction | 0x80_0000
    tiny = whole + (value.const(1) << shift - 1) - 1 + ((whole >> shift) & 1) >> shift
    normal = exponent.slt(255).select(exponent << 23 | fraction, INFINITY)
    scaled = exponent.slt(1).select(tiny, normal)
    result = sign | ((magnitude == 0) | (field == 255)).select(magnitude, scaled)
    return (factor == 255).select(NAN, result)


def _widen(of: str, to: str, count: int) -> Execution:
    form = NARROW[of]

    def semantics(b: Builder, i: Insn) -> None:
        _check_signs(i, 2)
        factor = factor_of(b, i, "src1")
        total = count * form.bits
        given = _words(b, i, "src0", (total + 31) // 32)
        place = i["op_sel"] & 3
        at = 16 * (place & 1) if total == 16 else 8 * place if total == 8 else 0
        numbers = [
            multiplied(widened(form, bits_of(given, at + k * form.bits, form.bits)), factor) for k in range(count)
        ]
        if to == "f32":
            set_vregs(b, i["vdst"], numbers)
            return
        halves = [half_of(to, number) for number in numbers]
        if count > 1:
            set_vregs(b, i["vdst"], [halves[k] | halves[k + 1] << 16 for k in range(0, count, 2)])
            return
        high = 16 * (i["op_sel"] >> 3 & 1)
        set_vregs(b, i["vdst"], [b.v(i["vdst"]) & ~(0xFFFF << high) | halves[0] << high])

    return semantics


def half_of(to: str, value: Word) -> Word:
    """Convert binary32 to format `to`, binary16 or bfloat16, rounded to nearest even, in the low half of a word."""
    if to == "f16":
        return value.fconvert("h", "raw").zext(32)
    rounded = value + 0x7FFF + (value >> 16 & 1) >> 16
    return fp.is_nan(value).select(value >> 16 | 0x40, rounded)


def bits_of(words: Sequence[Word], at: int, size: int) -> Word:
    """Return `size` bits, starting at bit `at`, of a sequence of 32-bit words, the lowest first."""
    n, shift = divmod(at, 32)
    value = words[n] >> shift
    if shift + size > 32:
        value |= words[n + 1] << 32 - shift
    return value & (1 << size) - 1


# ---- to narrow formats -----------------------------------------------------------------------------------------------
def narrowed(form: Narrow, a: Word, factor: Word, noise: Word | None = None) -> Word:
    """Divide binary32 by the power of two with exponent field `factor`, and convert it to the format `form`.

    The result is in the low bits. It is rounded to nearest even, or, if `noise` gives 32 random bits,
    stochastically with the upper bits of `noise`."""
    lowest = 128 - form.bias
    magnitude = a & 0x7FFF_FFFF
    field = magnitude >> 23
    lost = magnitude.ctlz().umax(8) - 8
    whole = (field == 0).select(magnitude << lost.umin(31), (magnitude & 0x7F_FFFF) | 0x80_0000)
    exponent = (field == 0).select(1 - lost, field) - factor + 127
    is_tiny = exponent.slt(lowest)
    shift = is_tiny.select(lowest - exponent, 0) + (23 - form.mantissa)
    is_nothing, shift = shift > 31, shift.umin(31)
    less = (a.const(1) << shift - 1) - 1 + ((whole >> shift) & 1) if noise is None else noise >> 32 - shift
    code = (whole + less >> shift) + (is_tiny.select(0, exponent - lowest) << form.mantissa)
    code = (is_nothing | (magnitude == 0)).select(0, code)
    beyond = form.largest if a.mode.fp16_overflow else form.beyond
    code = ((code > form.largest) | (field == 0xFF)).select(beyond, code)
    code = ((magnitude > INFINITY) | (factor == 255)).select(form.nan, code)
    return code | a >> 31 << form.bits - 1


def _narrow(of: str, to: str, count: int, *, is_random: bool, has_two_sources: bool) -> Execution:
    """Return the semantics of a conversion of `count` numbers from format `of` to the narrow format `to`.

    With `has_two_sources`, SRC0 holds the first half of the numbers and SRC1 the second half; 32 numbers alternate
    between both in the result. With `is_random`, SRC1 holds the random bits that round each number.
    """
    form = NARROW[to]
    registers = count if of == "f32" else (count + 1) // 2

    def semantics(b: Builder, i: Insn) -> None:
        _check_signs(i, 4 if count < 32 and (has_two_sources or is_random) else 2)
        if is_random and of != "f32" and i["op_sel"] & 1:
            raise BeyondModel(f"{i.name}: op_sel of the source is not modelled")
        if has_two_sources:
            halves = [_words(b, i, name, registers // 2) for name in ("src0", "src1")]
            given = [word for pair in zip(*halves, strict=True) for word in pair]
        else:
            given = _words(b, i, "src0", registers)
        factor = factor_of(b, i, "src2" if is_random or has_two_sources else "src1")
        noise = _single(b, i, "src1") if is_random else None
        numbers = given if of == "f32" else [half for word in given for half in _halves(of, word)][:count]
        codes = [narrowed(form, number, factor, noise) for number in numbers]
        total = count * form.bits
        if total > 32:
            set_vregs(b, i["vdst"], joined(b, codes, form.bits))
            return
        at = 16 * (i["op_sel"] >> 3 & 1) if total == 16 else 8 * (i["op_sel"] >> 2 & 3)
        value = joined(b, codes, form.bits)[0]
        set_vregs(b, i["vdst"], [b.v(i["vdst"]) & ~((1 << total) - 1 << at) | value << at])

    return semantics


def _halves(of: str, word: Word) -> list[Word]:
    """Return both halves of a word, floats of format `of`, as binary32."""
    if of == "bf16":
        return [word << 16, word & 0xFFFF_0000]
    return [half.trunc(16).fconvert("s", "raw") for half in (word, word[31:16])]


def joined(b: Builder, codes: Sequence[Word], size: int) -> list[Word]:
    """Pack the numbers `codes`, of `size` bits each, one after the other into 32-bit words."""
    made = []
    for start in range(0, len(codes) * size, 32):
        word = b.const(32, 0)
        for k, code in enumerate(codes):
            shift = k * size - start
            if -size < shift < 32:
                word |= code << shift if shift >= 0 else code >> -shift
        made.append(word)
    return made
