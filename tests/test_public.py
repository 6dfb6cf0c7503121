"""The public face of the package: these names and no others, and nothing heavy behind them."""

import inspect
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from mypy import api as mypy

import softcard

ROOT = Path(__file__).parents[1]

PUBLIC = [
    "Acceldev",
    "AccessFault",
    "BeyondModel",
    "FindingError",
    "FindingWarning",
    "Gpu",
    "GuestFault",
    "LintError",
    "LintWarning",
    "ModelBug",
    "Place",
    "Platform",
    "RefSi",
    "RuleError",
    "SlowHostWarning",
    "SoftcardError",
    "WireError",
    "__version__",
    "acceldev",
    "amdcl2",
    "diagnostic_text",
    "fletcher",
    "gcn",
    "hsa",
    "load",
    "refsi",
    "riscv",
]
INTERFACES = ["acceldev", "amdcl2", "fletcher", "gcn", "hsa", "refsi", "riscv"]
DEVICES = {
    "RefSi": "refsi.refsi",
    "Acceldev": "acceldev.acceldev",
    "Gpu": "hsa.gpu",
    "Platform": "fletcher.platform",
    "load": "amdcl2.program",
}


def test_the_public_names_are_pinned():
    assert softcard.__all__ == PUBLIC
    assert all(hasattr(softcard, name) for name in PUBLIC)
    assert set(PUBLIC) <= set(dir(softcard))


def test_each_name_is_the_one_of_its_module_and_documented():
    for name, module in DEVICES.items():
        assert getattr(softcard, name).__module__ == f"softcard.host.{module}"
    for name in set(PUBLIC) - {"__version__"}:
        assert inspect.getdoc(getattr(softcard, name)), name


def test_a_name_that_is_none_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'softcard' has no attribute 'Gpux'"):
        softcard.Gpux  # noqa: B018
    assert not hasattr(softcard, "_nothing")


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert softcard.__version__ == project["version"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_loads_nothing_else():
    # Decoding and describing must start without the compiler: importing LLVM takes longer than they do.
    assert run("import sys, softcard; print([name for name in sys.modules if 'softcard.' in name])") == "[]\n"
    code = "import sys, softcard; softcard.RuleError; print([n for n in ('llvmlite', 'numpy') if n in sys.modules])"
    assert run(code) == "[]\n"


def test_every_public_name_can_be_imported_first():
    for name in PUBLIC:
        assert run(f"from softcard import {name}; print({name!r})") == f"{name}\n"
    assert run("from softcard import *; print(Gpu.__name__, load.__name__)") == "Gpu load\n"


def test_interfaces_have_what_the_package_has_of_them():
    for name, module in DEVICES.items():
        interface = getattr(softcard, module.partition(".")[0])
        assert getattr(interface, name) is getattr(softcard, name)
    for interface in INTERFACES:
        module = getattr(softcard, interface)
        assert all(inspect.getdoc(getattr(module, name)) for name in module.__all__)


def test_host_packages_still_have_their_names():
    for module in DEVICES.values():
        interface = module.partition(".")[0]
        host = import_module(f"softcard.host.{interface}")
        face = getattr(softcard, interface)
        assert all(getattr(host, name) is getattr(face, name) for name in host.__all__)


def programs() -> list[Path]:
    return [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]


@pytest.mark.parametrize("page", programs(), ids=lambda path: path.name)
def test_pages_and_examples_import_public_names_only(page):
    found = re.findall(r"^\s*(?:from|import) (softcard[\w.]*)", page.read_text("utf-8"), re.MULTILINE)
    assert set(found) <= {
        "softcard",
        "softcard.testing",
        "softcard.trace",
        "softcard.coverage",
        "softcard.triton",
        *(f"softcard.{name}" for name in INTERFACES),
    }


@pytest.mark.slow
def test_a_type_checker_sees_the_public_names_and_no_others(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(
        "import softcard\nfrom softcard import RefSi\n"
        + "".join(f"reveal_type(softcard.{name})\n" for name in PUBLIC)
        + "softcard.Gpux\nRefSi.open().close(1)\n"
    )
    options = ["--strict", "--no-error-summary", "--config-file", "", "--ignore-missing-imports"]
    out, _, status = mypy.run([*options, str(file)])
    assert status == 1
    reported = [line.partition(": ")[2] for line in out.splitlines()]
    assert not any('type is "Any"' in line for line in reported)
    assert sum("Revealed type" in line for line in reported) == len(PUBLIC)
    errors = [line for line in out.splitlines() if ": error: " in line]
    assert [line.partition("error: ")[2].partition("  [")[2] for line in errors] == ["attr-defined]", "call-arg]"]


# ---- pages -----------------------------------------------------------------------------------------------------------


def test_the_reference_has_every_public_name():
    found = re.findall(r"^<!-- begin api (\w+) -->$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(set(PUBLIC) - {"__version__"})


def test_the_page_of_public_names_names_them():
    text = (ROOT / "docs" / "public.md").read_text("utf-8")
    for name in set(PUBLIC) - {"Place"}:
        assert f"`{name}`" in text or f"`softcard.{name}`" in text, name
