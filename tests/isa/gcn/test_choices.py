"""Every choice that a file names exists, and no two have the same id."""

from __future__ import annotations

import re
from pathlib import Path

import softcard.isa.gcn
from softcard.core.rule import load_choices
from softcard.isa.gcn.operations.table import OPS

CHOICES = load_choices("softcard.isa.gcn")


def test_choices_say_all_they_have_to_say() -> None:
    assert all(choice_id.startswith("gcn/") for choice_id in CHOICES)
    assert all(choice.gap and choice.answer and choice.reason for choice in CHOICES.values())


def test_every_choice_that_is_named_exists() -> None:
    folder = Path(softcard.isa.gcn.__file__).parent
    named = {found for file in folder.glob("*.py") for found in re.findall(r"``(gcn/[\w-]+)``", file.read_text())}
    assert named <= set(CHOICES)


def test_chosen_operations_name_their_choice() -> None:
    for op in OPS:
        if op.accuracy.kind == "chosen" and op.accuracy.source.startswith("gcn/"):
            assert op.accuracy.source in CHOICES
