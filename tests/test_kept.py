"""What tools/kept.sh makes is made once, whole, and found again by other working trees and runs."""

import os
import subprocess
from pathlib import Path

import pytest

KEPT = Path(__file__).parents[1] / "tools" / "kept.sh"
SCRIPT = """
set -eu
. "{kept}"
is_good() {{ [ -e "$1/whole" ]; }}
make_kept() {{ {make}; }}
if kept thing build/thing recipe; then echo "fresh $fresh"; else echo failed; fi
"""
MAKE = 'echo made; : >"$1/whole"'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "home" / ".cache").mkdir(parents=True)
    tree(tmp_path, "tree")
    return tmp_path


def tree(folder, name, recipe="one"):
    (folder / name).mkdir()
    (folder / name / "recipe").write_text(recipe)
    return folder / name


def run(where, make=MAKE, **environment):
    variables = {"PATH": os.environ["PATH"], "HOME": str(where.parent / "home"), **environment}
    command = ["sh", "-c", SCRIPT.format(kept=KEPT, make=make)]
    variables = {name: value for name, value in variables.items() if value is not None}
    done = subprocess.run(command, cwd=where, env=variables, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split("\n")[:-1]


def shelf(folder):
    return sorted(path.name.split("-")[0] for path in (folder / "home/.cache/softcard-dev").iterdir())


def test_it_is_made_once_for_all_working_trees(folder):
    assert run(folder / "tree") == ["made", "fresh 1"]
    assert run(folder / "tree") == ["fresh 0"]
    other = tree(folder, "other")
    assert run(other) == ["fresh 1"]
    assert (other / "build/thing").resolve() == (folder / "tree/build/thing").resolve()
    assert shelf(folder) == ["thing"]


def test_another_recipe_makes_another(folder):
    run(folder / "tree")
    first = (folder / "tree/build/thing").resolve()
    (folder / "tree/recipe").write_text("two")
    assert run(folder / "tree") == ["made", "fresh 1"]
    assert first.is_dir()
    assert (folder / "tree/build/thing").resolve() != first


def test_what_could_not_be_made_leaves_nothing(folder):
    assert run(folder / "tree", make='mkdir "$1/half"; return 1') == ["failed"]
    assert run(folder / "tree", make='mkdir "$1/half"') == ["failed"], "is_good does not find it whole"
    assert shelf(folder) == []
    assert not (folder / "tree/build/thing").exists()


def test_what_no_longer_works_is_made_anew(folder):
    run(folder / "tree")
    (folder / "tree/build/thing/whole").unlink()
    assert run(folder / "tree") == ["made", "fresh 1"]


def test_old_ones_go(folder):
    run(folder / "tree")
    kept = folder / "home/.cache/softcard-dev"
    for name, age in (("thing-old", 40), (".thing-half", 40), ("thing-young", 20), ("other-old", 40)):
        (kept / name).mkdir()
        then = (kept / name).stat().st_mtime - age * 86400
        os.utime(kept / name, (then, then))
    run(folder / "tree")
    names = {path.name for path in kept.iterdir()}
    assert {"thing-young", "other-old"} < names
    assert not names & {"thing-old", ".thing-half"}


@pytest.mark.parametrize("home", [None, "", "relative", "missing"])
def test_without_a_home_it_is_kept_in_the_tree(home, folder):
    chosen = str(folder / "missing") if home == "missing" else home
    assert run(folder / "tree", HOME=chosen) == ["made", "fresh 1"]
    assert run(folder / "tree", HOME=chosen) == ["fresh 0"]
    assert (folder / "tree/build/thing").resolve().parent == folder / "tree/build/kept"
    assert not (folder / "missing").exists()


def test_the_cache_may_be_elsewhere(folder):
    run(folder / "tree", XDG_CACHE_HOME=str(folder / "cache"))
    assert (folder / "tree/build/thing").resolve().parent == folder / "cache/softcard-dev"
