"""Vector float arithmetic, minima, parts and comparisons against exact fractions: every rounding and denormal mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.target import target
from tests.isa.gcn.semantics import float_oracle as fl
from tests.isa.gcn.semantics.alu_rig import (
    FULL,
    HARD,
    OLD_VALUES,
    OPS,
    PARTIAL,
    Alu,
    batches,
    forms,
    operation,
    signed,
    vector_results,
    width,
)
from tests.isa.gcn.semantics.float_oracle import BY_KIND, D, Env, Format, H, S, env_of

MODES = (0x3F0, 0x3C0, 0x300, 0x0F0, 0x3A5, 0x35A, 0x0FF)
"""Denormals kept; binary32 flushed; all flushed; IEEE off; other rounding with other halves of the denormal bits."""


def plain(f: Callable[..., int]) -> Callable[..., Any]:
    """An operation whose environment is MODE's."""
    return lambda form, mode, level, *sources: f(form, *sources, env_of(mode, form))


def flushing(mode: int, form: Format) -> Env:
    return Env(env_of(mode, form).rounding, False, False)


def mad(form: Format, mode: int, level: int, a: int, b: int, c: int) -> int:
    env = flushing(mode, form)
    return fl.add(form, fl.mul(form, a, b, env), c, env)


def mul_legacy(form: Format, mode: int, level: int, a: int, b: int, env: Env | None = None) -> int:
    env = env or env_of(mode, form)
    if not (fl.flush(form, a, env.inputs) & ~form.sign and fl.flush(form, b, env.inputs) & ~form.sign):
        return 0
    return fl.mul(form, a, b, env)


def mad_legacy(form: Format, mode: int, level: int, a: int, b: int, c: int) -> int:
    env = flushing(mode, form)
    return fl.add(form, mul_legacy(form, mode, level, a, b, env), c, env)


def mullit(form: Format, mode: int, level: int, a: int, b: int, c: int) -> int:
    return mul_legacy(form, mode, level, a, b) if fl.less(form, 0, c, env_of(mode, form)) else 0xFF7FFFFF


def extreme(largest: bool) -> Callable[..., Any]:
    """AMD's pseudo-code of v_min and v_max."""

    def oracle(form: Format, mode: int, level: int, a: int, b: int) -> int:
        if level == 9:
            a, b = fl.prepared(form, env_of(mode, form), a, b)
        for x in (a, b):
            if mode >> 9 & 1 and fl.is_signalling(form, x):
                return x | 1 << form.digits - 1
        if fl.is_nan(form, a):
            return b
        if fl.is_nan(form, b):
            return a
        pick = max if largest else min
        return pick(a, b, key=lambda bits: fl.order(form, bits))

    return oracle


def extreme3(largest: bool) -> Callable[..., Any]:
    two = extreme(largest)
    return lambda form, mode, level, a, b, c: two(form, mode, level, two(form, mode, level, a, b), c)


def median(form: Format, mode: int, level: int, *sources: int) -> int:
    """AMD's pseudo-code: the minimum if any is a NaN, else the maximum of the two that are not the maximum."""
    low, high, high3 = extreme3(False), extreme(True), extreme3(True)
    if any(fl.is_nan(form, x) for x in sources):
        return low(form, mode, level, *sources)
    if level == 9:
        sources = tuple(fl.prepared(form, env_of(mode, form), *sources))
    a, b, c = sources
    top = high3(form, mode, level, a, b, c)
    rest = (b, c) if top == a else (a, c) if top == b else (a, b)
    return high(form, mode, level, *rest)


def rounded(rounding: int) -> Callable[..., Any]:
    return lambda form, mode, level, a: fl.to_integral(form, a, rounding, env_of(mode, form))


def fract(form: Format, mode: int, level: int, a: int) -> int:
    env = env_of(mode, form)
    result = fl.sub(form, a, fl.to_integral(form, a, fl.DOWN, env), env)
    one = form.bias << form.digits
    return one - 1 if result == one else result


def frexp(form: Format, mode: int, a: int) -> tuple[int, int] | None:
    """Mantissa bits and exponent of a finite number that is not 0."""
    a = fl.flush(form, a, env_of(mode, form).inputs)
    if fl.is_nan(form, a) or fl.is_inf(form, a) or not a & ~form.sign:
        return None
    x = fl.value(form, a)
    exponent = fl.log2_floor(abs(x)) + 1
    return fl.encode(form, x / Fraction(2) ** exponent, Env()), exponent


def frexp_mant(form: Format, mode: int, level: int, a: int) -> int:
    parts = frexp(form, mode, a)
    if parts:
        return parts[0]
    return a | 1 << form.digits - 1 if fl.is_nan(form, a) else fl.flush(form, a, env_of(mode, form).inputs)


def frexp_exp(form: Format, mode: int, level: int, a: int) -> int:
    parts = frexp(form, mode, a)
    return parts[1] if parts else 0


def ldexp(form: Format, mode: int, level: int, a: int, n: int) -> int:
    return fl.ldexp(form, a, signed(16 if form is H else 32, n), env_of(mode, form))


def cube(which: str) -> Callable[..., Any]:
    def oracle(form: Format, mode: int, level: int, x: int, y: int, z: int) -> int:
        env = env_of(mode, S)
        ax, ay, az = (a & ~S.sign for a in (x, y, z))
        at_most = lambda a, b: fl.less(S, a, b, env) or fl.equal(S, a, b, env)  # noqa: E731
        neg = lambda a: a ^ S.sign  # noqa: E731
        below = lambda a: fl.less(S, a, 0, env)  # noqa: E731
        if at_most(ax, az) and at_most(ay, az):
            face = 5.0 if below(z) else 4.0
            sc, tc, ma = (neg(x) if below(z) else x), neg(y), z
        elif at_most(ax, ay):
            face = 3.0 if below(y) else 2.0
            sc, tc, ma = x, (neg(z) if below(y) else z), y
        else:
            face = 1.0 if below(x) else 0.0
            sc, tc, ma = (z if below(x) else neg(z)), neg(y), x
        if which == "id":
            return fl.encode(S, Fraction(face), Env())
        return {"sc": sc, "tc": tc}[which] if which != "ma" else fl.mul(S, ma, 0x40000000, env)

    return oracle


NAMES: dict[str, Callable[..., Any]] = {
    "add": plain(fl.add), "sub": plain(fl.sub), "mul": plain(fl.mul), "fma": plain(fl.fma), "fmac": plain(fl.fma),
    "subrev": lambda form, mode, level, a, b: fl.sub(form, b, a, env_of(mode, form)),
    "mad": mad, "mac": mad, "mad_legacy": mad_legacy, "mac_legacy": mad_legacy, "mul_legacy": mul_legacy,
    "mullit": mullit,
    "madmk": lambda form, mode, level, a, k, b: mad(form, mode, level, a, k, b), "madak": mad,
    "fma_legacy": plain(fl.fma),
    "min": extreme(False), "max": extreme(True), "min3": extreme3(False), "max3": extreme3(True), "med3": median,
    "min_legacy": lambda form, mode, level, a, b: a if fl.less(form, a, b, env_of(mode, form)) else b,
    "max_legacy": lambda form, mode, level, a, b: a
    if fl.less(form, b, a, env_of(mode, form)) or fl.equal(form, a, b, env_of(mode, form)) else b,
    "trunc": rounded(fl.ZERO), "ceil": rounded(fl.UP), "floor": rounded(fl.DOWN), "rndne": rounded(fl.NEAREST),
    "fract": fract, "frexp_mant": frexp_mant, "ldexp": ldexp,
    "cubeid": cube("id"), "cubesc": cube("sc"), "cubetc": cube("tc"), "cubema": cube("ma"),
}  # fmt: skip
ORACLE = {f"v_{name}_{kind}": (f, form) for kind, form in BY_KIND.items() for name, f in NAMES.items()}
# "legacy" means another thing of halves: what GFX8 did with the other half of the register.
ORACLE["v_mad_legacy_f16"] = (mad, H)
ORACLE |= {
    f"v_frexp_exp_{i}_{kind}": (frexp_exp, BY_KIND[kind])
    for i, kind in (("i32", "f64"), ("i32", "f32"), ("i16", "f16"))
}


def operations(gpu: str) -> list[Op]:
    t = target(gpu)
    return [op for op in OPS if op.on(t) and op.family in ("vop1", "vop2", "vop3") and op.name in ORACLE]


def hard(form: Format) -> Callable[[int], Sequence[int]]:
    return lambda w: (
        fl.HARD[form]
        if w == form.width
        else (0, 1, 2, 23, 24, 149, 0x7FFF_FFFF & (1 << w) - 1, 1 << w - 1, (1 << w) - 1)
    )


def check(op: Op, form: str, gpu: str, mode: int, exec_: int) -> None:
    f, fmt = ORACLE[op.name]
    kinds = [kind for kind in op.sources if kind not in ("old", "level")]
    widths = [fmt.width if kind == "k32" else width(kind) for kind in kinds]
    size = width(op.results[0])
    for columns in batches(widths, hard(fmt), seed=mode, limit=1):
        if "k32" in kinds:
            columns[kinds.index("k32")] = [columns[kinds.index("k32")][0]] * 64
        found = vector_results(op, form, columns, gpu, mode, exec_)
        lanes = [n for n in range(64) if exec_ >> n & 1]
        for lane, (got,) in zip(lanes, found, strict=True):
            sources = [column[lane] for column in columns]
            if "old" in op.sources:
                sources.append(OLD_VALUES[lane] & (1 << fmt.width) - 1)
            expected = f(fmt, mode, target(gpu).level, *sources) & (1 << size) - 1
            assert got & (1 << size) - 1 == expected, (
                f"{op.name} ({form}, {gpu}, MODE {mode:#x}) of {[hex(n) for n in sources]}"
            )


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gpu", ["gfx700", "gfx803", "gfx906"])
def test_every_operation(subtests: pytest.Subtests, gpu: str, mode: int) -> None:
    for op in operations(gpu):
        with subtests.test(op.name):
            for exec_, form in zip((PARTIAL, FULL), forms(op), strict=False):
                check(op, form, gpu, mode, exec_)


def test_no_float_operation_is_left_out() -> None:
    others = (
        "cvt",
        "rcp",
        "rsq",
        "sqrt",
        "exp",
        "log",
        "sin",
        "cos",
        "div",
        "class",
        "trig",
        "mix",
        "dot",
        "pk",
        "cndmask",
        "pack",
    )
    for op in OPS:
        if (
            op.family in ("vop1", "vop2", "vop3")
            and op.signature
            and any(op.on(target(gpu)) for gpu in ("gfx700", "gfx803", "gfx906"))  # `test_cdna` has the later ones
            and any(kind[0] == "f" for kind in op.results + op.sources)
        ):
            assert op.name in ORACLE or any(f"_{word}" in op.name for word in others), op.name


COMPARE: dict[str, Callable[[bool, bool, bool], bool]] = {
    # less, equal, unordered
    "f": lambda lt, eq, un: False, "lt": lambda lt, eq, un: lt, "eq": lambda lt, eq, un: eq, "le": lambda lt, eq,
    un: lt or eq,
    "gt": lambda lt, eq, un: not (lt or eq or un), "lg": lambda lt, eq, un: not (eq or un), "ge": lambda lt, eq,
    un: not (lt or un),
    "o": lambda lt, eq, un: not un, "u": lambda lt, eq, un: un, "nge": lambda lt, eq, un: lt or un,
    "nlg": lambda lt, eq, un: eq or un, "ngt": lambda lt, eq, un: lt or eq or un, "nle": lambda lt, eq,
    un: not (lt or eq),
    "neq": lambda lt, eq, un: not eq, "nlt": lambda lt, eq, un: not lt, "tru": lambda lt, eq, un: True,
    "t": lambda lt, eq, un: True, "ne": lambda lt, eq, un: not eq,
}  # fmt: skip


def holds(kind: str, name: str, a: int, b: int, mode: int) -> int:
    if kind[0] == "f":
        form = BY_KIND[kind]
        env = env_of(mode, form)
        unordered = fl.is_nan(form, a) or fl.is_nan(form, b)
        return int(COMPARE[name](fl.less(form, a, b, env), fl.equal(form, a, b, env), unordered))
    x, y = (signed(width(kind), n) if kind[0] == "i" else n for n in (a, b))
    return int(COMPARE[name](x < y, x == y, False))


@pytest.mark.parametrize("gpu", ["gfx700", "gfx803", "gfx900"])
def test_every_comparison(subtests: pytest.Subtests, gpu: str) -> None:
    t = target(gpu)
    for op in OPS:
        with subtests.test(op.name):
            if op.family != "vopc" or not op.on(t) or "class" in op.name:
                continue
            name, kind = op.name.split("_")[2:]
            values = (lambda w, kind=kind: fl.HARD[BY_KIND[kind]]) if kind[0] == "f" else lambda w: HARD[w]
            mode = 0x3C0 if op.opcodes[t.level] & 1 else 0x3F0
            form, exec_ = forms(op)[op.opcodes[t.level] >> 1 & 1], PARTIAL if op.opcodes[t.level] & 4 else FULL
            for columns in batches([width(kind)] * 2, values, limit=2):
                found = vector_results(op, form, columns, gpu, mode, exec_)
                for lane, got in zip([n for n in range(64) if exec_ >> n & 1], found, strict=True):
                    a, b = columns[0][lane], columns[1][lane]
                    assert set(got) == {holds(kind, name, a, b, mode)}, f"{op.name} ({form}) of {a:#x}, {b:#x}"


def class_of(f: Format, bits: int) -> int:
    """The bit of a number's class, as the manuals list them."""
    if fl.is_nan(f, bits):
        return 0 if fl.is_signalling(f, bits) else 1
    kind = 0 if fl.is_inf(f, bits) else 3 if not bits & ~f.sign else 2 if fl.is_denormal(f, bits) else 1
    return (2 + kind) if fl.negative(f, bits) else 9 - kind


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_class(kind: str) -> None:
    form = BY_KIND[kind]
    for name in (f"v_cmp_class_{kind}", f"v_cmpx_class_{kind}"):
        op = operation(name, "gfx900")
        for columns in batches([form.width, 10], lambda w: fl.HARD[form] if w > 10 else [1 << k for k in range(10)]):
            for encoding in forms(op):
                found = vector_results(op, encoding, columns, "gfx900", 0x300)
                for a, mask, got in zip(*columns, found, strict=True):
                    assert set(got) == {mask >> class_of(form, a) & 1}, f"{a:#x}, {mask:#x}"


def test_comparison_writes_exec_and_clears_lanes_outside() -> None:
    alu = Alu(exec_=0xFFFF)
    alu.set_v(1, list(range(64)))
    alu.run("v_cmpx_gt_u32_e64 s[4:5], v1, 7")
    assert alu.s64(4) == 0xFF00
    assert alu.s64(126) == 0xFF00


def test_cndmask_changes_signs() -> None:
    alu = Alu()
    alu.set_v(1, [0x3F800000] * 64)
    alu.set_v(2, [0xC0000000] * 64)
    alu.set_s64(4, 0xF)
    alu.run("v_cndmask_b32_e64 v0, -v1, |v2|, s[4:5]")
    assert alu.v(0) == [0x40000000] * 4 + [0xBF800000] * 60


@pytest.mark.parametrize("digits", [0, 1, 5, 17, 30])
@pytest.mark.parametrize("exponent", [0, 1023, 1077, 1078, 1200, 1968, 2046])
def test_trig_preop_takes_digits_of_two_over_pi(digits: int, exponent: int) -> None:
    import mpmath

    with mpmath.workprec(4000):
        shift = digits * 53 + max(0, exponent - 1077)
        scaled = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** 1201)) << shift
        chunk = (scaled >> 1201 - 53) & (1 << 53) - 1
    expected = fl.encode(D, Fraction(chunk) * Fraction(2) ** (-53 - shift + (128 if exponent >= 1968 else 0)), Env())
    alu = Alu()
    alu.set_v(2, [exponent << 52 | 0x12345] * 64, 64)
    alu.set_v(4, [0xFFFFFFE0 | digits] * 64)
    alu.run("v_trig_preop_f64 v[0:1], v[2:3], v4")
    assert alu.v(0, 64) == [expected] * 64
