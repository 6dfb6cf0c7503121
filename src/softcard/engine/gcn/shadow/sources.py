"""The shadow bits of results that come from the instruction itself, not from its operands' shadow.

An instruction sets all shadow bits if its result is approximate, and clears them if its result is exact
again. For the intermediate results of an integer division, the shadow is a number that encodes the step."""

from __future__ import annotations

from typing import Any, Final

from softcard.core.checks import FIDELITY, INIT
from softcard.engine.shadow.bits import OptionalShadow, ShadowBits, opaque
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.operations.mai import chosen_arithmetic

# ---- integer divisions -----------------------------------------------------------------------------------------------
# Integer divisions that compilers write out with an approximate reciprocal: which quotients depend on its last bit.
#
# Three sequences begin with ``v_rcp_iflag_f32`` or ``v_rcp_f32`` of a divisor that was an integer:
#
# - 32 bits: the reciprocal times 2**32 - 512 (or 2**32), as an integer; then a step of Newton's and two corrections in
#   integers.
# - 64 bits: times 0x5f7ffffc, two steps and two corrections in integers.
# - up to 24 bits: the dividend times the reciprocal, truncated; one is added where the remainder is not below the
#   divisor.
#
# The first two give the same for every reciprocal within one unit in the last place: the test of this file computes
# them. The last one corrects a quotient that is one too small, not one that is too large. That happens where the
# dividend is 2**24 / 3 or more and just below a multiple of the divisor. The instruction that computes the remainder
# has dividend, divisor and quotient, so the check is made there.
#
# The shadow of such a value is a number that encodes the step. No other rule gives that number to the shadow of a
# float.


RECIPROCAL, ANY_RECIPROCAL, PRODUCT, SCALED, QUOTIENT = 1, 2, 4, 8, 16
"""The numbers that the shadow of `fidelity` has for values in the steps of an integer division.

- `RECIPROCAL`: the result of v_rcp_iflag_f32.
- `ANY_RECIPROCAL`: the result of v_rcp_f32.
- `PRODUCT`: a reciprocal times the dividend.
- `SCALED`: a reciprocal times 2**32.
- `QUOTIENT`: a truncated product.
"""
SOURCES: Final = {"v_rcp_iflag_f32": RECIPROCAL, "v_rcp_f32": ANY_RECIPROCAL}
"""The shadow numbers of reciprocals, by the name of the instruction that computes them."""
MULTIPLIES, TRUNCATES, CONVERTS, REMAINS = range(4)
_STEPS: Final = {
    "v_mul_f32": MULTIPLIES,
    "v_trunc_f32": TRUNCATES,
    "v_cvt_u32_f32": CONVERTS,
    "v_cvt_i32_f32": CONVERTS,
    "v_mad_f32": REMAINS,
    "v_mac_f32": REMAINS,
    "v_fma_f32": REMAINS,
    "v_fmac_f32": REMAINS,
}
TWO_32: Final = 0x4F800000
"""The bits of 2.0**32 in binary32."""
SCALES: Final = (0x4F7FFFFE, 0x5F7FFFFC)
"""The binary32 constants by which the code of 32-bit and 64-bit integer divisions multiplies reciprocals.

Other code does not multiply by them.
"""
MAGNITUDE: Final = 0x7FFFFFFF
ONE: Final = 0x3F800000
ONE_DOUBLE: Final = 0x3FF0000000000000


def step_of(insn: Insn) -> int | None:
    """Return the step of an integer division that an instruction may perform; None for other instructions."""
    step = _STEPS.get(insn.op.name)
    return step if step != REMAINS or insn.get("neg") & 3 else None


def _is(o: Any, shadow: ShadowBits, *numbers: int) -> Any:
    """Return a mask of the lanes whose shadow equals one of `numbers`."""
    found = None
    for number in numbers:
        each = o.eq(32, shadow.bits(o), o.const(32, number))
        found = each if found is None else o.or_(1, found, each)
    return found


def _whole(o: Any, *shadows: OptionalShadow) -> Any:
    """Return the shadow bits of a result that depends on all bits of all operands."""
    found = opaque(o, 32, *shadows)
    return o.const(32, 0) if found is None else found.bits(o)


def _is_clean(o: Any, shadow: OptionalShadow) -> Any:
    """Return a mask of the lanes whose shadow has no bit set."""
    return o.const(1, 1) if shadow is None else o.eq(1, shadow.whole(o), o.const(1, 0))


def is_numbered(*shadows: OptionalShadow) -> bool:
    """Return True if one of the shadows may be the number that encodes a step of an integer division."""
    return any(shadow is not None and not shadow.is_whole for shadow in shadows)


def multiplied(o: Any, a: Any, x: OptionalShadow, b: Any, y: OptionalShadow) -> ShadowBits:
    """Return the shadow of the product a * b of v_mul_f32, which may be a step of an integer division.

    `x` and `y` are the shadows of `a` and `b`. At least one of them is not None."""
    bits = _whole(o, x, y)
    for shadow, factor, others in ((x, b, y), (y, a, x)):
        if shadow is None or shadow.is_whole:
            continue
        alone = _is_clean(o, others)
        integral = o.feq("s", o.fround("s", factor, "trunc"), factor)
        by_integer = _is(o, shadow, RECIPROCAL)
        is_product = o.or_(1, by_integer, o.and_(1, _is(o, shadow, ANY_RECIPROCAL), integral))
        bits = o.select(32, o.and_(1, alone, is_product), o.const(32, PRODUCT), bits)
        scaled = o.and_(1, by_integer, o.eq(32, factor, o.const(32, TWO_32)))
        bits = o.select(32, o.and_(1, alone, scaled), o.const(32, SCALED), bits)
        is_reciprocal = _is(o, shadow, RECIPROCAL, ANY_RECIPROCAL)
        for scale in SCALES:
            corrected = o.and_(1, is_reciprocal, o.eq(32, factor, o.const(32, scale)))
            bits = o.select(32, o.and_(1, alone, corrected), o.const(32, 0), bits)
    return ShadowBits(32, bits=bits)


def truncated(o: Any, x: ShadowBits) -> ShadowBits:
    """Return the shadow of a float with the shadow `x` after its truncation to an integral value."""
    bits = o.select(32, _is(o, x, PRODUCT, SCALED), o.const(32, QUOTIENT), _whole(o, x))
    return ShadowBits(32, bits=bits)


def converted(o: Any, x: ShadowBits) -> ShadowBits:
    """Return the shadow of a float with the shadow `x` after its conversion to an integer.

    It has no bits set for quotients and for products with 2**32, since later steps of the division correct them."""
    bits = o.select(32, _is(o, x, QUOTIENT, SCALED), o.const(32, 0), _whole(o, x))
    return ShadowBits(32, bits=bits)


def quotient_of(o: Any, a: Any, x: OptionalShadow, b: Any, y: OptionalShadow) -> tuple[Any, Any, Any] | None:
    """Return the quotient, the divisor and a mask, given the factors `a` and `b` of a possible remainder.

    The remainder is a dividend minus the product of both factors. `x` and `y` are the shadows of `a` and `b`. The
    mask has the lanes in which one factor is a quotient and the other a divisor. Return None if neither factor
    can be a quotient."""
    found = None
    for quotient, shadow, divisor, others in ((a, x, b, y), (b, y, a, x)):
        if shadow is None or shadow.is_whole:
            continue
        is_quotient = o.and_(1, _is(o, shadow, QUOTIENT), _is_clean(o, others))
        if found is None:
            found = quotient, divisor, is_quotient
        else:
            q, d, other = found
            found = (
                o.select(32, is_quotient, quotient, q),
                o.select(32, is_quotient, divisor, d),
                o.or_(1, is_quotient, other),
            )
    return found


def remainder(o: Any, parts: tuple[Any, Any, Any], dividend: Any, *shadows: OptionalShadow) -> tuple[ShadowBits, Any]:
    """Return the shadow of a division's remainder, and a mask of lanes in which the quotient may differ.

    The quotient may differ if another valid reciprocal would give another quotient. In lanes where the factors
    are a quotient and a divisor, the shadow is set only if the quotient may differ. In other lanes, the result
    depends on all operands' shadow bits. `parts` is the result of `quotient_of`, and the last of `shadows` is the
    dividend's."""
    quotient, divisor, is_quotient = parts
    is_quotient = o.and_(1, is_quotient, _is_clean(o, shadows[-1]))
    differs = o.and_(1, is_quotient, may_differ(o, dividend, divisor, quotient))
    bits = o.select(32, is_quotient, o.sext(32, 1, differs), _whole(o, *shadows))
    return ShadowBits(32, bits=bits), differs


def may_differ(o: Any, dividend: Any, divisor: Any, quotient: Any) -> Any:
    """Return a mask of the lanes in which a less exact reciprocal would give another quotient.

    The reciprocal may have an error of one unit in the last place."""

    def magnitude(x: Any) -> Any:
        return o.and_(32, x, o.const(32, MAGNITUDE))

    def double(x: Any) -> Any:
        return o.fconvert("d", "s", x, "raw")

    single_a, single_b = magnitude(dividend), magnitude(divisor)
    a, b, q = double(single_a), double(single_b), double(magnitude(quotient))
    one = o.const(64, ONE_DOUBLE)
    rest = o.fsub("d", a, o.fmul("d", q, b, "raw"), "raw")
    is_too_large = o.flt("d", rest, o.const(64, 0))
    next_one = o.fadd("d", q, one, "raw")
    limit = o.select(64, o.fle("d", b, rest), o.fadd("d", next_one, one, "raw"), next_one)
    nearest = o.fdiv("s", o.const(32, ONE), single_b, "raw")
    is_below = o.flt("d", o.fmul("d", double(nearest), b, "raw"), one)
    largest = o.add(32, nearest, o.zext(32, 1, is_below))
    product = o.fround("s", o.fmul("s", single_a, largest, "raw"), "trunc")
    may_be = o.fle("d", limit, double(product))
    return o.and_(1, o.fle("s", o.const(32, ONE), single_b), o.or_(1, is_too_large, may_be))


# ---- instructions ----------------------------------------------------------------------------------------------------


EXACT_BY_STEPS: Final = "v_div_fixup"


FROM_LANES: Final = ("ds_bpermute", "ds_swizzle")
TO_LANES: Final = ("ds_permute",)


def is_source(kind: str, insn: Insn) -> bool:
    """Return True if an instruction may set shadow bits of its results even if its operands have none."""
    return bool(source_of(kind, insn)) or (kind == INIT and (takes_from_lanes(insn) or sends_to_lanes(insn)))


def takes_from_lanes(insn: Insn) -> bool:
    """Return True if the lanes of an instruction read values of other lanes.

    In HIP and OpenCL the value of an inactive lane is undefined. Instructions with DPP do not count: the ISA
    defines the value that replaces that of an inactive lane, and compilers rely on it."""
    return insn.op.name.startswith(FROM_LANES)


def sends_to_lanes(insn: Insn) -> bool:
    """Return True if the lanes of an instruction send values to other lanes.

    The result is undefined if several lanes send to one lane."""
    return insn.op.name.startswith(TO_LANES)


def source_of(kind: str, insn: Insn) -> int | None:
    """Return the shadow that an instruction gives to its results, for a kind of shadow.

    True sets all bits, False clears them, None propagates the operands' shadow, and another number encodes a step
    of an integer division. v_div_fixup gives False: it ends the division sequence of the ISA manuals, which is
    exact. Matrix instructions whose sums a Choice defines count as approximate. The shadows of reciprocals are
    numbers (`SOURCES`), since compilers expand integer divisions to code that uses reciprocals."""
    if kind != FIDELITY:
        return None
    if insn.op.name.startswith(EXACT_BY_STEPS):
        return False
    if insn.op.name in SOURCES:
        return SOURCES[insn.op.name]
    if insn.op.accuracy.kind == "approximate" or chosen_arithmetic(insn):
        return True
    return None
