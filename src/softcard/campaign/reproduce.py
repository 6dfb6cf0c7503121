"""The reproduction of a failure: it writes a reduced program, and a campaign file with the runs that disagree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from softcard.campaign.compare import GOOD
from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.generators.tree import Node, leaf
from softcard.campaign.task import GENERATE, CampaignError, Row, Task, column
from softcard.campaign.triage import Failure, Group

# ---- reduction -------------------------------------------------------------------------------------------------------
# Reduction of generated programs: delta debugging on their trees, which preserves defined behaviour.
#
# A reducer of text (cvise, shrinkray) may remove a guard, and the difference that remains is undefined behaviour
# instead of a compiler bug. Here statements are removed, blocks replace the statement around them, and expressions are
# replaced by one of their operands or by zero.


MOST_TRIES: Final = 2000
Fails = Callable[[str], bool]
"""The type of a function that returns True if a program still fails in the same way."""


class Reducer:
    """The reducer of one failing program; `tries` is the number of reduced programs that it has run."""

    def __init__(self, program: Node, fails: Fails, most_tries: int = MOST_TRIES) -> None:
        self.program = program.copy()
        self.tries = 0
        self._fails, self._most = fails, most_tries
        self._known: dict[str, bool] = {}

    def run(self) -> Node:
        """Reduce the program and return it.

        The reduction ends when no step makes the program smaller, or after the maximum number of tries."""
        size = -1
        while self.program.size() != size and self.tries < self._most:
            size = self.program.size()
            self._leave_out()
            self._hoist()
            self._simplify()
        return self.program

    def _holds(self) -> bool:
        text = self.program.text()
        if text not in self._known:
            if self.tries >= self._most:
                return False
            self.tries += 1
            self._known[text] = self._fails(text)
        return self._known[text]

    # ---- lists -------------------------------------------------------------------------------------------------------

    def _leave_out(self) -> None:
        """Try to remove halves of each list, then quarters, and so on, down to single elements."""
        for block in [node for node in self.program.nodes() if node.is_list]:
            chunk = max(1, len(block.kids) // 2)
            while chunk:
                self._leave_out_chunks(block, chunk)
                chunk //= 2

    def _leave_out_chunks(self, block: Node, chunk: int) -> None:
        at = len(block.kids)
        while at > 0:
            first = max(0, at - chunk)
            before = block.kids
            gone = [kid for kid in before[first:at] if kid.may_go]
            if gone:
                block.kids = before[:first] + [kid for kid in before[first:at] if not kid.may_go] + before[at:]
                if self._mentioned(gone) or not self._holds():
                    block.kids = before
            at = first

    def _mentioned(self, gone: list[Node]) -> bool:
        """Return True if the program still uses a name that the removed nodes `gone` declared."""
        names = [kid.name for kid in gone if kid.name]
        return bool(names) and bool(re.search(rf"\b(?:{'|'.join(map(re.escape, names))})\b", self.program.text()))

    # ---- blocks and expressions --------------------------------------------------------------------------------------

    def _hoist(self) -> None:
        """Try to replace each statement by a block of statements that it contains."""
        for node in list(self.program.nodes()):
            if node.may_go and not node.is_list:
                for kid in [each for each in node.kids if each.is_list]:
                    if self._try(node, Node("", kid.kids, may_go=True, is_list=True)):
                        break

    def _simplify(self) -> None:
        """Try to replace each expression by its shortest form, such as 0, or by one of its operands."""
        for node in list(self.program.nodes()):
            if node.sort and node.text() != node.zero:
                for other in self._smaller(node):
                    if self._try(node, other):
                        break

    @staticmethod
    def _smaller(node: Node) -> Iterator[Node]:
        yield leaf(node.zero, node.sort, node.zero)
        for below in node.nodes():
            if below is not node and below.sort == node.sort:
                yield below.copy()

    def _try(self, node: Node, other: Node) -> bool:
        before = Node("")
        before.become(node)
        node.become(other)
        if self._holds():
            return True
        node.become(before)
        return False


# ---- reproduction ----------------------------------------------------------------------------------------------------


TRIES: Final = 400
Perform = Callable[[Task, bytes], Row]
"""The type of a function that runs a task, given the content of its program's file."""


class NotReproduced(CampaignError):
    """The error for a failure that does not occur when the task is run again."""


def reduce_failure(failure: Failure, perform: Perform, time_limit: float, tries: int = TRIES) -> Node:
    """Return the smallest program found that fails in the same way as `failure`, after at most `tries` runs.

    If the two runs of the failure give different results, those of the reduced program differ too. If one run fails,
    the same run of the reduced program fails with the same signature, and the other run ends normally. Raise
    `NotReproduced` if the original program does not fail any more.
    """
    row, good = failure.row, failure.good
    name = row["program"].removeprefix(GENERATE)
    if not row["program"].startswith(GENERATE):
        raise CampaignError(f"cannot reduce {row['program']}, expected a generated program (generate:NAME)")
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
        raise NotReproduced(f"task {row['id']} no longer fails when it is run again")
    return Reducer(program, fails, tries).run()


def task_like(row: Row, suffix: str, time_limit: float) -> Task:
    """Return a task with the settings of result row `row`, for another program with the file name suffix `suffix`."""
    return Task(
        f"program{suffix}", "", agent=row["agent"], compiler=row["compiler"], options=row["options"],
        engine=row["engine"], check=row["check"], seed=row["seed"], time_limit=time_limit,
    )  # fmt: skip


def write(folder: Path, group: Group, program: Node, time_limit: float) -> Path:
    """Write the reduced `program` of `group` and a campaign file into `folder`; return the campaign file's path.

    The campaign file runs the program with the settings of the group's first failure, and of the run with the
    expected result if there is one. Raise `CampaignError` if the files cannot be written."""
    failure = group.failures[0]
    suffix = GENERATORS[failure.row["program"].removeprefix(GENERATE)].suffix
    sides = [failure.row] + ([failure.good] if failure.good is not None else [])
    lines = [f"# {line}" for line in _about(group)]
    lines += ["[campaign]", f"name = {json.dumps(folder.name)}", f"time-limit = {time_limit:g}"]
    for side in sides:
        axes = {name: [value] for name, each in _AXES.items() if (value := column(side, each))}
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
