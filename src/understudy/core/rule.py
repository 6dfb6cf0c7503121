"""Rules of a document, and the choices made where a document is silent.

Both are data: ``rules.toml`` and ``choices.toml`` in the package of their interface, whose name is the first part of
their ids. Code names the rules it raises in a ``rules.py`` beside them; the files are read when somebody asks what a
rule says, since imports and most runs never do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any


class Fidelity(Enum):
    """How true the model is to a rule."""

    EXACT = "exact"
    """As the document says, or as recorded from its reference implementation."""
    CHOSEN = "chosen"
    """The document leaves it open; a `Choice` says what we do and why."""
    ABSENT = "absent"
    """Not modelled; touching it raises `BeyondModel`."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One sentence of a document that a device can obey or break; equal to every other of the same id.

    `id` is ``interface/short-name``; `clause` names the place in the document; `text` restates it.
    """

    id: str
    clause: str
    text: str
    fidelity: Fidelity = Fidelity.EXACT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True, slots=True)
class Choice:
    """A gap in a document, and our answer to it."""

    id: str
    gap: str
    answer: str
    reason: str


def rules_of(package: str) -> Callable[[str], Rule]:
    """What names rules of the interface of `package`: the rule of a short name, or of a whole id.

    What it says is read when it is asked for; `KeyError` then, if ``rules.toml`` has no such rule.
    """
    return lambda name: _named(package, interface_id(package, name))


@cache
def load_rules(package: str) -> dict[str, Rule]:
    """The rules of the interface of `package` by their ids, in the order of its ``rules.toml``.

    The file has a table for each clause: ``short-name = "text"``, ``short-name.chosen = "text"`` for another fidelity.
    """
    return {rule_id: _named(package, rule_id) for rule_id in _sentences(package)}


@cache
def load_choices(package: str) -> dict[str, Choice]:
    """The choices of the interface of `package` by their ids, in the order of its ``choices.toml``."""
    found = {}
    for name, said in tables_of(package, "choices").items():
        choice = Choice(interface_id(package, name), **{key: line_of(text) for key, text in said.items()})
        found[choice.id] = choice
    return found


class _Named(Rule):
    """A rule that knows its id, and looks into its file for the rest."""

    def __init__(self, package: str, rule_id: str) -> None:
        vars(self).update(id=rule_id, package=package)

    @property
    def clause(self) -> str:
        return self._sentence.clause

    @property
    def text(self) -> str:
        return self._sentence.text

    @property
    def fidelity(self) -> Fidelity:
        return self._sentence.fidelity

    @property
    def _sentence(self) -> Rule:
        package: str = vars(self)["package"]
        return _sentences(package)[self.id]


@cache
def _named(package: str, rule_id: str) -> Rule:
    return _Named(package, rule_id)


@cache
def _sentences(package: str) -> dict[str, Rule]:
    found = {}
    for table in tables_of(package, "rules")["rules"]:
        clause = line_of(table.pop("clause"))
        for name, said in table.items():
            ((fidelity, text),) = said.items() if isinstance(said, dict) else (("exact", said),)
            rule = Rule(interface_id(package, name), clause, line_of(text), Fidelity(fidelity))
            found[rule.id] = rule
    return found


def tables_of(package: str, kind: str) -> dict[str, Any]:
    """The tables of ``KIND.toml`` in a package, as they stand there."""
    import tomllib  # here: importing the package must stay quick
    from importlib.resources import files

    return tomllib.loads(files(package).joinpath(f"{kind}.toml").read_text(encoding="utf-8"))


def interface_id(package: str, name: str) -> str:
    """``hsa/fence-scopes`` for ``fence-scopes`` in ``understudy.device.hsa``; whole ids stay."""
    return name if "/" in name else f"{package.rpartition('.')[2].replace('_', '-')}/{name}"


def line_of(text: str) -> str:
    """On one line, whatever the lines of the file are."""
    return " ".join(text.split())
