"""Every rule of every interface has its test; every rule and choice says all it has to say."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import softcard
from softcard.core.rule import Choice, Fidelity, Rule, load_choices, load_rules
from softcard.report.rules import missing_tests

PACKAGES = {
    **{name: f"device.{name}" for name in ("refsi", "acceldev", "fletcher", "hsa", "amdcl2")},
    "vector": "isa.riscv.vector",
}
"""Where the rules and choices of an interface are; their documents are done."""
INTERFACES = tuple(PACKAGES)
HOSTS = ("hsa",)
"""Interfaces whose `softcard.host` module has choices of its own."""
TESTS = Path(__file__).parent
SOURCE = Path(softcard.__file__).parent
NAMED = sorted(".".join(path.relative_to(SOURCE).parent.parts) for path in SOURCE.rglob("rules.toml"))
"""Packages with rules of their own, and a `rules` module that names those that code raises."""

every_interface = pytest.mark.parametrize("interface", INTERFACES)


def rules(interface: str) -> tuple[Rule, ...]:
    return tuple(load_rules(f"softcard.{PACKAGES[interface]}").values())


def choices(interface: str) -> tuple[Choice, ...]:
    return tuple(load_choices(f"softcard.{PACKAGES[interface]}").values())


@every_interface
def test_every_rule_has_its_test(interface: str) -> None:
    assert [rule.id for rule in missing_tests(rules(interface), TESTS)] == []


def test_every_interface_is_tested() -> None:
    assert sorted(["attach.vfio_user", *PACKAGES.values()]) == NAMED


@pytest.mark.parametrize("package", NAMED)
def test_no_two_tables_of_the_file_have_the_same_rule(package: str) -> None:
    tables = tomllib.loads(SOURCE.joinpath(*package.split("."), "rules.toml").read_text("utf-8"))["rules"]
    assert sum(len(table) - 1 for table in tables) == len(load_rules(f"softcard.{package}"))


@pytest.mark.parametrize("package", NAMED)
def test_every_rule_that_code_names_exists_and_is_named_so(package: str) -> None:
    found = vars(import_module(f"softcard.{package}.rules")).items()
    named = {name: rule for name, rule in found if isinstance(rule, Rule)}
    assert {rule.id for rule in named.values()} <= set(load_rules(f"softcard.{package}"))
    assert all(rule.id.endswith(f"/{name.lower().replace('_', '-')}") for name, rule in named.items())


@every_interface
def test_rules_name_their_clause(interface: str) -> None:
    assert [rule.id for rule in rules(interface) if not rule.clause.strip() or not rule.text.strip()] == []


@every_interface
def test_ids_are_unique_and_name_the_interface(interface: str) -> None:
    for table in (rules(interface), choices(interface)):
        ids = [entry.id for entry in table]
        assert len(ids) > 1
        assert sorted(set(ids)) == sorted(ids)
        assert all(name.startswith(f"{interface}/") for name in ids)


@pytest.mark.parametrize("host", HOSTS)
def test_choices_of_hosts(host: str) -> None:
    """Their ids are none of the device's."""
    found = load_choices(f"softcard.host.{host}").values()
    ids = [choice.id for choice in (*found, *choices(host))]
    assert len(set(ids)) == len(ids)
    assert all(choice.id.startswith(f"{host}/") and choice.gap and choice.answer and choice.reason for choice in found)


@every_interface
def test_no_two_rules_of_a_clause_say_the_same(interface: str) -> None:
    said = [(rule.clause, rule.text) for rule in rules(interface)]
    assert len(set(said)) == len(said)


@every_interface
def test_choices_have_a_gap_an_answer_and_a_reason(interface: str) -> None:
    assert [c.id for c in choices(interface) if not (c.gap.strip() and c.answer.strip() and c.reason.strip())] == []


@every_interface
def test_rules_are_modelled(interface: str) -> None:
    assert [rule.id for rule in rules(interface) if rule.fidelity is Fidelity.ABSENT] == []
