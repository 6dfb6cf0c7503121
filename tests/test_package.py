"""What is given away: the source distribution and the wheel hold ours and nothing else, and need only what is used."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tests.test_layers import imported_modules

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
MAX_SDIST_BYTES = 3_500_000
MAX_FILE_BYTES = 200_000
MAX_WHEEL_BYTES = 2_800_000
LEFT_OUT = [f"{each}*" for each in PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["exclude"]]
GIVEN_AWAY = {
    *("src", "tests", "docs", "examples", "tools"),
    *("Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"),
    *("LICENSE", "pyproject.toml"),
}
KINDS = {
    *(".py", ".typed", ".c", ".h", ".S", ".s", ".cl", ".hip", ".inc", ".ll", ".sh", ".mk", ".md", ".toml", ".cff"),
    ".gitignore",
    *(".html", ".css", ".js", ".png"),
    *(".json", ".yaml", ".txt", ".tsv", ".as", ".clo", ".co", ".elf", ".o"),
}
"""Kinds of files that we write, or that tests compare with; no archive, wheel or library of anybody."""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    [built] = SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def names(sdist: Path) -> dict[str, int]:
    """Files below the distribution's own folder, with their sizes."""
    with tarfile.open(sdist) as archive:
        return {each.name.partition("/")[2]: each.size for each in archive if each.isfile()}


def test_the_source_distribution_is_small(sdist: Path, names: dict[str, int]) -> None:
    assert sdist.stat().st_size < MAX_SDIST_BYTES
    assert {name for name, size in names.items() if size > MAX_FILE_BYTES} == set()


def test_the_source_distribution_holds_ours_alone(names: dict[str, int]) -> None:
    assert {Path(name).parts[0] for name in names} == {*GIVEN_AWAY, ".gitignore", "PKG-INFO"}
    suffixes = {name: Path(name).suffix or Path(name).name for name in names}
    strange = {name for name, suffix in suffixes.items() if suffix not in {*KINDS, "Makefile", "LICENSE", "PKG-INFO"}}
    assert strange == set()


def test_the_source_distribution_holds_all_that_tests_and_docs_need(names: dict[str, int]) -> None:
    for folder in ("src", "tests", "docs", "examples", "tools"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode:  # an unpacked distribution: then its own files are all there are
            there = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
            there = {name for name in there if "__pycache__" not in name}
        else:
            there = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
        missing = {name for name in there - set(names) if not any(fnmatch(name, each) for each in LEFT_OUT)}
        assert missing == set()


@pytest.mark.parametrize("folder", ["tests", "tools"])
def test_what_is_given_away_imports_nothing_that_is_left_out(folder: str, names: dict[str, int]) -> None:
    left_out = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in (ROOT / "tests").rglob("*.py")
        if path.relative_to(ROOT).as_posix() not in names
    }
    for path in (ROOT / folder).rglob("*.py"):
        if (module := path.relative_to(ROOT).as_posix()) in names:
            found = {name for _, name in imported_modules(ast.parse(path.read_text("utf-8")), module, False)}
            assert not {name for name in found if name in left_out or name.rpartition(".")[0] in left_out}, module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    [built] = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


def test_the_wheel_holds_the_package_alone(wheel: Path, tmp_path: Path) -> None:
    assert wheel.stat().st_size < MAX_WHEEL_BYTES
    found = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in found} == {"softcard"}
    assert "softcard/py.typed" in found
    assert "softcard/attach/fletcher/platform.c" in found
    assert "softcard/attach/host.h" in found
    assert "softcard/attach/refsi/refsidrv.c" in found
    assert "softcard/attach/refsi/include/refsidrv/refsidrv.h" in found
    assert any(name.startswith("softcard/data/") for name in found)
    tables = [path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.toml")]
    assert len(tables) > 12
    assert set(tables) <= set(found)
    code = "from softcard.device.acceldev import rules; assert rules.TABLE_SIZE.text and '.whl' in rules.__file__"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(wheel)}, check=True, cwd=tmp_path)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed by pip into a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    options = [
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--disable-pip-version-check",
        "--target",
        str(folder),
    ]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    return folder


def run_installed(folder: Path, code: str, *missing: str) -> subprocess.CompletedProcess[str]:
    """Run `code` where Softcard is installed, its source tree is not, and these modules are `missing`.

    Without `site` nothing that points to the source tree is read; what the package depends on is there by its folder.
    """
    places = [str(folder), *dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))]
    head = f"import sys; sys.path += {places!r}; sys.modules.update(dict.fromkeys({missing!r}))\n"
    head += f"import softcard; assert softcard.__file__.startswith({str(folder)!r})\n"
    command = [sys.executable, "-I", "-S", "-c", head + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def first_program(page: str) -> str:
    """Return the first block of Python of a page."""
    found = re.search(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


@pytest.mark.slow
def test_the_installed_package_runs_what_the_pages_show(installed: Path) -> None:
    for page in ("README.md", "docs/fletcher.md"):
        done = run_installed(installed, first_program(page))
        assert done.returncode == 0, done.stderr
    done = run_installed(installed, "from softcard.cli import main; sys.exit(main(['--version']))")
    assert (done.returncode, done.stdout) == (0, f"softcard {PROJECT['version']}\n")


def test_what_lacks_an_extra_says_which(installed: Path) -> None:
    done = run_installed(installed, "from softcard.fletcher import find; find('sum').schemas", "pyarrow")
    assert done.stderr.splitlines()[-1].endswith("Arrow schemas need pyarrow: pip install 'softcard[arrow]'")
    done = run_installed(installed, "from softcard.testing import gcn_kernels", "hypothesis")
    assert done.stderr.splitlines()[-1] == "ImportError: strategies need hypothesis: pip install 'softcard[testing]'"


def test_the_installed_package_is_found_by_pytest_and_the_shell(installed: Path) -> None:
    [found] = [each for each in distributions(path=[str(installed)]) if each.name == "softcard"]
    assert {(each.group, each.name): each.value for each in found.entry_points} == {
        ("console_scripts", "softcard"): "softcard.cli:main",
        ("pytest11", "softcard"): "softcard.testing.plugin",
        ("triton.backends", "softcard"): "softcard.host.triton",
    }
    assert set(found.metadata.get_all("Provides-Extra")) == {*OPTIONAL, "all", "dev"}


def test_no_tree_holds_what_somebody_else_built() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8").split()
    assert {"*.whl", "*.tar.gz", "dist/", "build/"} <= set(ignored)
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no repository here: an unpacked distribution, whose files are looked at above")
    listed = subprocess.run([git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tops = {name.partition("/")[0] for name in listed.stdout.split("\n")} - {""}
    assert {name for name in tops if not name.startswith(".")} == {*GIVEN_AWAY, "benchmarks"}
    wrong = [name for name in listed.stdout.split("\n") if re.search(r"\.(whl|gz|xz|zip|so|dll|exe|pyc)$", name)]
    assert [name for name in wrong if (ROOT / name).exists()] == []


# ---- dependencies ----------------------------------------------------------------------------------------------------

OPTIONAL = {
    "arrow": {"pyarrow"},
    "coverage": {"coverage"},
    "dask": {"distributed", "pyarrow", "bokeh", "cryptography"},
    "kernels": {"ziglang"},
    "opencl": {"ziglang"},
    "testing": {"hypothesis", "pytest"},
    "triton": {"triton"},
    "vcd": {"pyvcd"},
}
LARGE = {"triton"}
"""Extras that `all` leaves out: Triton is a download of 286 MB."""
OF_CALLERS = {"torch"}
"""Packages whose objects callers may pass. The product does not need these packages."""
LOOKED_UP = {"pyarrow", "ziglang", "distributed", "bokeh", "cryptography"}
NAMED_OTHERWISE = {"vcd": "pyvcd"}
"""Packages by the module that is imported of them, where that has another name."""


def imported() -> set[str]:
    """Top-level names that the package imports, or looks up by name."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Constant) and node.value in LOOKED_UP:
                found.add(str(node.value))
    found -= {*sys.stdlib_module_names, *OF_CALLERS, "softcard"}
    return {NAMED_OTHERWISE.get(name, name) for name in found}


def test_dependencies_are_what_the_package_imports() -> None:
    required = {re.split(r"[<>=~!\[]", each)[0] for each in PROJECT["dependencies"]}
    extras = {
        name: {re.split(r"[<>=]", each)[0] for each in them} for name, them in PROJECT["optional-dependencies"].items()
    }
    assert PROJECT["optional-dependencies"]["all"] == [
        f"softcard[{','.join(each for each in OPTIONAL if each not in LARGE)}]"
    ]
    assert {name: them for name, them in extras.items() if name not in ("all", "dev")} == OPTIONAL
    assert imported() == required.union(*OPTIONAL.values())


def test_the_classifiers_name_what_is_tested() -> None:
    assert "Operating System :: POSIX :: Linux" in PROJECT["classifiers"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert versions == ["3.11", "3.12", "3.13"]
    path = ROOT / ".github" / "workflows" / "test.yml"
    if not path.exists():
        pytest.skip("no workflow here: an unpacked distribution")
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert matrix["python"] == versions
    assert matrix["include"] == [{"python": "3.14", "experimental": True}]
    matrix = jobs["wheel"]["strategy"]["matrix"]
    assert matrix["python"] == versions
    assert {"python": versions[0], "lowest": "1"} in matrix["include"]
    for name, job in jobs.items():
        command = "make wheel" if name == "wheel" else "make test"
        assert any(step.get("run", "").startswith(command) for step in job["steps"])


def test_the_change_log_names_the_version() -> None:
    assert f"## {PROJECT['version']}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
