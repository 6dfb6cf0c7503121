"""Every rule of every interface has its test; every rule and choice says all it has to say."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from understudy.core.rule import Choice, Fidelity, Rule
from understudy.report.rules import missing_tests

INTERFACES = ("refsi", "acceldev", "fletcher", "hsa", "amdcl2")
"""Packages of `understudy.device` whose documents are done."""
HOSTS = ("hsa",)
"""Interfaces whose `understudy.host` module has choices of its own."""
TESTS = Path(__file__).parent

every_interface = pytest.mark.parametrize("interface", INTERFACES)


def rules(interface: str) -> tuple[Rule, ...]:
    found: tuple[Rule, ...] = import_module(f"understudy.device.{interface}.rules").RULES
    return found


def choices(interface: str) -> tuple[Choice, ...]:
    found: tuple[Choice, ...] = import_module(f"understudy.device.{interface}.choices").CHOICES
    return found


@every_interface
def test_every_rule_has_its_test(interface: str) -> None:
    assert [rule.id for rule in missing_tests(rules(interface), TESTS)] == []


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
    found: tuple[Choice, ...] = import_module(f"understudy.host.{host}.choices").CHOICES
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
