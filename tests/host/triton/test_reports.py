"""Tests of the texts that users of Triton read: findings, errors, and printed text, with positions in their source."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.host.triton import FOLDER, environment, load_kernels

k = load_kernels()

import triton  # noqa: E402

import softcard.triton  # noqa: E402
from softcard import AccessFault, FindingWarning, GuestFault, WireError  # noqa: E402
from softcard.core.errors import NotInstalled  # noqa: E402
from softcard.core.limits import TimeLimit  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.slow(seconds=1)]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    softcard.triton.gpu().close()


def line_of(text: str) -> int:
    """The number of the line of the kernels' file that contains a text."""
    lines = Path(k.__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def past_the_end() -> None:
    x = np.arange(1024, dtype=np.float32)
    k.reads_past_the_end[(4,)](x, np.zeros_like(x), 1024, BLOCK=256)


def test_findings_name_line_column_call_argument_and_program():
    with pytest.warns(FindingWarning) as warned, softcard.triton.check("memory") as gpu:
        past_the_end()
    assert Path(warned[0].filename).name == "test_reports.py"
    (found,) = gpu.findings
    inner, outer = line_of("tl.load(x + at + 1)"), line_of("value = inner(")
    assert found.source.endswith(f"kernels.py:{inner}")
    assert found.column == Path(k.__file__).read_text(encoding="utf-8").splitlines()[inner - 1].index("tl.load") + 1
    assert [each.rpartition(":")[2] for each in found.frames] == [str(inner), str(outer)]
    assert found.allocation.name == "argument x, float32[1024]"
    assert Path(found.allocation.made.rpartition(":")[0]).name == "test_reports.py"
    assert (found.group, found.lanes, found.kind) == ("3,0,0", (63,), "out-of-bounds")


def test_kernel_without_mistakes_has_no_findings():
    x = np.random.default_rng(1).standard_normal((3, 100)).astype(np.float32)
    out = np.zeros_like(x)
    with softcard.triton.check("all") as gpu:
        k.softmax[(3,)](out, x, 100, 100, BLOCK=128)
    assert gpu.findings == []
    np.testing.assert_allclose(out.sum(1), 1, rtol=1e-5)


def test_faults_name_the_argument():
    with pytest.raises(
        AccessFault, match=r"float32\[1024\] ends at .*kernels\.py:\d+, inlined at .*kernels\.py"
    ) as caught:
        past_the_end()
    assert any(
        "the address is near argument x, float32[1024], 4,096 bytes at" in note for note in caught.value.__notes__
    )


def test_device_print(capsys: pytest.CaptureFixture[str]):
    k.prints[(2,)](np.arange(64, dtype=np.int32), BLOCK=64, num_warps=1)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        f"pid ({pid}, 0, 0) idx ({at:2}) value: {at}" for pid in range(2) for at in range(64)
    )


def test_device_assert():
    x = np.arange(64, dtype=np.int32)
    with pytest.raises(GuestFault, match=r"s_trap 2 .*kernels\.py") as caught:
        k.asserts[(1,)](x, BLOCK=64, num_warps=1, debug=True)
    assert any("device assertion failed: 'too large'" in note for note in caught.value.__notes__)
    x[:] = 0
    k.asserts[(1,)](x, BLOCK=64, num_warps=1, debug=True)


def test_kernels_that_never_end():
    with (
        pytest.raises(TimeLimit, match=r"did not end within 0\.5 s .*kernels\.py"),
        softcard.triton.check("memory", time_limit_seconds=0.5),
    ):
        k.never_ends[(1,)](np.zeros(1, np.int32), num_warps=1)


class OnOtherDevice:
    """A tensor of PyTorch on another device than the CPU."""

    dtype = "float32"
    is_cpu = False
    device = type("device", (), {"type": "cuda", "__str__": lambda self: "cuda:0"})()

    def data_ptr(self) -> int:
        return 4096

    def untyped_storage(self) -> Any:
        raise AssertionError


class Unknown(OnOtherDevice):
    untyped_storage = property(lambda self: getattr(self, "none"))  # noqa: B009


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (OnOtherDevice(), WireError, "the tensor is on device 'cuda:0', expected 'cpu'.* at argument x"),
        (Unknown(), ValueError, "Pointer argument cannot be accessed from Triton .* no tensor contains 0x1000"),
    ],
)
def test_wrong_tensors(value: Any, kind: type[Exception], text: str):
    with pytest.raises(kind, match=text):
        k.scale[(1,)](value, 2.0, 1, BLOCK=64)


def test_numbers_in_place_of_tensors_are_errors_of_triton():
    with pytest.raises(triton.CompilationError):
        k.scale[(1,)](3.5, 2.0, 1, BLOCK=64)


def test_compile_errors_are_triton_s_own():
    with pytest.raises(triton.CompilationError, match="arange") as caught:
        k.does_not_compile[(1,)](np.zeros(4, np.int32))
    frames = [each.frame.code.raw.co_filename for each in caught.traceback]
    assert not any("/softcard/" in each for each in frames)


def test_unsupported_agents(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOFTCARD_AGENT", "gfx900")
    with pytest.raises(WireError, match="SOFTCARD_AGENT is 'gfx900': Triton's kernels do not run on this agent"):
        triton.runtime.driver.active.get_current_target()


@pytest.mark.parametrize(
    ("variables", "is_active"),
    [
        ({}, False),
        ({"SOFTCARD_TRITON": "0"}, False),
        ({"SOFTCARD_TRITON": "off"}, False),
        ({"SOFTCARD_TRITON": "1"}, True),
        ({"TRITON_DEFAULT_BACKEND": "amd"}, False),
        ({"TRITON_DEFAULT_BACKEND": "softcard"}, True),
    ],
    ids=str,
)
def test_driver_is_active_only_if_it_is_selected(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_active: bool
):
    driver = type(triton.runtime.driver.active)
    assert driver.is_active()
    monkeypatch.setattr(driver, "_is_chosen", False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert driver.is_active() is is_active


def test_backends_of_triton_stay_as_they_are():
    """The compiler beside the driver compiles for nothing, so that Triton's own compiler makes the code."""
    from softcard.host.triton.compiler import NoCompiler

    target = triton.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("hip", "gfx942", 64)
    assert not NoCompiler.supports_target(target)
    with pytest.raises(NotImplementedError, match="Triton's AMD compiler makes the kernels"):
        NoCompiler.hash(None)


def test_missing_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NotInstalled, match="PyTorch is not installed: pip install torch, or pass NumPy arrays"):
        triton.runtime.driver.active.get_active_torch_device()


def run(*words: str, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with Triton in a process of its own."""
    paths = os.pathsep.join(map(str, (path, ROOT / "src", ROOT, FOLDER)))
    every = {**os.environ, **environment(), "PYTHONPATH": paths, **variables}
    return subprocess.run([sys.executable, *words], env=every, capture_output=True, text=True, cwd=path, check=False)


PLAIN = """
import numpy as np
from tests.host.triton import kernels as k
def test_that_passes():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    k.add[(1,)](x, x, out, 64, BLOCK=64)
    assert out[5] == 10
def test_that_reads_past_the_end():
    x = np.arange(1024, dtype=np.float32)
    k.reads_past_the_end[(4,)](x, np.zeros_like(x), 1024, BLOCK=256)
"""


def test_unchanged_tests_are_checked(tmp_path: Path):
    """Triton finds the driver by its entry point; pytest's plug-in fails the test whose kernel has a finding."""
    distribution = tmp_path / "softcard_of_tests-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: softcard-of-tests\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text("[triton.backends]\nsoftcard = softcard.host.triton\n")
    (tmp_path / "test_plain.py").write_text(PLAIN)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--softcard-check", "all", "test_plain.py"]
    made = run(*words, path=tmp_path, SOFTCARD_TRITON="1")
    assert "1 failed, 1 passed" in made.stdout, made.stdout + made.stderr
    assert "error[memory/out-of-bounds]: read of 4 bytes, 0 bytes past the end of argument x" in made.stdout
    assert f"kernels.py:{line_of('tl.load(x + at + 1)')}" in made.stdout


def test_softcard_may_be_imported_before_triton(tmp_path: Path):
    """If the package is installed, Triton then imports the driver while it is imported itself."""
    distribution = tmp_path / "softcard_of_tests-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: softcard-of-tests\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text("[triton.backends]\nsoftcard = softcard.host.triton\n")
    made = run("-c", "import softcard.triton, triton; print(list(triton.backends.backends))", path=tmp_path)
    assert "softcard" in made.stdout, made.stderr


def test_import_starts_the_digest_and_loads_no_riscv(tmp_path: Path):
    """The digest of Triton's files overlaps with the import, and Triton finds it when it needs it."""
    code = (
        "import sys, softcard.triton, triton\n"
        "triton.runtime.driver.active.get_current_target()\n"
        "digest = triton.runtime.cache.triton_key\n"
        "print(digest.cache_info().misses, any('riscv' in name for name in sys.modules), len(digest()) > 100)\n"
    )
    made = run("-c", code, path=tmp_path)
    assert made.stdout == "1 False True\n", made.stderr


def test_the_variable_selects_the_driver_beside_an_active_one(tmp_path: Path):
    """As on a machine with a GPU, where Triton's own driver is active, too."""
    distribution, other = tmp_path / "softcard_of_tests-1.dist-info", tmp_path / "other_backend"
    distribution.mkdir()
    other.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: softcard-of-tests\nVersion: 1\n")
    points = "[triton.backends]\nother = other_backend\nsoftcard = softcard.host.triton\n"
    (distribution / "entry_points.txt").write_text(points)
    (other / "__init__.py").write_text("")
    (other / "compiler.py").write_text("from softcard.host.triton.compiler import NoCompiler\n")
    active = (
        "from softcard.host.triton import driver\nclass Other(driver.SoftcardDriver):\n    is_active = lambda: True\n"
    )
    (other / "driver.py").write_text(active)
    words = ["-c", "import triton; print(type(triton.runtime.driver.active).__name__)"]
    made = run(*words, path=tmp_path, SOFTCARD_TRITON="1")
    assert made.stdout == "SoftcardDriver\n", made.stderr
    assert run(*words, path=tmp_path, SOFTCARD_TRITON="1", TRITON_DEFAULT_BACKEND="other").stdout == "Other\n"
    assert run(*words, path=tmp_path, SOFTCARD_TRITON="0").stdout == "Other\n"


def test_entry_point_is_that_of_the_package():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["triton.backends"] == {"softcard": "softcard.host.triton"}
    assert "softcard.host.triton" in inspect.getmodule(softcard.triton.check).__name__


def test_the_page_s_example(tmp_path: Path):
    page = (ROOT / "docs" / "howto" / "triton.md").read_text(encoding="utf-8")
    code, *_ = re.findall(r"^```py\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (shown,) = re.findall(r"^\$ pytest --softcard-check all\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "test_difference.py").write_text(code)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_difference.py"]
    made = run(*words, path=tmp_path, COLUMNS="100")
    assert "AccessFault: read of 8 bytes" in made.stdout
    assert "the address is near argument x, float32[1024]" in made.stdout
    made = run(*words, "--softcard-check", "all", path=tmp_path, COLUMNS="100")
    assert without_addresses(shown) in without_addresses(made.stdout), made.stdout


def without_addresses(text: str) -> str:
    """A finding's text without line breaks, addresses, and what depends on the compiler."""
    text = re.sub(r"= note: in \S+ \(pc 0x\w+\): .*", "= note: in code", text)
    return " ".join(re.sub(r"0x[0-9a-f]+", "0x_", text).split())
