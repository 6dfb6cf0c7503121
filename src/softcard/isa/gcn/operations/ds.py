"""The table of DS operations, which access LDS and GDS; their semantics are in `ds_data` and `ds_lanes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from softcard.isa.gcn.insn import Accuracy, Op, Row, ops
from softcard.isa.gcn.semantics import ds_data as data
from softcard.isa.gcn.semantics import ds_lanes as lanes
from softcard.isa.gcn.semantics.access import Transfer

ORDERED: Final = {"operands": "vdst addr", "accuracy": Accuracy("chosen", "", "gcn/ordered-count")}
COUNTED: Final = {"operands": "vdst", "accuracy": Accuracy("chosen", "", "gcn/append-base")}
SUMS: Final = {"accuracy": Accuracy("chosen", "", "gcn/lds-float-add")}
SRC2: Final = {"lacks": "gfx90a"}
TRANSPOSED: Final = {"needs": "gfx950", "accuracy": Accuracy("chosen", "", "gcn/lds-transpose")}
ABSENT: Final = {"accuracy": Accuracy("absent", "", "global wave sync belongs to the driver")}

# Atomics by the opcode of their 32-bit form without return: +0x20 returns, +0x40 is 64 bits wide, +0x80 takes its
# operand from memory ("src2").
# fmt: off
ATOMICS: Final = (
    # code name     type kind         src2
    (0x00, "add",   "u", "add",       True),
    (0x01, "sub",   "u", "sub",       True),
    (0x02, "rsub",  "u", "rsub",      True),
    (0x03, "inc",   "u", "inc",       True),
    (0x04, "dec",   "u", "dec",       True),
    (0x05, "min",   "i", "smin",      True),
    (0x06, "max",   "i", "smax",      True),
    (0x07, "min",   "u", "umin",      True),
    (0x08, "max",   "u", "umax",      True),
    (0x09, "and",   "b", "and",       True),
    (0x0A, "or",    "b", "or",        True),
    (0x0B, "xor",   "b", "xor",       True),
    (0x0C, "mskor", "b", "mskor",     False),
    (0x10, "cmpst", "b", "cmpswap",   False),
    (0x11, "cmpst", "f", "fcmpswap",  False),
    (0x12, "min",   "f", "fmin",      True),
    (0x13, "max",   "f", "fmax",      True),
)
TWO: Final = ("mskor", "cmpswap", "fcmpswap")
# fmt: on


def same(code: int) -> tuple[int, int, int]:
    """Return `code` three times: the opcodes of an operation whose opcode is the same in all three generations."""
    return code, code, code


def operands(text: str) -> dict[str, Any]:
    """Return the `Op` field that holds the operand list `text`."""
    return {"operands": text}


def atomic_rows() -> Iterator[Row]:
    """Yield the table rows of the DS atomics in `ATOMICS`: without return, with return, and in the src2 form.

    An operation in the src2 form takes its second operand from memory."""
    for code, name, letter, kind, src2 in ATOMICS:
        for bits, wide in ((32, 0), (64, 0x40)):
            n = bits // 32
            sources = f"addr data0:{n}" + (f" data1:{n}" if kind in TWO else "")
            end = f"{letter}{bits}"
            yield f"ds_{name}_{end}", *same(code + wide), None, data.atomic(kind, bits, back=False), operands(sources)
            back = data.atomic(kind, bits, back=True)
            yield f"ds_{name}_rtn_{end}", *same(code + 0x20 + wide), None, back, operands(f"vdst:{n} {sources}")
            if src2:
                from_memory = data.atomic_source2(kind, bits)
                yield f"ds_{name}_src2_{end}", *same(code + 0x80 + wide), None, from_memory, operands("addr") | SRC2


def pair_rows() -> Iterator[Row]:
    """Yield the table rows of DS reads, writes and exchanges of 32 and 64 bits, single and in pairs."""
    for bits, wide in ((32, 0), (64, 0x40)):
        n, how = bits // 32, Transfer(bits)
        one, two = f"addr data0:{n}", f"addr data0:{n} data1:{n}"
        out, out2 = f"vdst:{n} ", f"vdst:{2 * n} "
        yield f"ds_write_b{bits}", *same(0x0D + wide), None, data.write(how), operands(one)
        yield f"ds_write2_b{bits}", *same(0x0E + wide), None, data.write2(bits), operands(two)
        yield f"ds_write2st64_b{bits}", *same(0x0F + wide), None, data.write2(bits, 64), operands(two)
        swap = data.atomic("swap", bits, back=True)
        yield f"ds_wrxchg_rtn_b{bits}", *same(0x2D + wide), None, swap, operands(out + one)
        yield f"ds_wrxchg2_rtn_b{bits}", *same(0x2E + wide), None, data.exchange2(bits), operands(out2 + two)
        yield f"ds_wrxchg2st64_rtn_b{bits}", *same(0x2F + wide), None, data.exchange2(bits, 64), operands(out2 + two)
        yield f"ds_read_b{bits}", *same(0x36 + wide), None, data.read(how), operands(out + "addr")
        yield f"ds_read2_b{bits}", *same(0x37 + wide), None, data.read2(bits), operands(out2 + "addr")
        yield f"ds_read2st64_b{bits}", *same(0x38 + wide), None, data.read2(bits, 64), operands(out2 + "addr")
        yield f"ds_write_src2_b{bits}", *same(0x8D + wide), None, data.write_source2(bits), operands("addr") | SRC2


# fmt: off
NARROW: Final = (
    ("ds_write_b8",         *same(0x1E), None, data.write(Transfer(8)),   operands("addr data0")),
    ("ds_write_b16",        *same(0x1F), None, data.write(Transfer(16)),  operands("addr data0")),
    ("ds_read_i8",          *same(0x39), None, data.read(Transfer(8, True)),  operands("vdst addr")),
    ("ds_read_u8",          *same(0x3A), None, data.read(Transfer(8)),               operands("vdst addr")),
    ("ds_read_i16",         *same(0x3B), None, data.read(Transfer(16, True)), operands("vdst addr")),
    ("ds_read_u16",         *same(0x3C), None, data.read(Transfer(16)),              operands("vdst addr")),
    ("ds_write_b8_d16_hi",  None, None, 0x54, None, data.write(Transfer(8, half="hi")),  operands("addr data0")),
    ("ds_write_b16_d16_hi", None, None, 0x55, None, data.write(Transfer(16, half="hi")), operands("addr data0")),
    ("ds_read_u8_d16",      None, None, 0x56, None, data.read(Transfer(8, half="lo")),   operands("vdst addr")),
    ("ds_read_u8_d16_hi",   None, None, 0x57, None, data.read(Transfer(8, half="hi")),   operands("vdst addr")),
    ("ds_read_i8_d16",      None, None, 0x58, None, data.read(Transfer(8, True, "lo")), operands("vdst addr")),
    ("ds_read_i8_d16_hi",   None, None, 0x59, None, data.read(Transfer(8, True, "hi")), operands("vdst addr")),
    ("ds_read_u16_d16",     None, None, 0x5A, None, data.read(Transfer(16, half="lo")),  operands("vdst addr")),
    ("ds_read_u16_d16_hi",  None, None, 0x5B, None, data.read(Transfer(16, half="hi")),  operands("vdst addr")),
    ("ds_write_b96",        *same(0xDE), None, data.write(Transfer(96)),  operands("addr data0:3")),
    ("ds_write_b128",       *same(0xDF), None, data.write(Transfer(128)), operands("addr data0:4")),
    ("ds_read_b96",         *same(0xFE), None, data.read(Transfer(96)),   operands("vdst:3 addr")),
    ("ds_read_b128",        *same(0xFF), None, data.read(Transfer(128)),  operands("vdst:4 addr")),
    ("ds_write_addtid_b32", None, None, 0x1D, None, data.write_by_lane,   operands("data0")),
    ("ds_read_addtid_b32",  None, None, 0xB6, None, data.read_by_lane,    operands("vdst")),
)

FLOAT_ADD: Final = (
    ("ds_add_f32",      None, 0x15, 0x15, None, data.atomic("fadd", 32, back=False), operands("addr data0") | SUMS),
    ("ds_add_rtn_f32",  None, 0x35, 0x35, None, data.atomic("fadd", 32, back=True), operands("vdst addr data0") | SUMS),
    ("ds_add_src2_f32", None, 0x95, 0x95, None, data.atomic_source2("fadd", 32),     operands("addr") | SUMS | SRC2),
)

CDNA_SUMS: Final = (
    # name        type   kind    bits  codes       needs
    ("add",       "f64",  "fadd", 64, 0x5C, 0x7C, "gfx90a"),
    ("pk_add",    "f16",  "hadd", 32, 0x17, 0xB7, "gfx940"),
    ("pk_add",    "bf16", "badd", 32, 0x18, 0xB8, "gfx940"),
)


def sum_rows() -> Iterator[Row]:
    """Yield the table rows of the DS additions that CDNA adds, without and with return."""
    for name, type_, kind, bits, code, back_code, needs in CDNA_SUMS:
        n, extras = bits // 32, {**SUMS, "needs": needs}
        one, two = f"addr data0:{n}", f"vdst:{n} addr data0:{n}"
        yield f"ds_{name}_{type_}", None, None, code, None, data.atomic(kind, bits, back=False), operands(one) | extras
        back = data.atomic(kind, bits, back=True)
        yield f"ds_{name}_rtn_{type_}", None, None, back_code, None, back, operands(two) | extras


SPECIAL: Final = (
    ("ds_nop",          *same(0x14),      None, lanes.nop),
    ("ds_wrap_rtn_b32", *same(0x34),      None, data.wrap, operands("vdst addr data0 data1")),
    ("ds_condxchg32_rtn_b64",  *same(0x7E),      None, data.conditional_exchange(2), operands("vdst:2 addr data0:2")),
    ("ds_condxchg32_rtn_b128", 0xFD, None, None, None, data.conditional_exchange(4), operands("vdst:4 addr data0:4")),
    ("ds_swizzle_b32",  0x35, 0x3D, 0x3D, None, lanes.swizzle,      operands("vdst addr")),
    ("ds_permute_b32",  None, 0x3E, 0x3E, None, lanes.permute,      operands("vdst addr data0")),
    ("ds_bpermute_b32", None, 0x3F, 0x3F, None, lanes.bpermute,     operands("vdst addr data0")),
    ("ds_consume",      0x3D, 0xBD, 0xBD, None, lanes.count("sub"), COUNTED),
    ("ds_append",       0x3E, 0xBE, 0xBE, None, lanes.count("add"), COUNTED),
    ("ds_ordered_count", 0x3F, 0xBF, 0xBF, None, lanes.ordered_count, ORDERED | SRC2),
    ("ds_read_b64_tr_b4",  None, None, 0xE0, None, lanes.transposed(4), operands("vdst:2 addr") | TRANSPOSED),
    ("ds_read_b96_tr_b6",  None, None, 0xE1, None, lanes.transposed(6), operands("vdst:3 addr") | TRANSPOSED),
    ("ds_read_b64_tr_b8",  None, None, 0xE2, None, lanes.transposed(8), operands("vdst:2 addr") | TRANSPOSED),
    ("ds_read_b64_tr_b16", None, None, 0xE3, None, lanes.transposed(16), operands("vdst:2 addr") | TRANSPOSED),
    ("ds_gws_sema_release_all", 0x18, 0x98, 0x98, None, lanes.gws, ABSENT),
    ("ds_gws_init",     0x19, 0x99, 0x99, None, lanes.gws, operands("addr")),
    ("ds_gws_sema_v",   0x1A, 0x9A, 0x9A, None, lanes.gws, ABSENT),
    ("ds_gws_sema_br",  0x1B, 0x9B, 0x9B, None, lanes.gws, operands("addr")),
    ("ds_gws_sema_p",   0x1C, 0x9C, 0x9C, None, lanes.gws, ABSENT),
    ("ds_gws_barrier",  0x1D, 0x9D, 0x9D, None, lanes.gws, operands("addr")),
)
# fmt: on

OPS: Final[tuple[Op, ...]] = ops("ds", (*atomic_rows(), *pair_rows(), *NARROW, *FLOAT_ADD, *sum_rows(), *SPECIAL))
"""The DS operations."""
