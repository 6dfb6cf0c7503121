"""Walks of one-block loops: which accesses may go without their own checks."""

from __future__ import annotations

from softcard.engine.riscv.jit.region import discover
from softcard.engine.riscv.jit.strides import Stride, strides
from softcard.isa.riscv.isa import ALL
from tests.engine.riscv.rig import CODE, fetcher


def walks(body: str) -> list[Stride]:
    """The walks of a loop with this body."""
    region = discover(CODE, fetcher(f"loop: {body}\naddi x6, x6, -1\nbne x6, x0, loop", isa=ALL))
    return strides(region.blocks[CODE])


def shape(walk: Stride) -> tuple[object, ...]:
    return walk.table, walk.base, walk.step, walk.step_register, walk.low, walk.high, walk.align, len(walk.accesses)


def test_a_constant_step() -> None:
    assert [shape(w) for w in walks("lw x5, 8(x10)\naddi x10, x10, 4")] == [("load", 10, 4, 0, 8, 12, 4, 1)]
    assert [shape(w) for w in walks("addi x10, x10, 4\nlw x5, -8(x10)")] == [("load", 10, 4, 0, -4, 0, 4, 1)]
    assert [shape(w) for w in walks("sd x5, 0(x10)\nld x7, 0(x11)\naddi x10, x10, 8")] == [
        ("store", 10, 8, 0, 0, 8, 8, 1),
        ("load", 11, 0, 0, 0, 8, 8, 1),
    ]


def test_where_a_round_begins_and_whether_the_next_one_goes_on() -> None:
    (walk,) = walks("sw x5, 8(x10)\nsw x5, 0(x10)\naddi x10, x10, 12")
    assert (walk.offsets[0], walk.goes_on) == (8, False)
    for body, first, goes_on in (
        ("sw x5, 4(x10)\naddi x10, x10, 4", 4, True),
        ("addi x10, x10, 8\nsd x5, -8(x10)", 0, True),
        ("sw x5, 0(x10)\naddi x10, x10, 8", 0, False),
        ("sw x5, 0(x10)", 0, False),
        ("sw x5, 0(x10)\nadd x10, x10, x12", 0, False),
    ):
        (walk,) = walks(body)
        assert (walk.offsets[0], walk.goes_on) == (first, goes_on)


def test_a_register_step() -> None:
    for add in ("add x10, x10, x12", "add x10, x12, x10"):
        assert [shape(w) for w in walks(f"fld f5, 0(x10)\n{add}")] == [("load", 10, 0, 12, 0, 8, 8, 1)]
    assert walks("add x10, x10, x12\nld x5, 0(x10)") == [], "where it is by then is not a constant"
    assert walks("ld x5, 0(x10)\nadd x10, x10, x10") == []
    assert walks("ld x5, 0(x10)\nadd x10, x10, x5") == [], "the step changes"
    assert walks("ld x5, 0(x10)\nadd x10, x10, x0") == []


def test_several_accesses_of_one_walk() -> None:
    (walk,) = walks("lw x5, 0(x10)\nlw x7, 16(x10)\naddi x10, x10, 4\nlw x8, -12(x10)")
    assert shape(walk) == ("load", 10, 4, 0, -8, 20, 4, 3)
    (walk,) = walks("lw x5, 0(x10)\nld x7, 8(x10)\naddi x10, x10, 8")
    assert shape(walk) == ("load", 10, 8, 0, 0, 16, 8, 2)


def test_offsets_that_one_test_cannot_align() -> None:
    assert walks("lw x5, 0(x10)\nlh x7, 6(x10)\naddi x10, x10, 4") == []
    assert walks("lb x5, 1(x10)\nlw x7, 0(x10)\naddi x10, x10, 4") == []


def test_pointers_that_do_anything_else() -> None:
    assert walks("ld x5, 0(x10)\naddi x10, x10, -8") == [], "backward walks are checked one by one"
    assert walks("ld x5, 0(x10)\naddi x10, x10, 8\naddi x10, x10, 8") == []
    assert walks("ld x5, 0(x10)\naddi x10, x11, 8") == []
    assert walks("ld x10, 0(x10)") == []
    assert walks("ld x5, 0(x10)\nmul x10, x10, x11") == []
    assert walks("ld x5, 0(x10)\nsub x10, x10, x11") == []
    assert walks("amoadd.w x5, x7, (x10)\naddi x10, x10, 4") == []


def test_blocks_that_are_no_such_loop() -> None:
    two = discover(CODE, fetcher("loop: ld x5, 0(x10)\nbeq x5, x0, on\non: addi x10, x10, 8\nbne x6, x0, loop"))
    assert all(strides(block) == [] for block in two.blocks.values())
    jump = discover(CODE, fetcher("loop: ld x5, 0(x10)\naddi x10, x10, 8\njal x0, loop"))
    assert strides(jump.blocks[CODE]) == []
    straight = discover(CODE, fetcher("ld x5, 0(x10)\naddi x10, x10, 8"))
    assert strides(straight.blocks[CODE]) == []


def test_addresses_from_zero_do_not_move() -> None:
    assert [shape(w) for w in walks("ld x5, 64(x0)")] == [("load", 0, 0, 0, 64, 72, 8, 1)]


def place(walk: Stride) -> tuple[object, ...]:
    return walk.base, walk.index, walk.shift, walk.step, walk.offsets[0], walk.low, walk.high


def test_an_index_beside_an_array() -> None:
    for body in (
        "slli x7, x5, 2\nadd x7, x7, x10\nlw x8, 4(x7)\naddi x5, x5, 1",
        "slli x7, x5, 2\nadd x7, x10, x7\naddi x7, x7, 8\nlw x8, -4(x7)\naddi x5, x5, 1",
        "sh2add x7, x5, x10\nlw x8, 4(x7)\naddi x5, x5, 1",
        "addi x5, x5, 1\nsh2add x7, x5, x10\nlw x8, 0(x7)",
        "addi x9, x5, 1\nslli x9, x9, 2\nadd x9, x9, x10\nlw x8, 0(x9)\naddi x5, x5, 1",
    ):
        (walk,) = walks(body)
        assert place(walk) == (10, 5, 2, 4, 4, 4, 8), body
    (walk,) = walks("slli x7, x5, 3\nld x8, 0(x7)\naddi x5, x5, 1")
    assert place(walk) == (0, 5, 3, 8, 0, 0, 8)
    (walk,) = walks("add x7, x5, x10\nsb x8, 0(x7)\naddi x5, x5, 1")
    assert place(walk) == (10, 5, 0, 1, 0, 0, 1)
    (walk,) = walks("addi x7, x10, 16\nlw x8, 0(x7)\nlw x9, -16(x7)")
    assert place(walk) == (10, 0, 0, 0, 16, 0, 20)


def test_several_arrays_by_one_index() -> None:
    found = walks("sh2add x7, x5, x10\nlw x8, 0(x7)\nsh2add x7, x5, x11\nsw x8, 0(x7)\naddi x5, x5, 1")
    assert [(walk.table, *place(walk)[:4]) for walk in found] == [("load", 10, 5, 2, 4), ("store", 11, 5, 2, 4)]


def test_places_that_no_round_moves_by_the_same() -> None:
    for body in (
        "slli x7, x5, 5\nadd x7, x7, x10\nlw x8, 0(x7)\naddi x5, x5, 1",  # further than is looked at
        "slli x7, x10, 2\nlw x8, 0(x7)",
        "add x7, x10, x11\nlw x8, 0(x7)",
        "add x7, x5, x5\nlw x8, 0(x7)\naddi x5, x5, 1",
        "sub x7, x10, x5\nlw x8, 0(x7)\naddi x5, x5, 1",
        "slli x7, x5, 2\nadd x7, x7, x10\nlw x7, 0(x7)\nlw x8, 0(x7)\naddi x5, x5, -1",
        "mul x7, x5, x10\nadd x7, x7, x11\nlw x8, 0(x7)\naddi x5, x5, 1",
        "add x7, x5, x10\nlw x8, 0(x7)\naddi x5, x5, 1\nadd x10, x10, x12",  # by a constant and by a register
        "lw x8, 0(x7)\naddi x7, x10, 4",  # which is that of the round before
        "slli x7, x5, 2\nadd x7, x7, x7\nlw x8, 0(x7)\naddi x5, x5, 1",
    ):
        assert walks(body) == [], body
