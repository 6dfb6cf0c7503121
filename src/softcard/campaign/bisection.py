"""Bisection of a failure.

It finds the compiler pass that changes a result, or the first instruction on which the JIT engine and the
reference engine differ. For the latter, the reference engine runs all code at or after an address, and the
JIT engine runs the code before it. Bisection over this address finds the first instruction whose JIT
translation changes the result."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

from softcard.campaign.compare import GOOD
from softcard.campaign.compilation import Compiled, compile_generated
from softcard.campaign.generators.registry import COMPILED, GENERATORS
from softcard.campaign.perform import DEFAULT_AGENT, assembled
from softcard.campaign.reproduce import Perform, task_like
from softcard.campaign.task import GENERATE, CampaignError, Row, Task
from softcard.campaign.triage import Failure
from softcard.core.errors import SoftcardError

# ---- passes of a compiler --------------------------------------------------------------------------------------------
# Bisection over compiler passes: the pass that changes a result, and the first instruction that it changes.
#
# With ``-opt-bisect-limit=N`` Clang skips its optional passes after the N-th, and prints those that it runs. Bisection
# finds the pass with which the result begins to differ from that of a compilation without any optional pass.


LIMIT: Final = "-mllvm -opt-bisect-limit={}"
NO_PASS: Final = "none of the passes that can be left out"
RAN: Final = (GOOD, "wrong", "fault", "timeout", "died")
"""The outcomes of a run whose program was compiled and started."""
_RUNNING: Final = re.compile(r"BISECT: running pass \((\d+)\) (.+?)(?: on (.*))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Change:
    """The compiler pass `name` that changes a program's result, for one compiler and its options.

    `where` is the function or loop that the pass worked on. `pc` is the offset of the first byte of code that the
    pass changes. `before` is the instruction at `pc` if the pass does not run, and `after` if it runs."""

    row: Row
    name: str
    where: str = ""
    number: int = 0
    pc: int = 0
    before: str = ""
    after: str = ""

    @property
    def maker(self) -> str:
        """The compiler with its options."""
        return f"{self.row['compiler']} {self.row['options']}".strip()

    def __str__(self) -> str:
        place = f"pass {self.number}, {self.name}" + (f" on {self.where}" if self.where else "")
        return f"{self.maker}: {place}; code differs from {self.pc:#x} on: {self.before} became {self.after}"


@dataclass(slots=True)
class PassFailures:
    """The failures that are caused by the same compiler passes."""

    names: tuple[str, ...]
    changes: list[tuple[Failure, list[Change]]] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """The names of the passes, as one text."""
        return ", ".join(self.names) or NO_PASS

    @property
    def seeds(self) -> list[int]:
        """The seeds of the failing programs."""
        return sorted({failure.row["seed"] for failure, _ in self.changes})

    @property
    def makers(self) -> list[str]:
        """The compilers, each with its options, in which these passes cause the failures."""
        return sorted({change.maker for _, changes in self.changes for change in changes})


def blamed(failure: Failure, perform: Perform, time_limit: float) -> list[Change]:
    """Return the compiler passes that cause `failure`.

    A failure has two runs: the failed one, and one with the expected result. For each run, the result has the
    compiler pass that changes what the run computes, if there is one. Raise `CampaignError` if the runs agree
    when they are repeated, or if the program is not compiled."""
    name = failure.row["program"].removeprefix(GENERATE)
    if failure.good is None or not is_blamed(failure):
        raise CampaignError(f"task {failure.row['id']}: expected a generated program whose runs disagree")
    generator = GENERATORS[name]
    if generator.runs_as not in COMPILED:
        raise CampaignError(
            f"{failure.row['program']} is not compiled: only compiled programs can be searched for a compiler pass"
        )
    text = generator.seeded(failure.row["seed"]).text()
    sides = [
        _Side(row, text, generator.runs_as, task_like(row, generator.suffix, time_limit), perform)
        for row in (failure.row, failure.good)
    ]
    if sides[0].digest("") == sides[1].digest(""):
        raise CampaignError(f"task {failure.row['id']} has the same results on both sides when it is run again")
    return [change for side in sides for change in side.changes()]


def is_blamed(failure: Failure) -> bool:
    """Return True if a compiler pass can be the cause of `failure`.

    The program must be generated and must have been started, and another run must have the expected result."""
    row = failure.row
    return failure.good is not None and row["outcome"] in RAN and row["program"].startswith(GENERATE)


def outcome_of_row(row: Row) -> str:
    """Return a text that identifies the result in `row`: its digest, or the signature of its failure."""
    return str(row["digest"] if row["outcome"] == GOOD else row["signature"])


class _Side:
    """One of the two runs that disagree: a program, and the compiler with options that compiles it."""

    def __init__(self, row: Row, text: str, language: str, task: Task, perform: Perform) -> None:
        self.row, self.text, self.language = row, text, language
        self._task, self._perform = task, perform

    def digest(self, more: str) -> str:
        """Return a text that identifies the program's result when it is compiled with the further options `more`."""
        found = self._perform(replace(self._task, options=f"{self._task.options} {more}".strip()), self.text.encode())
        return outcome_of_row(found)

    def changes(self) -> Iterator[Change]:
        """Yield the compiler pass that changes the program's result, if there is one."""
        compiled = self._compiled(-1)
        passes = {int(number): (name, where or "") for number, name, where in _RUNNING.findall(compiled.diagnostics)}
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
        except SoftcardError as error:
            raise CampaignError(f"task {row['id']}: {error.message.splitlines()[0]}") from None

    def _difference(self, before: Compiled, after: Compiled) -> tuple[int, str, str]:
        pairs = zip_longest(*(listed(each.code, self.language) for each in (before, after)), fillvalue=(0, "nothing"))
        for one, other in pairs:
            if one[1] != other[1]:
                return other[0] or one[0], one[1], other[1]
        return 0, "the same", "the same"


def listed(code: bytes, language: str) -> Iterator[tuple[int, str]]:
    """Yield the offset from the start of the code, and the text, of each instruction of a compiled program."""
    if language == "opencl":
        from softcard.image.hsa.code_object import read_code_object
        from softcard.isa.gcn.asm.listing import listing as gcn
        from softcard.isa.gcn.target import target

        found = read_code_object(code)
        lines = gcn(target(found.target), bytes(found.load(0).data[found.kernels["k"].entry :]))
        yield from ((line.pc, line.shown) for line in lines)
        return
    from softcard.image.riscv.program import read_elf
    from softcard.isa.riscv.listing import listing as riscv

    for segment in read_elf(code).segments:
        if segment.flags & 1:
            yield from ((line.pc, line.shown) for line in riscv(segment.data))


def grouped(changes: list[tuple[Failure, list[Change]]]) -> list[PassFailures]:
    """Return the failures, grouped by the passes that cause them, the most frequent first."""
    found: dict[tuple[str, ...], PassFailures] = {}
    for failure, each in changes:
        names = tuple(sorted({change.name for change in each}))
        found.setdefault(names, PassFailures(names)).changes.append((failure, each))
    return sorted(found.values(), key=lambda blame: (-len(blame.seeds), blame.signature))


# ---- engines ---------------------------------------------------------------------------------------------------------


ASSEMBLED: Final = "gcn"
ENGINES: Final = ("jit", "reference")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first instruction on which the JIT and the reference engine differ, `pc` bytes after the program's entry."""

    row: Row
    pc: int
    instruction: str

    @property
    def name(self) -> str:
        """The mnemonic of the instruction."""
        return self.instruction.split(" ")[0]

    def __str__(self) -> str:
        row = self.row
        maker = " ".join(row[name] for name in ("agent", "compiler", "options") if row[name])
        return f"{maker}: {self.pc:#x}: {self.instruction}"


def divergence(failure: Failure, perform: Perform, time_limit: float) -> Divergence | None:
    """Return the first instruction on which the JIT and the reference engine differ in the program of `failure`.

    Return None if the engines agree, or if the program is not generated code of a GPU or of RISC-V. Raise
    `CampaignError` if the program cannot be compiled any more, or if the instruction cannot be found.
    """
    row = failure.row
    from softcard.isa.gcn.encoding.formats import LONGEST  # no instruction of RISC-V is longer

    generator = GENERATORS.get(row["program"].removeprefix(GENERATE))
    if generator is None or not row["program"].startswith(GENERATE):
        return None
    language = generator.runs_as
    if language not in (*COMPILED, ASSEMBLED):
        return None
    text = generator.seeded(row["seed"]).text()
    task = task_like(row, generator.suffix, time_limit)

    def outcome(task: Task) -> str:
        return outcome_of_row(perform(task, text.encode()))

    jit, reference = (replace(task, engine=engine) for engine in ENGINES)
    right = outcome(reference)
    if outcome(jit) == right:
        return None
    lines, entry = _instructions(text, language, task)

    def differs(last: int) -> bool:
        """Return True if the result is wrong when the JIT engine translates the instructions up to number `last`."""
        return outcome(replace(jit, limit=ends[last])) != right

    ends = [*(pc for pc, _ in lines[1:]), lines[-1][0] + LONGEST]
    first = bisect_left(range(len(lines)), True, key=differs)
    if first == len(lines):
        raise CampaignError(
            f"task {row['id']}: cannot find the instruction at which the engines begin to differ: the JIT engine is "
            f"right if it translates only the program's {len(lines)} instructions, and wrong if it translates all code"
        )
    pc, instruction = lines[first]
    return Divergence(row, pc - entry, instruction)


def _instructions(text: str, language: str, task: Task) -> tuple[list[tuple[int, str]], int]:
    """Return the (address, text) of each instruction of the generated program `text`, and its entry address.

    The program is compiled or assembled with the settings of `task`. Addresses are those in the loaded code."""
    agent = task.agent or DEFAULT_AGENT
    if language == ASSEMBLED:
        return instructions_of_waves(assembled(text, agent), agent)
    try:
        code = compile_generated(text.encode(), language, agent, task.compiler, task.options).code
    except SoftcardError as error:
        raise CampaignError(error.message.splitlines()[0]) from None
    return instructions_of_harts(code) if language == "rv64" else instructions_of_waves(code, agent)


def instructions_of_waves(code: bytes, agent: str) -> tuple[list[tuple[int, str]], int]:
    """Return the (address, text) of each instruction of a GPU kernel, and the kernel's entry address.

    The addresses are offsets in the loaded image."""
    from softcard.image.hsa.code_object import read_code_object
    from softcard.isa.gcn.asm.listing import listing
    from softcard.isa.gcn.target import target

    found = read_code_object(code)
    entry = found.kernels["k"].entry
    start = min(entry, *found.functions.values(), entry)
    lines = listing(target(agent), bytes(found.load(0).data[start:]), start)
    return [(line.pc, line.shown) for line in lines], entry


def instructions_of_harts(code: bytes) -> tuple[list[tuple[int, str]], int]:
    """Return the (address, text) of each instruction of a RISC-V program, and its entry address."""
    from softcard.image.riscv.program import read_elf
    from softcard.isa.riscv.listing import listing

    image = read_elf(code)
    lines = [
        (segment.address + line.pc, line.shown)
        for segment in sorted(image.segments, key=lambda each: each.address)
        if segment.flags & 1
        for line in listing(segment.data)
    ]
    return lines, image.entry
