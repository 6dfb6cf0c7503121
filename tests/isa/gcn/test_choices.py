"""Every choice that a file names exists, and no two have the same id."""

from __future__ import annotations

import re
from pathlib import Path

import understudy.isa.gcn
from understudy.isa.gcn.choices import BY_ID, CHOICES
from understudy.isa.gcn.operations.table import OPS


def test_ids_are_unique() -> None:
    assert len(BY_ID) == len(CHOICES)
    assert all(choice.id.startswith("gcn/") and choice.gap and choice.answer and choice.reason for choice in CHOICES)


def test_every_choice_that_is_named_exists() -> None:
    folder = Path(understudy.isa.gcn.__file__).parent
    named = {found for file in folder.glob("*.py") for found in re.findall(r"``(gcn/[\w-]+)``", file.read_text())}
    assert named <= set(BY_ID)


def test_chosen_operations_name_their_choice() -> None:
    for op in OPS:
        if op.accuracy.kind == "chosen" and op.accuracy.source.startswith("gcn/"):
            assert op.accuracy.source in BY_ID
