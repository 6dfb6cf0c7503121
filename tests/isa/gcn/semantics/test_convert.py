"""Conversions against exact fractions."""

from __future__ import annotations

from collections.abc import Callable
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
    batches,
    forms,
    signed,
    vector_results,
    width,
)
from tests.isa.gcn.semantics.float_oracle import D, Env, Format, H, S, env_of
from tests.isa.gcn.semantics.integer_oracle import join

MODES = (0x3F0, 0x3C0, 0x300, 0x3FA, 0x3C5, 0x30F)


def to_int(form: Format, w: int, is_signed: bool) -> Callable[..., int]:
    return lambda mode, a: fl.to_int(form, fl.flush(form, a, env_of(mode, form).inputs), w, is_signed)


def from_int(form: Format, w: int, is_signed: bool) -> Callable[..., int]:
    return lambda mode, a: fl.encode(form, Fraction(signed(w, a) if is_signed else a), env_of(mode, form))


def between(to: Format, form: Format) -> Callable[..., int]:
    def oracle(mode: int, a: int) -> int:
        rounding = env_of(mode, form if form is D else to).rounding
        return fl.convert(to, form, a, Env(rounding, env_of(mode, form).inputs, env_of(mode, to).results))

    return oracle


def floor(mode: int, a: int) -> int:
    return fl.to_int(S, fl.flush(S, a, env_of(mode, S).inputs), 32, True, fl.DOWN)


def nearest(mode: int, a: int) -> int:
    return floor(mode, fl.add(S, a, 0x3F000000, env_of(mode, S)))


def offset(mode: int, a: int) -> int:
    return fl.encode(S, Fraction(signed(4, a), 16), Env())


def ubyte(k: int) -> Callable[..., int]:
    return lambda mode, a: fl.encode(S, Fraction(a >> 8 * k & 0xFF), Env())


def norm(form: Format, is_signed: bool) -> Callable[[int, int], int]:
    """A number of -1 to 1 (0 to 1) in steps of 1/32767 (1/65535)."""

    def one(mode: int, a: int) -> int:
        scale = 32767 if is_signed else 65535
        a = fl.flush(form, a, env_of(mode, form).inputs)
        if fl.is_nan(form, a):
            return 0
        if fl.is_inf(form, a):
            return (-scale if is_signed else 0) if fl.negative(form, a) else scale
        whole = round(fl.value(form, a) * scale)
        return min(max(whole, -scale if is_signed else 0), scale) & 0xFFFF

    return one


def two(one: Callable[[int, int], int]) -> Callable[..., int]:
    return lambda mode, a, b: join(one(mode, a), one(mode, b))


def rtz(mode: int, a: int, b: int) -> int:
    env = Env(fl.ZERO, env_of(mode, S).inputs, env_of(mode, H).results)
    return join(fl.convert(H, S, a, env), fl.convert(H, S, b, env))


def put_byte(mode: int, a: int, k: int, into: int) -> int:
    a = fl.flush(S, a, env_of(mode, S).inputs)
    byte = min(fl.to_int(S, a, 32, False, mode & 3), 255)
    at = 8 * (k & 3)
    return into & ~(0xFF << at) | byte << at


ORACLE: dict[str, Callable[..., Any]] = {
    "v_cvt_i32_f64": to_int(D, 32, True),
    "v_cvt_u32_f64": to_int(D, 32, False),
    "v_cvt_i32_f32": to_int(S, 32, True),
    "v_cvt_u32_f32": to_int(S, 32, False),
    "v_cvt_u16_f16": to_int(H, 16, False),
    "v_cvt_i16_f16": to_int(H, 16, True),
    "v_cvt_f64_i32": from_int(D, 32, True),
    "v_cvt_f64_u32": from_int(D, 32, False),
    "v_cvt_f32_i32": from_int(S, 32, True),
    "v_cvt_f32_u32": from_int(S, 32, False),
    "v_cvt_f16_u16": from_int(H, 16, False),
    "v_cvt_f16_i16": from_int(H, 16, True),
    "v_cvt_f16_f32": between(H, S),
    "v_cvt_f32_f16": between(S, H),
    "v_cvt_f32_f64": between(S, D),
    "v_cvt_f64_f32": between(D, S),
    "v_cvt_rpi_i32_f32": nearest,
    "v_cvt_flr_i32_f32": floor,
    "v_cvt_off_f32_i4": offset,
    **{f"v_cvt_f32_ubyte{k}": ubyte(k) for k in range(4)},
    "v_cvt_norm_i16_f16": norm(H, True),
    "v_cvt_norm_u16_f16": norm(H, False),
    "v_cvt_pknorm_i16_f32": two(norm(S, True)),
    "v_cvt_pknorm_u16_f32": two(norm(S, False)),
    "v_cvt_pknorm_i16_f16": two(norm(H, True)),
    "v_cvt_pknorm_u16_f16": two(norm(H, False)),
    "v_cvt_pkrtz_f16_f32": rtz,
    "v_cvt_pk_u8_f32": put_byte,
    "v_cvt_pkaccum_u8_f32": put_byte,
}
MORE = {
    S: (0x3F000000, 0xBF000000, 0x3F7FFFFF, 0x33000001, 0x387FC000, 0x38800000, 0x477FEFFF, 0x477FF000, 0x47800000,
    0x437F0000),
    H: (0x3800, 0x4900, 0xC900, 0x77FF, 0x7800, 0xF801, 0x0200),
    D: (0x41E0000000000000, 0x41EFFFFFFFFFFFFF, 0xC1E0000000200000, 0x380FFFFFE0000000, 0x380FFFFFF0000001,
    0x36A8000000000000),
}  # fmt: skip


def operations(gpu: str) -> list[Op]:
    t = target(gpu)
    return [
        op
        for op in OPS
        if op.on(t) and "cvt" in op.name and any(kind[0] in "fh" for kind in (*op.sources, *op.results))
    ]


def values(kind: str) -> tuple[int, ...]:
    if kind[0] == "f":
        form = {16: H, 32: S, 64: D}[width(kind)]
        return fl.HARD[form] + MORE[form]
    return HARD[width(kind)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gpu", ["gfx700", "gfx803", "gfx900"])
def test_every_conversion(subtests: pytest.Subtests, gpu: str, mode: int) -> None:
    for op in operations(gpu):
        with subtests.test(op.name):
            kinds = [kind for kind in op.sources if kind != "old"]
            size = 16 if op.results[0] in ("f16", "u16", "i16") else width(op.results[0])
            for exec_, form in zip((FULL, PARTIAL), forms(op), strict=False):
                of_width = {width(kind): values(kind) for kind in reversed(kinds)}
                for columns in batches([width(kind) for kind in kinds], of_width.__getitem__, limit=2):
                    found = vector_results(op, form, columns, gpu, mode, exec_)
                    for lane, (got,) in zip([n for n in range(64) if exec_ >> n & 1], found, strict=True):
                        sources = [column[lane] for column in columns]
                        if "old" in op.sources:
                            sources.append(OLD_VALUES[lane])
                        expected = ORACLE[op.name](mode, *sources) & (1 << size) - 1
                        assert got & (1 << size) - 1 == expected, (
                            f"{op.name} ({gpu}, MODE {mode:#x}) of {[hex(n) for n in sources]}"
                        )


def test_the_oracle_has_nothing_else() -> None:
    assert set(ORACLE) == {op.name for gpu in ("gfx700", "gfx803", "gfx900") for op in operations(gpu)}
