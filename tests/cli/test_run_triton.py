"""`softcard run` of code objects from Triton's cache, with the files that Triton writes beside them."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.cli import main
from softcard.cli.exits import ExitCode, UsageError
from softcard.cli.running.kernel_values import Lds
from softcard.cli.running.triton_kernel import Argument

COMPILED = Path(__file__).parents[1] / "vectors" / "gcn" / "triton"
IR = """#loc = loc("k.py":1:0)
#loc1 = loc("out"(#loc))
module {
  tt.func public @softmax(%out: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("out"(#loc)), %x: !tt.ptr<f32> \
loc("x"(#loc)), %row: i32 loc("row"(#loc)), %out_row: i32 loc("out_row"(#loc)), %columns: i32 loc("columns"(#loc))) \
attributes {noinline = false} {
"""
VALUES = ["--arg", "f32:3x781", "--arg", "f32:3x781:random", "--arg", "781", "--arg", "781", "--arg", "781"]


def kernel(folder: Path, **changes: Any) -> Path:
    """A kernel in the form of Triton's cache."""
    document = {"num_warps": 4, "warp_size": 64, "shared": 16, "name": "softmax", **changes}
    shutil.copy(COMPILED / "gfx942" / "softmax.co", folder / "softmax.hsaco")
    (folder / "softmax.json").write_text(json.dumps(document))
    (folder / "softmax.ttir").write_text(IR)
    return folder / "softmax.hsaco"


def test_sizes_and_types_come_from_the_files_beside_the_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = kernel(tmp_path)
    assert main(["run", str(file), *VALUES, "--grid", "3", "--save", f"0={tmp_path}/out.npy"]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "out.npy").sum(1), 1, rtol=1e-5)
    assert "warning" not in capsys.readouterr().err


def test_too_little_lds_is_reported_with_the_cure(tmp_path: Path):
    file = kernel(tmp_path, shared=0)
    with pytest.warns(UserWarning, match=r"at LDS offset 0x\w+, but the launch reserves 0 bytes of LDS.* dynamic LDS"):
        main(["run", str(file), *VALUES, "--grid", "3"])


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [("i64", -1, b"\xff" * 8), ("i64", (1 << 64) - 1, b"\xff" * 8), ("i32", 2.0, b"\2\0\0\0"), ("i1", True, b"\1")],
)
def test_numbers_of_types_without_a_sign(type_name: str, value: Any, expected: bytes):
    assert Argument("n", type_name, "").packed(value) == expected


@pytest.mark.parametrize(
    ("changes", "values", "text"),
    [
        ({}, VALUES[:-2], "the kernel takes 5 arguments (out, x, row, out_row, columns), not 4"),
        ({}, [*VALUES[:-1], "2.5"], "argument columns is 2.5, expected a number of type i32"),
        ({}, [*VALUES[:-1], "f32:4"], "argument columns is an array of float32, expected a number of type i32"),
        ({}, [*VALUES[:-1], "1099511627776"], "argument columns is 1099511627776, expected a number of type i32"),
        ({}, [*VALUES[:-1], "-2147483649"], "argument columns is -2147483649, expected a number of type i32"),
        ({}, [*VALUES[:-1], f"0x{1 << 5000:x}"], "argument columns is 0x1000"),
        ({}, [*VALUES[:-1], "nan"], "argument columns is nan, expected a number of type i32"),
        ({}, [*VALUES[:-1], "inf"], "argument columns is inf, expected a number of type i32"),
        ({}, [*VALUES[:-1], "local:64"], "argument columns is local:64, expected a number of type i32"),
        ({}, [*VALUES[:-1], "i32=1,2"], "argument columns is 2 numbers, expected a number of type i32"),
        ({}, ["--arg", "f64:4", *VALUES[2:]], "argument out is an array of float64, expected elements of type f32"),
        ({}, [*VALUES, "--group", "64"], "--group is not needed: softmax.json gives 256 work-items"),
        ({"num_warps": 0}, VALUES, "num_warps * warp_size is 0 and shared is 16, expected 1 or more"),
        ({"shared": None}, VALUES, "expected the metadata of a Triton kernel, with num_warps and shared"),
    ],
)
def test_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: Any, values: Any, text: str):
    assert main(["run", str(kernel(tmp_path, **changes)), *values]) in (ExitCode.USAGE, ExitCode.GUEST)
    assert text in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("value", [np.array("text"), np.array(1j), Lds(64), (1.0, 2.0), None, np.zeros(3)])
def test_values_that_are_no_numbers(value: Any):
    with pytest.raises(UsageError, match=r"^argument scale is .*, expected a number of type f32$"):
        Argument("scale", "f32", "").packed(value)


@given(st.sampled_from([1, 8, 16, 32, 64]), st.integers(-(1 << 70), 1 << 70))
def test_integers_fit_as_signed_or_unsigned_numbers(bits: int, value: int):
    argument = Argument("n", f"i{bits}", "")
    if -(1 << bits - 1) <= value < 1 << bits:
        assert int.from_bytes(argument.packed(value), "little") == value % (1 << bits)
    else:
        with pytest.raises(UsageError, match=f"argument n is {value}, expected a number of type i{bits}"):
            argument.packed(value)


@pytest.mark.parametrize(
    ("name", "largest", "least_infinite"),
    [("f16", 65504, 65520), ("bf16", 255 << 120, 511 << 119), ("f32", 0xFFFFFF << 104, 0x1FFFFFF << 103)],
)
def test_floats_that_would_become_infinite_do_not_fit(name: str, largest: int, least_infinite: int):
    argument = Argument("x", name, "")
    assert argument.packed(largest) != argument.packed(float("inf"))
    assert argument.packed(-float("inf")) != argument.packed(float("nan"))
    for value in (
        least_infinite,
        -least_infinite,
        1e300,
        -(10**400),
    ):  # the first one is halfway between the largest and the next power of 2
        with pytest.raises(UsageError, match=f"argument x is .*, expected a number of type {name}"):
            argument.packed(value)


def test_code_alone_is_a_code_object_as_any_other(tmp_path: Path):
    file = kernel(tmp_path)
    (tmp_path / "softmax.json").unlink()
    words = ["--arg", "null", "--arg", "null"]
    with pytest.warns(UserWarning, match="reserves 0 bytes of LDS"):
        assert main(["run", str(file), *VALUES, *words, "--grid", "768", "--group", "256"]) == 0
