"""`softcard opencl` and `softcard exec --device opencl`: the ways in which programs find the platform."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from softcard.attach.opencl import installing, library
from softcard.attach.opencl.library import NAME, Library
from softcard.cli import doctor, main

Capture = pytest.CaptureFixture[str]
CHOICE = "expected one of --pyopencl, --prefix FOLDER and --system, which select the programs"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """A library that needs no compiler."""
    folder = tmp_path / "built" / "lib"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"code")
    made = Library(folder)
    monkeypatch.setattr(library, "build_library", lambda: made)
    return made


def run(capfd: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["opencl", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def assigned(lines: str, *words: str) -> str:
    """The value that a shell finds after it has evaluated the lines."""
    command = f'{lines}exec "$@"'
    return subprocess.run(["sh", "-c", command, "sh", *words], capture_output=True, text=True, check=True).stdout


def test_a_shell_gets_the_variables(built: Library, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    code, out, _ = run(capfd, "env", "--agent", "gfx906", "--agent", "gfx900", "--check", "memory", "--time-limit", "5")
    assert code == 0
    read = "import os; print(*(os.environ[each] for each in os.environ if each[:3] in ('OCL', 'SOF')), sep='\\n')"
    found = set(assigned(out, sys.executable, "-c", read).splitlines())
    vendors = built.folder.parent / "vendors"
    assert found >= {str(vendors), str(built.path), "gfx906,gfx900", "memory", "5.0"}
    assert [each.name for each in vendors.iterdir()] == ["softcard.icd"]
    assert (vendors / "softcard.icd").read_text() == f"{built.path}\n"
    assert run(capfd, "env")[1].count("export ") == 2


def test_a_prefix(built: Library, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = tmp_path / "prefix"
    icd, copy = prefix / "etc/OpenCL/vendors/softcard.icd", prefix / "lib/softcard" / NAME
    code, out, err = run(capfd, "install", "--prefix", str(prefix))
    assert (code, out) == (2, "")
    assert (
        f"error: cannot find the folder {prefix}: expected the prefix of an installation, such as $CONDA_PREFIX" in err
    )
    prefix.mkdir()
    use = f"with the loader of this installation, or with OCL_ICD_VENDORS={icd.parent}"
    for _ in range(2):  # again, after an update
        code, out, err = run(capfd, "install", "--prefix", str(prefix))
        assert (code, err) == (0, "")
        assert out == f'wrote {copy}\nwrote {icd}\nOpenCL programs find the platform "Softcard" {use}\n'
    assert icd.read_text() == f"{copy}\n"
    assert copy.read_bytes() == b"code"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (copy, icd)] == [0o755, 0o644]
    monkeypatch.setenv("CONDA_PREFIX", str(prefix))
    assert run(capfd, "install", "--prefix", str(prefix))[1].endswith("with the loader of this conda environment\n")
    assert run(capfd, "uninstall", "--prefix", str(prefix)) == (0, f"removed {icd}\nremoved {copy}\n", "")
    code, out, err = run(capfd, "uninstall", "--prefix", str(prefix))
    assert (code, out) == (2, "")
    message = f"error: cannot find {icd}: expected a platform that `softcard opencl install` installed"
    assert message in " ".join(err.split())


def test_the_system(built: Library, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "VENDORS", tmp_path / "vendors")
    monkeypatch.setattr(installing, "SYSTEM_LIBRARIES", tmp_path / "libraries")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "no-such-folder"))
    package(monkeypatch, None)
    (state,) = [each for each in doctor.programs() if each.what == "OpenCL platform"]
    assert (state.state.value, state.adds) == ("missing", "softcard opencl install --pyopencl")
    assert run(capfd, "install", "--system")[0] == 0
    (state,) = [each for each in doctor.programs() if each.what == "OpenCL platform"]
    assert (state.state.value, state.found) == ("ok", "system")
    assert (tmp_path / "vendors/softcard.icd").read_text() == f"{tmp_path / 'libraries' / NAME}\n"
    assert run(capfd, "uninstall", "--system")[0] == 0


def test_a_folder_that_cannot_be_written(
    built: Library, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(
        installing, "SYSTEM_LIBRARIES", tmp_path / "file"
    )  # a file even for root, who may write anywhere
    code, _, err = run(capfd, "install", "--system")
    assert code == 2
    assert f"error: cannot write {tmp_path / 'file' / NAME}: File exists" in " ".join(err.split())
    monkeypatch.setattr(installing, "VENDORS", tmp_path)
    (tmp_path / "softcard.icd").mkdir()
    code, _, err = run(capfd, "uninstall", "--system")
    assert (code, "error: cannot remove" in err) == (2, True)


def package(monkeypatch: pytest.MonkeyPatch, origin: Path | None) -> None:
    spec = None if origin is None else ModuleSpec("pyopencl", None, origin=str(origin))
    monkeypatch.setattr(installing, "find_spec", lambda name: spec)


def test_pyopencl(built: Library, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, None)
    assert run(capfd, "install", "--pyopencl") == (2, "", "error: pyopencl is not installed: pip install pyopencl\n")
    package(monkeypatch, tmp_path / "pyopencl/__init__.py")
    code, _, err = run(capfd, "install", "--pyopencl")
    assert code == 2
    message = (
        f"error: {tmp_path}/pyopencl/.libs has no OpenCL loader: expected the pyopencl of PyPI; for another one "
        "install the platform by --prefix $CONDA_PREFIX, or --system"
    )
    assert message in " ".join(err.split())
    folder = tmp_path / "pyopencl/.libs"
    folder.mkdir(parents=True)
    (folder / "libOpenCL-5519dec5.so.1.0.0").write_text("")
    assert run(capfd, "install", "--pyopencl")[0] == 0
    assert (folder / "softcard.icd").read_text() == f"{folder / NAME}\n"
    assert run(capfd, "uninstall", "--pyopencl")[0] == 0
    assert [each.name for each in folder.iterdir()] == ["libOpenCL-5519dec5.so.1.0.0"]


@pytest.mark.parametrize("words", [[], ["--system", "--pyopencl"], ["--prefix", "/", "--system"]])
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_exactly_one_place(capfd: Capture, command: str, words: list[str]) -> None:
    assert run(capfd, command, *words) == (2, "", f"error: {CHOICE}\n")


def test_a_machine_without_a_compiler(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    for command in (["env"], ["install", "--system"]):
        code, out, err = run(capfd, *command)
        assert (code, out) == (2, "")
        message = "the OpenCL platform needs a C compiler, but none was found (tried no-such-compiler)"
        assert message in " ".join(err.split())


def test_unknown_devices_and_checks(capfd: Capture) -> None:
    for command in (["opencl", "env"], ["exec", "--device", "opencl"]):
        assert main([*command, "--agent", "gfx90", "true"][: None if command[0] == "exec" else -1]) == 2
        assert "the kernel driver has no agent 'gfx90', expected one of gfx803," in capfd.readouterr().err
    assert run(capfd, "env", "--check", "memroy")[0] == 2


@pytest.mark.parametrize(
    "option",
    [
        ["--report", "a.html"], ["--coverage", "a.info"], ["--trace-file", "a"], ["--profile-file", "a"],
        ["--summary-file", "a"], ["--trace-waves", "1"], ["--trace"], ["--code", os.devnull],
    ],
    ids=lambda option: option[0],
)  # fmt: skip
def test_options_that_concern_gpus_of_the_command(capfd: Capture, option: list[str]) -> None:
    assert main(["exec", "--device", "opencl", *option, "true"]) == 2
    message = f"{option[0]} does not support --device opencl, because its GPUs run in another process: omit {option[0]}"
    assert message in " ".join(capfd.readouterr().err.split())


SERVER = """
import os, sys
from softcard.attach.opencl.records import Sender
from softcard.core.diagnostics import Diagnostic
from softcard.core.findings import Level
server = Sender(os.environ)
for message in sys.argv[1:]:
    server.send(Diagnostic(Level.ERROR, "memory/out-of-bounds", message))
"""


def test_exec_sets_variables_and_counts_findings(
    built: Library, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("skip").write_text("races\n")
    program = ["sh", "-c", "env; exit 7"]
    options = ["--agent", "gfx803", "--check", "memory", "--suppressions", "skip", "--time-limit", "9"]
    assert main(["exec", "--device", "opencl", *options, "--", *program]) == 7
    out, err = capfd.readouterr()
    assert {
        "SOFTCARD_OPENCL_AGENTS=gfx803", "SOFTCARD_CHECK=memory", "SOFTCARD_TIME_LIMIT=9.0",
        f"SOFTCARD_OPENCL_SUPPRESSIONS={tmp_path}/skip", f"OCL_ICD_VENDORS={built.folder.parent}/vendors",
        f"SOFTCARD_OPENCL_PYTHON={sys.executable}",
    } <= set(out.splitlines())  # fmt: skip
    assert err.startswith(
        "warning: the program has not created an OpenCL context on a device of the platform Softcard: nothing"
    )

    server = [sys.executable, "-c", SERVER]
    checked = ["exec", "--device", "opencl", "--check", "memory", "--error-exitcode", "3"]
    assert main([*checked, "--", *server]) == 0
    assert capfd.readouterr().err == "checked: no findings\n"
    assert main([*checked, "--findings", "found.json", "--", *server, "write of 4 bytes", "read of 4 bytes"]) == 3
    assert capfd.readouterr().err == "2 findings\n"
    assert "write of 4 bytes" in Path("found.json").read_text()
    assert main([*checked, "--format", "json", "--", *server, "write of 4 bytes"]) == 3
    assert '"message": "write of 4 bytes"' in capfd.readouterr().err


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
@pytest.mark.slow
def test_the_real_library_is_a_platform(capfd: Capture) -> None:
    """Its folder of .icd files has one file, which names it."""
    code, out, _ = run(capfd, "env")
    vendors = assigned(out, "printenv", "OCL_ICD_VENDORS").strip()
    (icd,) = Path(vendors).iterdir()
    named = icd.read_text().strip()
    assert (code, Path(named).name, os.access(named, os.X_OK)) == (0, NAME, True)
