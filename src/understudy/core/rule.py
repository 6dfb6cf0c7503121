"""Rules of a document, and the choices made where a document is silent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fidelity(Enum):
    """How true the model is to a rule."""

    EXACT = "exact"
    """As the document says, or as recorded from its reference implementation."""
    CHOSEN = "chosen"
    """The document leaves it open; a `Choice` says what we do and why."""
    ABSENT = "absent"
    """Not modelled; touching it raises `BeyondModel`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence of a document that a device can obey or break.

    `id` is ``interface/short-name``; `clause` names the place in the document; `text` restates it.
    """

    id: str
    clause: str
    text: str
    fidelity: Fidelity = Fidelity.EXACT


@dataclass(frozen=True, slots=True)
class Choice:
    """A gap in a document, and our answer to it."""

    id: str
    gap: str
    answer: str
    reason: str
