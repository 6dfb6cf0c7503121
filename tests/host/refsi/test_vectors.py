"""Kernels of vector instructions on a device."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.host.compiling import clangs
from softcard.host.refsi.refsi import RefSi
from tests.device.refsi.m1 import FOLDER
from tests.isa.riscv.test_oracle import OBJDUMP


@pytest.mark.parametrize("engine", ["reference", "jit"])
@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_a_kernel_of_vector_instructions_adds(profile: str, engine: str) -> None:
    """300 elements an instance: two groups of 128, and 44 in the last round."""
    a, b = np.arange(600, dtype=np.int32), np.arange(600, dtype=np.int32) * -1000
    with RefSi.open(profile=profile, engine=engine) as device:
        device.load_elf((FOLDER / "kernels.elf").read_bytes())
        out = device.array(np.zeros(600, np.int32))
        device.launch("k_vecadd_rvv", 2, [device.array(a), device.array(b), out, 300])
        assert (out.array == a + b).all()


@pytest.mark.parametrize("vlen", [0, 100, 32, 1 << 20])
def test_widths_that_no_device_has(vlen: int) -> None:
    with pytest.raises(WireError, match=f"64 to 65536, not {vlen}"):
        RefSi.open(family="g", profile="refsidrv", vlen=vlen)


HERE, HOST_CC = Path(__file__).parent, shutil.which("cc")
COMPILERS = {"clang-16": ["clang-16"], "clang-19": ["clang-19"], "ziglang": []}
for each in clangs():
    if each.name == "ziglang":
        COMPILERS["ziglang"] = [*each.clang, f"-isystem{each.headers}"]
LD = shutil.which("riscv64-unknown-elf-ld")
SAME = ("-fwrapv", "-ffp-contract=off", "-fno-math-errno")
GUEST = (
    "--target=riscv64",
    "-march=rv64gcv_zvl512b",
    "-mabi=lp64d",
    "-mcmodel=medany",
    "-ffreestanding",
    "-fno-builtin",
)
VECTORISED = {
    "saxpy": "fff", "quotient": "ddd", "dot": "ibb", "total": "lii", "divide": "iii", "choose": "fff", "reverse": "hhh",
    "stride": "iii", "gather": "iii", "convert": "idf", "widen": "dfi", "narrow": "bih", "shift": "iii", "copy": "bbb",
    "pairs": "iii", "matmul": "fff",
}  # fmt: skip
INTRINSICS = {
    "length": "lbb", "keep": "iii", "rank": "iii", "order": "ddd", "prefix": "iii", "difference": "iii",
    "look_up": "bbb", "scatter": "iii", "comb": "iii", "remainders": "iii",
}  # fmt: skip
TYPES = {"b": np.int8, "h": np.int16, "i": np.int32, "l": np.int64, "f": np.float32, "d": np.float64}


def data(random: np.random.Generator, letter: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Numbers of all sizes; floats that a 32-bit integer holds, some of them 0."""
    if letter in "fd":
        return (random.normal(0, 1000, count) * random.integers(0, 4, count)).astype(TYPES[letter])
    info = np.iinfo(TYPES[letter])
    return random.integers(info.min, info.max, count, TYPES[letter], endpoint=True)


def canonical(array: np.ndarray[tuple[int], np.dtype[np.generic]]) -> bytes:
    """The bytes, with one NaN for all: the host's has another sign."""
    return np.where(array == array, array, array.dtype.type(np.nan) if array.dtype.kind == "f" else array).tobytes()


@pytest.mark.oracle
@pytest.mark.skipif(
    not (HOST_CC and LD and OBJDUMP), reason="needs a compiler for this host and riscv64-unknown-elf-ld and -objdump"
)
@pytest.mark.parametrize(
    ("source", "compiler", "level"),
    [
        *itertools.product(("vectorised.c", "intrinsics.c"), ("clang-16", "clang-19"), ("-O1", "-O2", "-O3")),
        ("vectorised.c", "ziglang", "-O3"),
        ("intrinsics.c", "ziglang", "-O1"),
    ],
)
def test_programs_of_vectors_compute_what_the_host_does(source: str, compiler: str, level: str, tmp_path: Path) -> None:
    """Whole strips and rests, on the JIT, and on the reference engine where that is not long."""
    clang = COMPILERS[compiler]
    if not clang or shutil.which(clang[0]) is None:
        pytest.skip(f"{compiler} is not installed")
    path, kernels = HERE / source, VECTORISED if source == "vectorised.c" else INTRINSICS
    native, compiled, linked = tmp_path / "native.so", tmp_path / "guest.o", tmp_path / "guest.elf"
    subprocess.run([str(HOST_CC), level, "-w", *SAME, "-fPIC", "-shared", "-o", native, path], check=True)
    subprocess.run([*clang, level, "-w", *GUEST, *SAME, "-c", "-o", compiled, path], check=True)
    subprocess.run(
        [str(LD), "-static", "--no-relax", "-e0", "-Ttext-segment=0x10000", "-o", linked, compiled], check=True
    )
    listing = subprocess.run([str(OBJDUMP), "-d", linked], check=True, capture_output=True, text=True).stdout
    assert ("vsetvli" in listing) == (level != "-O1" or source == "intrinsics.c")
    library = ctypes.CDLL(str(native))
    random = np.random.default_rng(7)
    with RefSi.open() as jit, RefSi.open(engine="reference") as reference:
        for device in (jit, reference):
            device.load_elf(linked.read_bytes())
        for count in (300, 2000):
            for name, letters in kernels.items():
                arrays = [data(random, letter, count) for letter in letters]
                results = []
                for device in (jit, reference) if count == 300 else (jit,):
                    there = [device.array(array) for array in arrays]
                    device.launch(name, 1, [*there, count])
                    results.append(canonical(there[0].array))
                function = getattr(library, name)
                function(
                    ctypes.c_long(0), *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays), ctypes.c_long(count)
                )
                assert results == [canonical(arrays[0])] * len(results), (name, count)
