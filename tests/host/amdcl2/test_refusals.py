"""Arguments that programs and kernels refuse: each mistake has its own error, with kernel and argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.host.amdcl2.program import (
    Addressing,
    ChannelOrder,
    ChannelType,
    DeviceQueue,
    Filter,
    Image,
    ImageKind,
    Local,
    Sampler,
    load,
)
from softcard.image.amdcl2.build import vector as value
from softcard.isa.gcn.target import target
from tests.host.amdcl2.rig import kernel, program, vector

VADD = load(vector("vadd-tonga-64-200406"), "reference")
VADD32 = load(vector("vadd-bonaire-32-180005"), "reference")
ARRAY = np.ones(64, np.uint32)
GOOD = [ARRAY, ARRAY, ARRAY, 1]
RGBA, UNORM = ChannelOrder.CL_RGBA, ChannelType.CL_UNORM_INT8
FLAT = Image(np.zeros((4, 4, 4), np.uint8), RGBA, UNORM)
BUFFER = Image(np.zeros((16, 4), np.uint8), RGBA, UNORM, ImageKind.BUFFER_1D)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (None, "arguments must be a sequence with one value for each parameter, not None"),
        ({"a": ARRAY}, "arguments must be a sequence with one value for each parameter, not dict"),
        ("abcd", "arguments must be a sequence with one value for each parameter, not str"),
        ([np.ma.array([1, 2]), *GOOD[1:]], "array for a must not be masked"),
        ([-1, *GOOD[1:]], "expected an address of 64 bits, not -0x1, at argument 0 (a)"),
        ([1 << 64, *GOOD[1:]], "expected an address of 64 bits, not 0x10000000000000000"),
        ([*GOOD[:3], [[1], [1, 2]]], "expected 1 values of type uint, not a ragged sequence, at argument 3 (n)"),
    ],
)
def test_arguments(args: Any, message: str) -> None:
    with pytest.raises(WireError) as caught:
        VADD.kernel("vadd").run(64, 64, args)
    assert message in str(caught.value)
    assert str(caught.value).endswith("at kernel vadd")


def test_arguments_may_come_from_a_generator() -> None:
    out = np.zeros(64, np.uint32)
    VADD.kernel("vadd").run(64, 64, (each for each in (ARRAY, ARRAY, out, 64)))
    assert (out == 2).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"nonsense": 1},
            "unknown option 'nonsense', expected one of step_limit, turn, seed, poison, time_limit_seconds, on_hint, ",
        ),
        ({"memory": None}, "unknown option 'memory'"),
        ({"step_limit": -1}, "option step_limit is -1, expected an integer of 1 or more"),
        ({"step_limit": "x"}, "option step_limit is 'x', expected an integer of 1 or more"),
        ({"turn": None}, "option turn is None, expected an integer of 1 or more"),
        ({"seed": True}, "option seed is True, expected an integer of 0 or more"),
        ({"poison": 1 << 32}, "option poison is 0x100000000, expected 32 bits"),
        ({"time_limit_seconds": -1}, "time_limit_seconds is -1, expected a number of seconds above 0, or None"),
        ({"on_hint": 5}, "option on_hint is 5, expected a callable object"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError) as caught:
        VADD.kernel("vadd").run(64, 64, GOOD, **options)
    assert message in str(caught.value)
    assert str(caught.value).endswith("at kernel vadd")


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (-1, r"global offset is \(-1, 0, 0\), expected 0 to 0xffffffff in 32-bit programs"),
        (1 << 40, r"global offset is \(1099511627776, 0, 0\), expected 0 to 0xffffffff in 32-bit programs"),
        ((0, 0, 0, 5), r"global offset is \(0, 0, 0, 5\), expected 1 to 3 integers, at kernel vadd"),
        (None, "global offset is None, expected 1 to 3 integers"),
    ],
)
def test_global_offsets(offset: Any, message: str) -> None:
    with pytest.raises(WireError, match=message):
        VADD32.kernel("vadd").run(64, 64, GOOD, global_offset=offset)
    if offset == 1 << 40:
        VADD.kernel("vadd").run(64, 64, GOOD, global_offset=offset)
        with pytest.raises(WireError, match="expected 0 to 0xffffffffffffffff in 64-bit programs"):
            VADD.kernel("vadd").run(64, 64, GOOD, global_offset=1 << 64)


def test_programs_engines_processors() -> None:
    data = vector("vadd-tonga-64-200406")
    for source, name in ((None, "None"), (5, "an int"), (["a"], "a list")):
        with pytest.raises(WireError, match=f"a program must be a path or bytes, not {name}"):
            load(source)  # type: ignore[arg-type]
    for wrong in (None, 5):
        with pytest.raises(WireError, match=f"engine is {wrong}, expected 'jit', 'reference' or an engine object"):
            load(data, wrong)  # type: ignore[arg-type]
    for name in ("gfx1", 5):
        with pytest.raises(WireError, match=f"unknown processor {name!r}, expected one of gfx700"):
            load(data, target=name)  # type: ignore[arg-type]
    assert load(memoryview(data), target="gfx900").target is target("gfx900")
    assert repr(VADD) == "Program(gfx800, 64 bits, kernels: vadd)"


def test_kernels_and_symbols() -> None:
    with pytest.raises(WireError, match="program has no kernel 5, it has vadd"):
        VADD.kernel(5)  # type: ignore[arg-type]
    for size, message in ((-4, "is -4 bytes, expected 1 or more"), ("x", "must be an integer, not 'x'")):
        with pytest.raises(WireError, match=message):
            VADD.symbol("__hsa_section.hsatext", size)  # type: ignore[arg-type]


def test_objects() -> None:
    for size in ("x", None, 1.5, True):
        with pytest.raises(WireError, match=f"the size of a local pointer's LDS must be an integer, not {size!r}"):
            Local(size)  # type: ignore[arg-type]
    for make, message in (
        (lambda: Sampler(True, 9), "unknown Addressing 9, expected one of NONE, CLAMP_TO_EDGE"),  # type: ignore[arg-type]
        (lambda: Sampler(True, Addressing.CLAMP, 9), "unknown Filter 9, expected one of NEAREST, LINEAR"),  # type: ignore[arg-type]
        (lambda: Sampler("x"), "normalised must be True or False, not 'x'"),  # type: ignore[arg-type]
        (lambda: Image(None, RGBA, UNORM), "an image's texels must be a NumPy array, not NoneType"),  # type: ignore[arg-type]
        (lambda: Image(np.ma.zeros((4, 4, 4), np.uint8), RGBA, UNORM), "an image's texels must not be masked"),
        (lambda: Image(FLAT.array, "CL_RGBA", UNORM), "unknown ChannelOrder 'CL_RGBA', expected one of CL_A, CL_R"),  # type: ignore[arg-type]
        (lambda: Image(FLAT.array, RGBA, 99), "unknown ChannelType 99"),  # type: ignore[arg-type]
        (lambda: Image(FLAT.array, RGBA, UNORM, 1), "unknown ImageKind 1, expected one of BUFFER_1D"),  # type: ignore[arg-type]
    ):
        with pytest.raises(WireError, match=message):
            make()
    assert Sampler(True, 1, 1).pack() == Sampler(True, Addressing.CLAMP_TO_EDGE, Filter.LINEAR).pack()  # type: ignore[arg-type]
    assert Image(FLAT.array, 8, 2, 9).texels == FLAT.texels  # type: ignore[arg-type]


def argt(index: int, given: Any) -> None:
    """Run the kernel with an argument of every kind, `given` for one of them."""
    good = [1, 2, 3, 4, [1, 2, 3], 5, [1, 2], [1.0, 2, 3], range(16), 1.5, bytes(20), ARRAY, Local(64), ARRAY, FLAT,
            BUFFER, Sampler(), DeviceQueue(), [1.0, 2, 3], 7]  # fmt: skip
    args = [*good[:index], given, *good[index + 1 :]]
    load(vector("argtypes-gfx900-64-252700"), "reference").kernel("argt").run((4, 2, 1), None, args)


@pytest.mark.parametrize(
    ("index", "given", "message"),
    [
        (7, [None] * 3, r"expected numbers for float, not \[None, None, None\], at argument 7 \(a7\)"),
        (9, "1.5", r"expected numbers for double, not '1.5', at argument 9 \(a9\)"),
        (9, 1j, "expected numbers for double, not 1j"),
        (14, BUFFER, r"image2d_t takes an image of kind IMAGE_2D, not BUFFER_1D, at argument 14 \(a14\)"),
        (15, FLAT, "image1d_buffer_t takes an image of kind BUFFER_1D, not IMAGE_2D"),
    ],
)
def test_arguments_of_other_kinds(index: int, given: Any, message: str) -> None:
    argt(index, ARGUMENT_OK[index])
    with pytest.raises(WireError, match=message):
        argt(index, given)


ARGUMENT_OK = {7: [1, 2.5, 3, 4], 9: True, 14: FLAT, 15: BUFFER}


def test_images_that_are_written_over_read_only_arrays() -> None:
    array = np.zeros((16, 4), np.uint8)
    array.flags.writeable = False
    with pytest.raises(WireError, match="the array of a write_only image must be writable: what the kernel writes"):
        argt(15, Image(array, RGBA, UNORM, ImageKind.BUFFER_1D))
    array = np.zeros((4, 4, 4), np.uint8)
    array.flags.writeable = False
    argt(14, Image(array, RGBA, UNORM))  # it is read only


def test_names_that_end_in_3_may_mean_4() -> None:
    text = """
        s_load_dwordx4 s[16:19], s[6:7], {o:16}
        s_load_dwordx2 s[12:13], s[6:7], {o:12}
        s_waitcnt lgkmcnt(0)
        v_mov_b32 v0, s12
        v_mov_b32 v1, s13
        v_mov_b32 v2, s19
        flat_store_dword v[0:1], v2
        s_endpgm
    """
    plane = value("p", "float3")
    found = program("tonga", kernel("tonga", "k", text.replace("{o:16}", "0x38"), [value("o", "ulong"), plane]))
    out = np.zeros(1, np.float32)
    maps = found.device.map(out.view(np.uint8), "out")
    found.kernel("k").run(1, 1, [maps, [1, 2, 3, 4.5]])
    assert out[0] == 4.5
