"""About which instruction the two engines differ, where one of them gives a program another result than the other.

The JIT engine leaves code from an address on to the reference engine. With all of the code left to it the result is the
reference engine's; halving finds the first instruction that the JIT engine must not have for that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from understudy.campaign.compilation import compile_generated
from understudy.campaign.errors import CampaignError
from understudy.campaign.generators.registry import COMPILED, GENERATORS
from understudy.campaign.passes import outcome_of_row
from understudy.campaign.perform import DEFAULT_AGENT, assembled
from understudy.campaign.reproduce import Perform, task_like
from understudy.campaign.task import GENERATE, Task
from understudy.campaign.triage import Failure
from understudy.core.errors import UnderstudyError

ASSEMBLED: Final = "gcn"
ENGINES: Final = ("jit", "reference")
LONGEST: Final = 12
"""Bytes of an instruction."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first instruction that the engines do not agree about, `pc` bytes from where the program begins."""

    row: Row
    pc: int
    instruction: str

    @property
    def name(self) -> str:
        """Its mnemonic."""
        return self.instruction.split(" ")[0]

    def __str__(self) -> str:
        row = self.row
        maker = " ".join(row[name] for name in ("agent", "compiler", "options") if row[name])
        return f"{maker}: {self.pc:#x}: {self.instruction}"


def divergence(failure: Failure, perform: Perform, time_limit: float) -> Divergence | None:
    """The instruction; None where both engines do the same, or where a program has none.

    `CampaignError` where it cannot be compiled any more.
    """
    row = failure.row
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
        """Whether the result is another one where the JIT engine has instruction number `last`, and those before it."""
        return outcome(replace(jit, limit=behind[last])) != right

    behind = [*(pc for pc, _ in lines[1:]), lines[-1][0] + LONGEST]
    first = bisect_left(range(len(lines)), True, key=differs)
    if first == len(lines):
        raise CampaignError(f"task {row['id']} does not differ where instructions are taken away")
    pc, instruction = lines[first]
    return Divergence(row, pc - entry, instruction)


def _instructions(text: str, language: str, task: Task) -> tuple[list[tuple[int, str]], int]:
    """All instructions by their place in the code as it is loaded, and where it is entered."""
    agent = task.agent or DEFAULT_AGENT
    if language == ASSEMBLED:
        return instructions_of_waves(assembled(text, agent), agent)
    try:
        code = compile_generated(text.encode(), language, agent, task.compiler, task.options).code
    except UnderstudyError as error:
        raise CampaignError(error.message.splitlines()[0]) from None
    return instructions_of_harts(code) if language == "rv64" else instructions_of_waves(code, agent)


def instructions_of_waves(code: bytes, agent: str) -> tuple[list[tuple[int, str]], int]:
    """All instructions of a kernel, and of what stands beside it, by their place in what is loaded; and its entry."""
    from understudy.image.hsa.code_object import read_code_object
    from understudy.isa.gcn.asm.listing import listing
    from understudy.isa.gcn.target import target

    found = read_code_object(code)
    entry = found.kernels["k"].entry
    start = min(entry, *found.functions.values(), entry)
    lines = listing(target(agent), bytes(found.load(0).data[start:]), start)
    return [(line.pc, line.shown) for line in lines], entry


def instructions_of_harts(code: bytes) -> tuple[list[tuple[int, str]], int]:
    """Likewise of a program for harts, by their addresses."""
    from understudy.image.riscv.program import read_elf
    from understudy.isa.riscv.listing import listing

    image = read_elf(code)
    lines = [
        (segment.address + line.pc, line.shown)
        for segment in sorted(image.segments, key=lambda each: each.address)
        if segment.flags & 1
        for line in listing(segment.data)
    ]
    return lines, image.entry
