"""Tasks of generated programs that one source holds: compiled at once, and run one by one.

Where the compiler fails, or a program stops the others, halves are tried, until the one is found that does it: that
one has the outcome that it has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from understudy.campaign.compilation import Compiled, CompilerCrash, compile_generated
from understudy.campaign.generators.registry import GENERATORS
from understudy.campaign.generators.together import ROUNDS, together
from understudy.campaign.perform import DEFAULT_AGENT, Found, perform, run_kernel, run_rv64
from understudy.campaign.task import Task
from understudy.core.errors import UnderstudyError
from understudy.host.compiling import CompileError

Row = dict[str, Any]
Alone = Callable[[Task], Row]
"""What comes of one task by itself."""
LEAST_SECONDS: Final = 1.0
SECONDS_EACH: Final = 0.1
"""What a compiler may take for several: one that takes longer is likely to be stuck on one of them."""


def perform_together(tasks: Sequence[Task], alone: Alone) -> list[Row]:
    """The columns of tasks that differ in their seed alone, in their order."""
    if len(tasks) > 1:
        try:
            return _performed(tasks)
        except (CompilerCrash, CompileError, _NotTogether):
            half = len(tasks) // 2
            return perform_together(tasks[:half], alone) + perform_together(tasks[half:], alone)
    return [alone(task) for task in tasks]


class _NotTogether(Exception):
    """A program stopped the others."""


def _performed(tasks: Sequence[Task]) -> list[Row]:
    first = tasks[0]
    generator = GENERATORS[first.generator]
    source = together(generator.runs_as, [generator.seeded(task.seed).text() for task in tasks]).encode()
    agent = (first.agent or DEFAULT_AGENT) if generator.runs_as == "opencl" else ""
    seconds = min(first.time_limit, LEAST_SECONDS + SECONDS_EACH * len(tasks))
    compiled = compile_generated(source, generator.runs_as, agent, first.compiler, first.options, seconds)
    share = compiled._replace(seconds=compiled.seconds / len(tasks))
    if generator.runs_as == "opencl":
        return [
            _row(task, share, partial(run_kernel, share.code, agent, task, f"k_{n}")) for n, task in enumerate(tasks)
        ]
    return _printed(tasks, share)


def _row(task: Task, compiled: Compiled, run: Callable[[], Found]) -> Row:
    return perform(task, b"", lambda _, __: (run(), compiled))


def _printed(tasks: Sequence[Task], share: Compiled) -> list[Row]:
    """Of programs that print one behind the other."""
    size = 8 * ROUNDS
    try:
        whole = run_rv64(share.code, tasks[0])
    except UnderstudyError as error:
        raise _NotTogether from error
    if whole.wrong or len(whole.result) != size * len(tasks):
        raise _NotTogether
    each = replace(whole, instructions=whole.instructions // len(tasks), seconds=whole.seconds / len(tasks))
    return [
        _row(task, share, partial(replace, each, result=whole.result[at : at + size]))
        for task, at in zip(tasks, range(0, len(whole.result), size), strict=True)
    ]
