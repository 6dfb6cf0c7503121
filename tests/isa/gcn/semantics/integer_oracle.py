"""An oracle of the integer operations, from the manuals, over Python integers: one entry for each, by newest name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.isa.gcn.semantics.alu_rig import signed

Oracle = Callable[..., Any]

M32 = 0xFFFF_FFFF


def i32(n: int) -> int:
    return signed(32, n)


def i16(n: int) -> int:
    return signed(16, n)


def i24(n: int) -> int:
    return signed(24, n)


def u24(n: int) -> int:
    return n & 0xFF_FFFF


def bytes_of(n: int, size: int = 4) -> list[int]:
    return list((n & (1 << 8 * size) - 1).to_bytes(size, "little"))


def halves(n: int) -> tuple[int, int]:
    return n & 0xFFFF, n >> 16


def join(low: int, high: int) -> int:
    return low & 0xFFFF | (high & 0xFFFF) << 16


def leading(n: int, w: int) -> int:
    """Zeros above the highest one, -1 for 0."""
    return w - n.bit_length() if n else -1


def trailing(n: int) -> int:
    return (n & -n).bit_length() - 1


def sign_run(n: int, w: int) -> int:
    """Distance from the top to the first bit unlike the sign, -1 for none."""
    for k in range(1, w):
        if (n >> (w - 1 - k) & 1) != n >> (w - 1) & 1:
            return k
    return -1


def bfe_u(a: int, start: int, size: int) -> int:
    return (a >> start) & (1 << size) - 1


def bfe_i(w: int, a: int, start: int, size: int) -> int:
    if size == 0:
        return 0
    field = (signed(w, a) >> start) & (1 << size) - 1
    return signed(size, field) if size <= w else field


def sad8(a: int, b: int) -> int:
    return sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True))


def msad8(a: int, b: int) -> int:
    return sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True) if y)


def windows(f: Oracle, bits: int) -> Oracle:
    def total(a: int, b: int, c: int) -> int:
        out = 0
        for k in range(4):
            addend = c >> bits * k & (1 << bits) - 1
            out |= (f(a >> 8 * k & M32, b) + addend & (1 << bits) - 1) << bits * k
        return out

    return total


def perm(a: int, b: int, c: int) -> int:
    data = bytes_of(a << 32 | b, 8)
    out = []
    for selector in bytes_of(c):
        if selector >= 13:
            out.append(0xFF)
        elif selector == 12:
            out.append(0)
        elif selector >= 8:
            out.append(0xFF if data[2 * (selector - 8) + 1] & 0x80 else 0)
        else:
            out.append(data[selector])
    return int.from_bytes(bytes(out), "little")


def lerp(a: int, b: int, c: int) -> int:
    rows = zip(bytes_of(a), bytes_of(b), bytes_of(c), strict=True)
    return int.from_bytes(bytes((x + y + (z & 1)) >> 1 for x, y, z in rows), "little")


def sat(n: int, low: int, high: int) -> int:
    return min(max(n, low), high)


def sat_pk(a: int) -> int:
    low, high = (sat(i16(h), 0, 255) for h in halves(a))
    return low | high << 8


def each_half(f: Oracle) -> Oracle:
    return lambda *sources: join(*(f(*part) for part in zip(*map(halves, sources), strict=True)))


def items(n: int, bits: int, is_signed: bool) -> list[int]:
    found = [n >> bits * k & (1 << bits) - 1 for k in range(32 // bits)]
    return [signed(bits, x) for x in found] if is_signed else found


def dot(bits: int, is_signed: bool) -> Oracle:
    def total(a: int, b: int, c: int) -> int:
        pairs = zip(items(a, bits, is_signed), items(b, bits, is_signed), strict=True)
        return sum(x * y for x, y in pairs) + (i32(c) if is_signed else c)

    return total


def quad_masks(w: int, a: int) -> list[int]:
    return [int((a >> 4 * k & 15) != 0) for k in range(w // 4)]


def partition(selector: int) -> int:
    """Shader engines by their definition, tile by tile."""
    x0, y0, x1, y1 = selector >> 6 & 3, selector >> 4 & 3, selector >> 2 & 3, selector & 3
    found, x = 0, x0
    while True:
        y = y0
        while True:
            engine = ((x & 1) ^ (y >> 1 & 1)) << 1 | ((y & 1) ^ (x >> 1 & 1))
            found |= 1 << engine
            if y == y1:
                break
            y = (y + 1) % 4
        if x == x1:
            break
        x = (x + 1) % 4
    return found


def carried(n: int) -> tuple[int, int]:
    """A sum or difference, and whether it left 0 to 2**32 - 1."""
    return n, int(not 0 <= n <= M32)


VECTOR: dict[str, Oracle] = {
    "v_mov_b32": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "v_ffbh_u32": lambda a: leading(a, 32),
    "v_ffbl_b32": trailing,
    "v_ffbh_i32": lambda a: sign_run(a, 32),
    "v_sat_pk_u8_i16": sat_pk,
    "v_screen_partition_4se_b32": partition,
    "v_mul_i32_i24": lambda a, b: i24(a) * i24(b),
    "v_mul_hi_i32_i24": lambda a, b: i24(a) * i24(b) >> 32,
    "v_mul_u32_u24": lambda a, b: u24(a) * u24(b),
    "v_mul_hi_u32_u24": lambda a, b: u24(a) * u24(b) >> 32,
    "v_min_i32": lambda a, b: min(i32(a), i32(b)),
    "v_max_i32": lambda a, b: max(i32(a), i32(b)),
    "v_min_u32": min,
    "v_max_u32": max,
    "v_lshr_b32": lambda a, b: a >> (b & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashr_i32": lambda a, b: i32(a) >> (b & 31),
    "v_ashrrev_i32": lambda a, b: i32(b) >> (a & 31),
    "v_lshl_b32": lambda a, b: a << (b & 31),
    "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_bfm_b32": lambda a, b: (1 << (a & 31)) - 1 << (b & 31),
    "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
    "v_add_co_u32": lambda a, b: carried(a + b),
    "v_sub_co_u32": lambda a, b: carried(a - b),
    "v_subrev_co_u32": lambda a, b: carried(b - a),
    "v_addc_co_u32": lambda a, b, c: carried(a + b + c),
    "v_subb_co_u32": lambda a, b, c: carried(a - b - c),
    "v_subbrev_co_u32": lambda a, b, c: carried(b - a - c),
    "v_cvt_pk_u16_u32": lambda a, b: join(min(a, 0xFFFF), min(b, 0xFFFF)),
    "v_cvt_pk_i16_i32": lambda a, b: join(sat(i32(a), -0x8000, 0x7FFF), sat(i32(b), -0x8000, 0x7FFF)),
    "v_add_u16": lambda a, b: a + b,
    "v_sub_u16": lambda a, b: a - b,
    "v_subrev_u16": lambda a, b: b - a,
    "v_mul_lo_u16": lambda a, b: a * b,
    "v_lshlrev_b16": lambda a, b: b << (a & 15),
    "v_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_ashrrev_i16": lambda a, b: i16(b) >> (a & 15),
    "v_max_u16": max,
    "v_max_i16": lambda a, b: max(i16(a), i16(b)),
    "v_min_u16": min,
    "v_min_i16": lambda a, b: min(i16(a), i16(b)),
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_mad_i32_i24": lambda a, b, c: i24(a) * i24(b) + i32(c),
    "v_mad_u32_u24": lambda a, b, c: u24(a) * u24(b) + c,
    "v_bfe_u32": lambda a, b, c: bfe_u(a, b & 31, c & 31),
    "v_bfe_i32": lambda a, b, c: bfe_i(32, a, b & 31, c & 31),
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_lerp_u8": lerp,
    "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
    "v_min3_i32": lambda *s: min(map(i32, s)),
    "v_min3_u32": min,
    "v_max3_i32": lambda *s: max(map(i32, s)),
    "v_max3_u32": max,
    "v_med3_i32": lambda *s: sorted(map(i32, s))[1],
    "v_med3_u32": lambda *s: sorted(s)[1],
    "v_sad_u8": lambda a, b, c: sad8(a, b) + c,
    "v_sad_hi_u8": lambda a, b, c: (sad8(a, b) << 16) + c,
    "v_sad_u16": lambda a, b, c: sum(abs(x - y) for x, y in zip(halves(a), halves(b), strict=True)) + c,
    "v_sad_u32": lambda a, b, c: abs(a - b) + c,
    "v_lshl_b64": lambda a, b: a << (b & 63),
    "v_lshr_b64": lambda a, b: a >> (b & 63),
    "v_ashr_i64": lambda a, b: signed(64, a) >> (b & 63),
    "v_lshlrev_b64": lambda a, b: b << (a & 63),
    "v_lshrrev_b64": lambda a, b: b >> (a & 63),
    "v_ashrrev_i64": lambda a, b: signed(64, b) >> (a & 63),
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_lo_i32": lambda a, b: a * b,
    "v_mul_hi_i32": lambda a, b: i32(a) * i32(b) >> 32,
    "v_msad_u8": lambda a, b, c: msad8(a, b) + c,
    "v_qsad_pk_u16_u8": windows(sad8, 16),
    "v_mqsad_pk_u16_u8": windows(msad8, 16),
    "v_mqsad_u32_u8": windows(msad8, 32),
    "v_mad_u64_u32": lambda a, b, c: (a * b + c, int(a * b + c >= 1 << 64)),
    "v_mad_i64_i32": lambda a, b, c: (i32(a) * i32(b) + signed(64, c), int(i32(a) * i32(b) + signed(64, c) < 0)),
    "v_mad_u16": lambda a, b, c: a * b + c,
    "v_mad_i16": lambda a, b, c: i16(a) * i16(b) + i16(c),
    "v_perm_b32": perm,
    "v_mad_u32_u16": lambda a, b, c: a * b + c,
    "v_mad_i32_i16": lambda a, b, c: i16(a) * i16(b) + i32(c),
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_min3_i16": lambda *s: min(map(i16, s)),
    "v_min3_u16": min,
    "v_max3_i16": lambda *s: max(map(i16, s)),
    "v_max3_u16": max,
    "v_med3_i16": lambda *s: sorted(map(i16, s))[1],
    "v_med3_u16": lambda *s: sorted(s)[1],
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & 31),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_add_i32": lambda a, b: a + b,
    "v_sub_i32": lambda a, b: a - b,
    "v_add_i16": lambda a, b: i16(a) + i16(b),
    "v_sub_i16": lambda a, b: i16(a) - i16(b),
    "v_pk_mad_i16": each_half(lambda a, b, c: a * b + c),
    "v_pk_mul_lo_u16": each_half(lambda a, b: a * b),
    "v_pk_add_i16": each_half(lambda a, b: a + b),
    "v_pk_sub_i16": each_half(lambda a, b: a - b),
    "v_pk_lshlrev_b16": each_half(lambda a, b: b << (a & 15)),
    "v_pk_lshrrev_b16": each_half(lambda a, b: b >> (a & 15)),
    "v_pk_ashrrev_i16": each_half(lambda a, b: i16(b) >> (a & 15)),
    "v_pk_max_i16": each_half(lambda a, b: max(i16(a), i16(b))),
    "v_pk_min_i16": each_half(lambda a, b: min(i16(a), i16(b))),
    "v_pk_mad_u16": each_half(lambda a, b, c: a * b + c),
    "v_pk_add_u16": each_half(lambda a, b: a + b),
    "v_pk_sub_u16": each_half(lambda a, b: a - b),
    "v_pk_max_u16": each_half(max),
    "v_pk_min_u16": each_half(min),
    "v_dot2_i32_i16": dot(16, True),
    "v_dot2_u32_u16": dot(16, False),
    "v_dot4_i32_i8": dot(8, True),
    "v_dot4_u32_u8": dot(8, False),
    "v_dot8_i32_i4": dot(4, True),
    "v_dot8_u32_u4": dot(4, False),
}
VECTOR |= {f"v_{name}_legacy_{kind}": VECTOR[f"v_{name}_{kind}"] for name in ("mad",) for kind in ("u16", "i16")}

# Where the instruction says clamp, the exact result is limited to what the destination can hold.
CLAMP: dict[str, tuple[int, bool]] = {
    "v_mul_i32_i24": (32, True), "v_mul_u32_u24": (32, False), "v_add_co_u32": (32, False), "v_sub_co_u32": (32, False),
    "v_subrev_co_u32": (32, False), "v_addc_co_u32": (32, False), "v_subb_co_u32": (32, False),
    "v_subbrev_co_u32": (32, False),
    "v_add_u16": (16, False), "v_sub_u16": (16, False), "v_subrev_u16": (16, False), "v_add_u32": (32, False),
    "v_sub_u32": (32, False), "v_subrev_u32": (32, False), "v_mad_i32_i24": (32, True), "v_mad_u32_u24": (32, False),
    "v_sad_u8": (32, False), "v_sad_hi_u8": (32, False), "v_sad_u16": (32, False), "v_sad_u32": (32, False),
    "v_msad_u8": (32, False), "v_mad_u64_u32": (64, False), "v_mad_i64_i32": (64, True), "v_mad_u16": (16, False),
    "v_mad_i16": (16, True), "v_mad_legacy_u16": (16, False), "v_mad_legacy_i16": (16, True), "v_mad_u32_u16": (32,
    False),
    "v_mad_i32_i16": (32, True), "v_dot2_i32_i16": (32, True), "v_dot2_u32_u16": (32, False), "v_dot4_i32_i8": (32,
    True),
    "v_dot4_u32_u8": (32, False), "v_dot8_i32_i4": (32, True), "v_dot8_u32_u4": (32, False), "v_add_i16": (16, True),
    "v_sub_i16": (16, True),
}  # fmt: skip
CLAMP_SIGNED32: dict[str, Oracle] = {
    "v_add_i32": lambda a, b: i32(a) + i32(b),
    "v_sub_i32": lambda a, b: i32(a) - i32(b),
}
CLAMP_HALVES: dict[str, tuple[Oracle, bool]] = {
    "v_pk_mad_i16": (lambda a, b, c: i16(a) * i16(b) + i16(c), True),
    "v_pk_add_i16": (lambda a, b: i16(a) + i16(b), True),
    "v_pk_sub_i16": (lambda a, b: i16(a) - i16(b), True),
    "v_pk_mad_u16": (lambda a, b, c: a * b + c, False),
    "v_pk_add_u16": (lambda a, b: a + b, False),
    "v_pk_sub_u16": (lambda a, b: a - b, False),
}
CLAMP_QUADS: dict[str, tuple[Oracle, int]] = {
    "v_qsad_pk_u16_u8": (sad8, 16), "v_mqsad_pk_u16_u8": (msad8, 16), "v_mqsad_u32_u8": (msad8, 32),
}  # fmt: skip


def limited(n: int, w: int, is_signed: bool) -> int:
    """The nearest number that `w` bits can hold."""
    return sat(n, -(1 << w - 1), (1 << w - 1) - 1) if is_signed else sat(n, 0, (1 << w) - 1)


def clamped(name: str) -> Oracle | None:
    """The oracle of a name with the clamp bit set, None where it makes no difference."""
    if name in CLAMP_SIGNED32:
        return lambda *s: limited(CLAMP_SIGNED32[name](*s), 32, True)
    if name in CLAMP_HALVES:
        f, is_signed = CLAMP_HALVES[name]
        return each_half(lambda *s: limited(f(*s), 16, is_signed))
    if name in CLAMP_QUADS:
        g, bits = CLAMP_QUADS[name]
        top = (1 << bits) - 1

        def quads(a: int, b: int, c: int) -> int:
            sums = [g(a >> 8 * k & M32, b) + (c >> bits * k & top) for k in range(4)]
            return sum(min(n, top) << bits * k for k, n in enumerate(sums))

        return quads
    if name not in CLAMP:
        return None

    def oracle(*sources: int) -> Any:
        result = VECTOR[name](*sources)
        if isinstance(result, tuple):
            return limited(result[0], *CLAMP[name]), result[1]
        return limited(result, *CLAMP[name])

    return oracle
