"""Tables for the docs: every rule with its clause, fidelity and tests, and every Choice with its reason.

The fidelity of a rule is how exactly Softcard follows it. A rule's tests are found by their names: the rule
``acceldev/feed-error`` belongs to every test function ``test_feed_error`` or ``test_..._feed_error`` in a file whose
path or name contains the name of the interface.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from softcard.core.rule import Choice, Rule
from softcard.report.markdown import cell, table


@dataclass(frozen=True, slots=True)
class FoundTest:
    """A test function; `path` is relative to the test tree, with ``/`` as separator."""

    path: str
    name: str


def find_tests(tests_dir: Path) -> tuple[FoundTest, ...]:
    """Return every test function and method below `tests_dir`, sorted by path and line, without importing the files."""
    found: list[FoundTest] = []
    for path in sorted(tests_dir.rglob("test_*.py")):
        found += _tests_in(path.relative_to(tests_dir).as_posix(), path.read_text(encoding="utf-8"))
    return tuple(found)


@cache
def _tests_in(path: str, text: str) -> tuple[FoundTest, ...]:
    return tuple(
        FoundTest(path, node.name)
        for node in ast.walk(ast.parse(text, filename=path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    )


def named_after(rule: Rule, tests: Iterable[FoundTest]) -> tuple[FoundTest, ...]:
    """Return the tests that belong to `rule` by their name."""
    interface, _, short = rule.id.replace("-", "_").partition("/")
    return tuple(
        test
        for test in tests
        if test.name.endswith(f"_{short}") and f"_{interface}_" in _words(test.path) + _words(test.name)
    )


def missing_tests(rules: Iterable[Rule], tests_dir: Path) -> tuple[Rule, ...]:
    """Return the rules to which no test belongs by name."""
    tests = find_tests(tests_dir)
    return tuple(rule for rule in rules if not named_after(rule, tests))


def rule_table(rules: Iterable[Rule], tests_dir: Path) -> str:
    """Return a Markdown table of rules: clause, rule, fidelity and tests, in the order of `rules`."""
    tests = find_tests(tests_dir)
    rows = []
    for rule in rules:
        named = [f"`{test.path}::{test.name}`" for test in named_after(rule, tests)]
        text = f"`{rule.id}`: {cell(rule.text)}"
        rows.append((cell(rule.clause), text, rule.fidelity.value, "<br>".join(named) or "none yet"))
    return table(("clause", "rule", "fidelity", "test"), rows)


def choice_table(choices: Iterable[Choice]) -> str:
    """Return a Markdown table of Choices: what a document leaves open, Softcard's decision, and the reason."""
    rows = [(f"`{c.id}`", cell(c.gap), cell(c.answer), cell(c.reason)) for c in choices]
    return table(("choice", "left open", "answer", "reason"), rows)


def _words(name: str) -> str:
    """Return a path or a test's name as words that are separated and enclosed by underscores.

    For ``device/refsi/test_windows.py`` it is ``_device_refsi_test_windows_``. An interface's name is searched
    in it."""
    return "_" + name.removesuffix(".py").replace("/", "_").replace("-", "_") + "_"
