"""A failure made small, and kept as a campaign of its own that shows it: a program, and the runs that disagree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from understudy.campaign.compare import GOOD
from understudy.campaign.errors import CampaignError
from understudy.campaign.generators.registry import GENERATORS
from understudy.campaign.generators.tree import Node
from understudy.campaign.reduce import Reducer
from understudy.campaign.task import GENERATE, Task
from understudy.campaign.triage import Failure, Group

TRIES: Final = 400
Row = Mapping[str, Any]
Perform = Callable[[Task, bytes], Row]
"""Runs a task."""


class NotReproduced(CampaignError):
    """What failed does not fail when it is run once more."""


def reduce_failure(failure: Failure, perform: Perform, time_limit: float, tries: int = TRIES) -> Node:
    """The smallest program found that fails in the same way; `NotReproduced` where the whole one does not.

    Where two results differ, they go on to; where one run fails, it goes on to, with its signature, and the other one
    goes on to end.
    """
    row, good = failure.row, failure.good
    name = row["program"].removeprefix(GENERATE)
    if not row["program"].startswith(GENERATE):
        raise CampaignError(f"{row['program']} was not generated: only generated programs are made smaller")
    generator = GENERATORS[name]

    def outcome(side: Row, text: str) -> Row:
        return perform(task_like(side, generator.suffix, time_limit), text.encode())

    def fails(text: str) -> bool:
        found = outcome(row, text)
        if failure.is_difference != (found["outcome"] == GOOD):
            return False
        if not failure.is_difference and found["signature"] != row["signature"]:
            return False
        other = None if good is None else outcome(good, text)
        if other is None:
            return True
        return bool(other["outcome"] == GOOD and other["digest"] != found["digest"])

    program = generator.seeded(row["seed"])
    if not fails(program.text()):
        raise NotReproduced(f"task {row['id']} does not fail again")
    return Reducer(program, fails, tries).run()


def task_like(row: Row, suffix: str, time_limit: float) -> Task:
    """The same run as a row's, of another program."""
    return Task(
        f"program{suffix}", "", agent=row["agent"], compiler=row["compiler"], options=row["options"],
        engine=row["engine"], check=row["check"], seed=row["seed"], time_limit=time_limit,
    )  # fmt: skip


def write(folder: Path, group: Group, program: Node, time_limit: float) -> Path:
    """The program and a campaign beside it; gives the campaign's file. `CampaignError` where that cannot be written."""
    failure = group.failures[0]
    suffix = GENERATORS[failure.row["program"].removeprefix(GENERATE)].suffix
    sides = [failure.row] + ([failure.good] if failure.good is not None else [])
    lines = [f"# {line}" for line in _about(group)]
    lines += ["[campaign]", f"name = {json.dumps(folder.name)}", f"time-limit = {time_limit:g}"]
    for side in sides:
        axes = {name: [side[column]] for name, column in _AXES.items() if side[column]}
        lines += ["", "[[matrix]]", f'programs = ["program{suffix}"]']
        lines += [f"{name} = {json.dumps(values)}" for name, values in axes.items()]
        lines += [f"seeds = [{side['seed']}]"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"program{suffix}").write_text(program.text(), "utf-8")
        file = folder / "campaign.toml"
        file.write_text("\n".join(lines) + "\n", "utf-8")
    except OSError as error:
        raise CampaignError(f"cannot write {folder}: {error.strerror}") from None
    return file


_AXES: Final = {
    "agents": "agent", "compilers": "compiler", "options": "options", "engines": "engine", "checks": "check",
}  # fmt: skip


def _about(group: Group) -> list[str]:
    row = group.failures[0].row
    seeds = ", ".join(map(str, group.seeds[:10])) + (", ..." if len(group.seeds) > 10 else "")
    named = f"{row['program']} {row['content'].rpartition(' ')[2]}, seed {row['seed']}"
    return [group.signature, f"reduced from {named}; {len(group.failures)} runs, seeds {seeds}"]
