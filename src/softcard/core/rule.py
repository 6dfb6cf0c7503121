"""The rules of a specification, and the choices for points that a specification leaves open.

Rules and choices are data: ``rules.toml`` and ``choices.toml`` in the package of their interface. The name of
this package is the first component of their ids. A module ``rules.py`` next to these files defines a name for
each rule that code raises. The files are read at the first use of a rule's text, since imports and most runs
never need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any


class Fidelity(Enum):
    """The fidelity with which the model follows a rule."""

    EXACT = "exact"
    """The fidelity of a rule that the model follows exactly.

    The behaviour is that of the specification, or that recorded from its reference implementation.
    """
    CHOSEN = "chosen"
    """The fidelity of a rule whose behaviour the specification leaves open.

    A `Choice` describes the behaviour that Softcard chose, and the reason.
    """
    ABSENT = "absent"
    """The fidelity of a rule that is not modelled; using the feature raises `BeyondModel`."""


@dataclass(frozen=True, eq=False)
class Rule:
    """One sentence of a specification that a device, host or guest can obey or violate.

    Rules with equal ids are equal. `id` is ``interface/short-name``. `clause` identifies the sentence's position
    in the specification. `text` restates the sentence."""

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
    """A point that a specification leaves open, and the behaviour that Softcard chose."""

    id: str
    gap: str
    answer: str
    reason: str


def rules_of(package: str) -> Callable[[str], Rule]:
    """Return a function that returns the rule of `package`'s interface with a given short name or whole id.

    The text of a rule is read at its first use; a `KeyError` is raised then if ``rules.toml`` has no such rule.
    """
    return lambda name: _named(package, interface_id(package, name))


@cache
def load_rules(package: str) -> dict[str, Rule]:
    """Return the rules of the interface of `package` by their ids, in the order of its ``rules.toml``.

    The file has a table for each clause of the specification. In a table, ``short-name = "text"`` is a rule that
    the model follows exactly. ``short-name.chosen = "text"``, for instance, is a rule with the fidelity "chosen"."""
    return {rule_id: _named(package, rule_id) for rule_id in _sentences(package)}


@cache
def load_choices(package: str) -> dict[str, Choice]:
    """Return the choices of the interface of `package` by their ids, in the order of its ``choices.toml``."""
    found = {}
    for name, said in tables_of(package, "choices").items():
        choice = Choice(interface_id(package, name), **{key: line_of(text) for key, text in said.items()})
        found[choice.id] = choice
    return found


class _Named(Rule):
    """A rule created from its id alone; the first use of another field reads the rules file."""

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
    """Return the parsed content of the file ``KIND.toml`` in a package, where KIND is `kind`."""
    import tomllib  # here: importing the package must stay quick
    from importlib.resources import files

    return tomllib.loads(files(package).joinpath(f"{kind}.toml").read_text(encoding="utf-8"))


def interface_id(package: str, name: str) -> str:
    """Return the whole id for a short name: ``hsa/fence-scopes`` for ``fence-scopes`` in ``softcard.device.hsa``.

    A name that is a whole id already is returned unchanged.
    """
    return name if "/" in name else f"{package.rpartition('.')[2].replace('_', '-')}/{name}"


def line_of(text: str) -> str:
    """Return `text` as one line, with one space in place of each sequence of spaces and line breaks."""
    return " ".join(text.split())
