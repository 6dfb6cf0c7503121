"""Executables of IREE's compiler, which `tools/iree.sh` installs into build/iree, against NumPy."""

import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard.cli import main
from softcard.host.hsa.gpu import Gpu

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "build" / "iree"
PAGE = ROOT / "docs" / "howto" / "iree.md"
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow(seconds=1),
    pytest.mark.skipif(not (FOLDER / "iree-compile").is_file(), reason="no IREE: run sh tools/iree.sh"),
]
AGENTS = ("gfx908", "gfx90a", "gfx942", "gfx950")
CHECKS = "memory,init,races,waits,sync"
Array = np.ndarray[Any, Any]
PROGRAM = """
func.func @add(%a: tensor<256xf32>, %b: tensor<256xf32>) -> tensor<256xf32> {
  %r = arith.addf %a, %b : tensor<256xf32>
  return %r : tensor<256xf32>
}
func.func @double(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.addf %x, %x : tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func @product(%a: tensor<64x32xf16>, %b: tensor<32x64xf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = linalg.matmul ins(%a, %b : tensor<64x32xf16>, tensor<32x64xf16>) outs(%f : tensor<64x64xf32>)
    -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}
func.func @softmax(%x: tensor<16x40xf32>) -> tensor<16x40xf32> {
  %e = tensor.empty() : tensor<16x40xf32>
  %r = linalg.softmax dimension(1) ins(%x : tensor<16x40xf32>) outs(%e : tensor<16x40xf32>) -> tensor<16x40xf32>
  return %r : tensor<16x40xf32>
}
func.func @total(%x: tensor<32x200xf32>) -> tensor<32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32xf32>) -> tensor<32xf32>
  %r = linalg.reduce ins(%x : tensor<32x200xf32>) outs(%f : tensor<32xf32>) dimensions = [1]
    (%v: f32, %s: f32) { %t = arith.addf %s, %v : f32  linalg.yield %t : f32 }
  return %r : tensor<32xf32>
}
"""


@dataclass(frozen=True)
class Compiled:
    """An executable of IREE, with the name and the number of work-items of the kernel of each function."""

    path: Path
    kernels: dict[str, tuple[str, int]]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Compiled]:
    """A function that compiles the program for a processor, once."""
    known: dict[str, Compiled] = {}

    def make(agent: str) -> Compiled:
        if agent not in known:
            folder = tmp_path_factory.mktemp(agent)
            (folder / "program.mlir").write_text(PROGRAM)
            words = [
                "--iree-hal-target-device=hip",
                f"--iree-rocm-target={agent}",
                "program.mlir",
                "-o",
                "program.vmfb",
            ]
            dumps = ["--iree-hal-dump-executable-binaries-to=binaries", "--dump-compilation-phases-to=phases"]
            subprocess.run([FOLDER / "iree-compile", *words, *dumps], cwd=folder, check=True, timeout=120)
            (path,) = (folder / "binaries").iterdir()
            (phase,) = (folder / "phases").glob("*executable-targets.mlir")
            known[agent] = Compiled(path, kernels_of(phase.read_text()))
        return known[agent]

    return make


def kernels_of(phase: str) -> dict[str, tuple[str, int]]:
    """Read the number of work-groups, and their size, of each kernel; a dynamic number counts as 0."""
    head = re.compile(
        r"hal\.executable\.export public @((\w+?)_dispatch_\w+)(.*?)hal\.return %(\w+),.*?workgroup_size = \[(\d+)",
        re.DOTALL,
    )
    kernels = {}
    for kernel, function, before, count, size in head.findall(phase):
        value = re.search(rf"%{count} = arith\.constant (\d+) : index", before)
        kernels[function] = kernel, int(value[1]) * int(size) if value else 0
    return kernels


def cases() -> dict[str, tuple[list[Any], Array]]:
    """The arguments of each function, its result last, and the wanted result."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 256)).astype(np.float32)
    left, right = rng.integers(-8, 9, (64, 32)).astype(np.float16), rng.integers(-8, 9, (32, 64)).astype(np.float16)
    x, rows = rng.standard_normal((16, 40)).astype(np.float32), rng.standard_normal((32, 200)).astype(np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    return {
        "add": ([a, b, np.zeros_like(a)], a + b),
        "product": ([left, right, np.zeros((64, 64), np.float32)], left.astype(np.float32) @ right.astype(np.float32)),
        "softmax": ([x, np.zeros_like(x)], powers / powers.sum(1, keepdims=True)),
        "total": ([rows, np.zeros(32, np.float32)], rows.sum(1)),
    }


def run_all(compiled: Compiled, agent: str, names: tuple[str, ...], check: str = "") -> None:
    """Run functions of an executable, and compare their results."""
    given = cases()
    with Gpu.open(agent, check=check) as gpu:
        code = gpu.load(compiled.path)
        for name in names:
            kernel, items = compiled.kernels[name]
            arguments, wanted = given[name]
            gpu.run(code, kernel, items, args=arguments)
            np.testing.assert_allclose(arguments[-1], wanted, rtol=1e-5, atol=1e-5, err_msg=name)
        assert gpu.findings == []


def test_functions(compiled: Callable[[str], Compiled], is_exhaustive: bool) -> None:
    for agent in AGENTS if is_exhaustive else ("gfx942", "gfx950"):
        run_all(compiled(agent), agent, ("add", "product", "softmax", "total"))


def test_checks_find_nothing(compiled: Callable[[str], Compiled], is_exhaustive: bool) -> None:
    names = ("add", "product", "softmax", "total") if is_exhaustive else ("add", "product")
    run_all(compiled("gfx942"), "gfx942", names, CHECKS)


def test_a_dynamic_size_is_two_numbers(compiled: Callable[[str], Compiled]) -> None:
    """Behind the buffers come the low and the high half of the size."""
    kernel, items = compiled("gfx942").kernels["double"]
    assert items == 0
    x = np.arange(1000, dtype=np.float32)
    out = np.zeros_like(x)
    with Gpu.open("gfx942", check="memory") as gpu:
        gpu.run(compiled("gfx942").path, kernel, 16 * 64, args=[x, out, np.uint32(len(x)), np.uint32(0)])
        assert gpu.findings == []
    assert np.array_equal(out, 2 * x)


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of the page print what it says; the kernel requires a size of work-groups."""
    page = PAGE.read_text("utf-8")
    (program,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    compiles, runs, *said = console.splitlines()
    (tmp_path / "program.mlir").write_text(program)
    monkeypatch.chdir(tmp_path)
    subprocess.run([FOLDER / "iree-compile", *shlex.split(compiles)[2:]], check=True, timeout=120)
    assert main(shlex.split(runs)[2:]) == 0
    printed = capsys.readouterr()
    assert all(line in (printed.out + printed.err).splitlines() for line in said), printed
