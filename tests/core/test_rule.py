"""Rules and choices as files: what is read, when, and what of it is the same."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from softcard.core.rule import Choice, Fidelity, Rule, load_choices, load_rules, rules_of

RULES = """
[[rules]]
clause = "Opening"
greet = "says hello"
"other/bow".chosen = '''
"bows",
  deeply'''

[[rules]]
clause = "End"
leave.absent = "goes"
"""
CHOICES = """
[how-deep]
gap = "how deep it bows"
answer = \"""
to the
knee\"""
reason = "measured"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with rules and choices, whose name no other test has."""
    name = f"polite_{tmp_path.name}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "rules.toml").write_text(RULES)
    (folder / "choices.toml").write_text(CHOICES)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def prefix(package: str) -> str:
    return package.replace("_", "-")


def test_rules_come_in_the_order_of_the_file(package: str) -> None:
    assert [(rule.id, rule.clause, rule.text, rule.fidelity) for rule in load_rules(package).values()] == [
        (f"{prefix(package)}/greet", "Opening", "says hello", Fidelity.EXACT),
        ("other/bow", "Opening", '"bows", deeply', Fidelity.CHOSEN),
        (f"{prefix(package)}/leave", "End", "goes", Fidelity.ABSENT),
    ]


def test_choices_come_whole(package: str) -> None:
    choice = Choice(f"{prefix(package)}/how-deep", "how deep it bows", "to the knee", "measured")
    assert load_choices(package) == {choice.id: choice}


def test_a_rule_is_one_object_however_it_is_asked_for(package: str) -> None:
    rule = rules_of(package)
    assert rule("greet") is rule(f"{prefix(package)}/greet") is load_rules(package)[f"{prefix(package)}/greet"]


def test_rules_of_the_same_id_are_equal(package: str) -> None:
    rule = rules_of(package)("greet")
    copy = pickle.loads(pickle.dumps(rule))
    assert copy == rule == Rule(rule.id, "", "")
    assert len({copy, rule, Rule(rule.id, "", "")}) == 1
    assert (copy.clause, copy.text, copy.fidelity) == ("Opening", "says hello", Fidelity.EXACT)
    assert rule != Rule("other/bow", "", "")
    assert rule != rule.id


def test_a_rule_that_the_file_does_not_have_says_nothing(package: str) -> None:
    missing = rules_of(package)("wave")
    with pytest.raises(KeyError, match="wave"):
        _ = missing.text


def test_imports_read_no_file() -> None:
    code = "import sys, softcard.host.hsa; assert 'tomllib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
