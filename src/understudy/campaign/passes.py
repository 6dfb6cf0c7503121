"""Which pass of a compiler makes a result another one, and at which instruction the code becomes different.

Clang leaves out its optional passes from the N-th on where it is told ``-opt-bisect-limit=N``, and prints the others as
it goes. Halving finds the pass without which a program has the result that it has without all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final

from understudy.campaign.compare import GOOD
from understudy.campaign.compilation import Compiled, compile_generated
from understudy.campaign.errors import CampaignError
from understudy.campaign.generators.registry import COMPILED, GENERATORS
from understudy.campaign.perform import DEFAULT_AGENT
from understudy.campaign.reproduce import Perform, task_like
from understudy.campaign.task import GENERATE, Task
from understudy.campaign.triage import Failure
from understudy.core.errors import UnderstudyError

LIMIT: Final = "-mllvm -opt-bisect-limit={}"
NO_PASS: Final = "no pass that can be left out"
RAN: Final = (GOOD, "wrong", "fault", "timeout", "died")
"""Outcomes of programs that were compiled and begun."""
_RUNNING: Final = re.compile(r"BISECT: running pass \((\d+)\) (.+?)(?: on (.*))?$", re.MULTILINE)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """The pass that changes the result of one way to compile a program; `where` it ran: a function, a loop.

    `pc` is the first byte of the code that is different with it, `before` and `after` are the instructions there.
    """

    row: Row
    name: str
    where: str = ""
    number: int = 0
    pc: int = 0
    before: str = ""
    after: str = ""

    @property
    def maker(self) -> str:
        """Who compiled it."""
        return f"{self.row['compiler']} {self.row['options']}".strip()

    def __str__(self) -> str:
        place = f"pass {self.number}, {self.name}" + (f" on {self.where}" if self.where else "")
        return f"{self.maker}: {place}; code differs from {self.pc:#x} on: {self.before} became {self.after}"


@dataclass(slots=True)
class Blame:
    """Failures whose results the same passes change."""

    names: tuple[str, ...]
    changes: list[tuple[Failure, list[Change]]] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """The passes."""
        return ", ".join(self.names) or NO_PASS

    @property
    def seeds(self) -> list[int]:
        """Of which programs."""
        return sorted({failure.row["seed"] for failure, _ in self.changes})

    @property
    def makers(self) -> list[str]:
        """Compilers, and options, that these passes ran in."""
        return sorted({change.maker for _, changes in self.changes for change in changes})


def blamed(failure: Failure, perform: Perform, time_limit: float) -> list[Change]:
    """The pass that changes the result, for each side of a difference where one does.

    `CampaignError` where the sides do the same now, or where nothing was compiled.
    """
    name = failure.row["program"].removeprefix(GENERATE)
    if failure.good is None or not is_blamed(failure):
        raise CampaignError(f"task {failure.row['id']} is no generated program that does something else elsewhere")
    generator = GENERATORS[name]
    if generator.runs_as not in COMPILED:
        raise CampaignError(f"{failure.row['program']} is not compiled")
    text = generator.seeded(failure.row["seed"]).text()
    sides = [
        _Side(row, text, generator.runs_as, task_like(row, generator.suffix, time_limit), perform)
        for row in (failure.row, failure.good)
    ]
    if sides[0].digest("") == sides[1].digest(""):
        raise CampaignError(f"task {failure.row['id']} does not differ again")
    return [change for side in sides for change in side.changes()]


def is_blamed(failure: Failure) -> bool:
    """Whether a pass may be what makes a program do something else: another result, or an end before it."""
    row = failure.row
    return failure.good is not None and row["outcome"] in RAN and row["program"].startswith(GENERATE)


def outcome_of_row(row: Row) -> str:
    """What tells a result from others: its digest, or the signature of an end without one."""
    return str(row["digest"] if row["outcome"] == GOOD else row["signature"])


class _Side:
    """One way to compile and run a program."""

    def __init__(self, row: Row, text: str, language: str, task: Task, perform: Perform) -> None:
        self.row, self.text, self.language = row, text, language
        self._task, self._perform = task, perform

    def digest(self, more: str) -> str:
        """Of the result with further options: what it is like where there is none."""
        found = self._perform(replace(self._task, options=f"{self._task.options} {more}".strip()), self.text.encode())
        return outcome_of_row(found)

    def changes(self) -> Iterator[Change]:
        """The pass, if there is one."""
        compiled = self._compiled(-1)
        passes = {int(number): (name, where or "") for number, name, where in _RUNNING.findall(compiled.told)}
        low, high = 0, max(passes, default=0)
        plain = self.digest(LIMIT.format(0))
        if not high or self.digest("") == plain:
            return
        while high - low > 1:
            middle = (low + high) // 2
            if self.digest(LIMIT.format(middle)) == plain:
                low = middle
            else:
                high = middle
        name, where = passes[high]
        yield Change(self.row, name, where, high, *self._difference(self._compiled(low), self._compiled(high)))

    def _compiled(self, limit: int) -> Compiled:
        row = self.row
        options = f"{row['options']} {LIMIT.format(limit)}"
        try:
            return compile_generated(
                self.text.encode(), self.language, row["agent"] or DEFAULT_AGENT, row["compiler"], options
            )
        except UnderstudyError as error:
            raise CampaignError(f"task {row['id']}: {error.message.splitlines()[0]}") from None

    def _difference(self, before: Compiled, after: Compiled) -> tuple[int, str, str]:
        pairs = zip_longest(*(listed(each.code, self.language) for each in (before, after)), fillvalue=(0, "nothing"))
        for one, other in pairs:
            if one[1] != other[1]:
                return other[0] or one[0], one[1], other[1]
        return 0, "the same", "the same"


def listed(code: bytes, language: str) -> Iterator[tuple[int, str]]:
    """The instructions of a program that was compiled: bytes from the start of its code, and text."""
    if language == "opencl":
        from understudy.image.hsa.code_object import read_code_object
        from understudy.isa.gcn.asm.listing import listing as gcn
        from understudy.isa.gcn.target import target

        found = read_code_object(code)
        lines = gcn(target(found.target), bytes(found.load(0).data[found.kernels["k"].entry :]))
        yield from ((line.pc, line.shown) for line in lines)
        return
    from understudy.image.riscv.program import read_elf
    from understudy.isa.riscv.listing import listing as riscv

    for segment in read_elf(code).segments:
        if segment.flags & 1:
            yield from ((line.pc, line.shown) for line in riscv(segment.data))


def together(changes: list[tuple[Failure, list[Change]]]) -> list[Blame]:
    """Failures by the passes that change their results, the most frequent first."""
    found: dict[tuple[str, ...], Blame] = {}
    for failure, each in changes:
        names = tuple(sorted({change.name for change in each}))
        found.setdefault(names, Blame(names)).changes.append((failure, each))
    return sorted(found.values(), key=lambda blame: (-len(blame.seeds), blame.signature))
