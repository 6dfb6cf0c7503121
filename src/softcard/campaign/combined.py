"""Several generated programs in one source, which is compiled once; the programs then run one after another.

If the compiler fails, or if a program prevents the others from running, the two halves of the programs are
combined and run separately, recursively. A single program is run alone, which determines its outcome."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from softcard.campaign.compilation import Compiled, CompilerCrash, compile_generated
from softcard.campaign.generators import opencl, rv64
from softcard.campaign.generators.registry import GENERATORS
from softcard.campaign.perform import DEFAULT_AGENT, RunResult, perform, run_kernel, run_rv64
from softcard.campaign.task import Row, Task
from softcard.core.errors import SoftcardError
from softcard.host.compiling import CompileError

# ---- sources ---------------------------------------------------------------------------------------------------------
# Many generated programs as one source, so that a compiler starts once, and reads the common prelude once.
#
# Names that a program declares get its number as suffix: kernel ``k`` of program 3 is ``k_3``.


ROUNDS: Final = rv64.ROUNDS
"""The number of values that each program for RV64 prints."""
_DECLARED: Final = re.compile(r"\b(?:func_\d+|S\d+)\b|\bk\b(?=\()")
_ENTRY: Final = """static ulong out[{count}][{rounds}];
void _start(void) {{
    uint state;
{calls}
    call(64, 1, (long)out, sizeof out);
    call(93, 0, 0, 0);
    __builtin_unreachable();
}}
"""
_CALL: Final = """    state = 12345;
    for (uint gid = 0; gid < {rounds}; gid++) {{
        uint x0 = state = state * 1664525u + 1013904223u;
        uint x1 = state = state * 1664525u + 1013904223u;
        out[{number}][gid] = k_{number}(gid, x0, x1);
    }}"""


def combined_source(kind: str, texts: Sequence[str]) -> str:
    """Return one source with several programs of generator `kind`.

    Combined RV64 programs print their results one after another.
    """
    if kind == "opencl":
        return opencl.HEAD + "".join(_numbered(text.removeprefix(opencl.HEAD), n) for n, text in enumerate(texts))
    bodies = [text.removeprefix(rv64.HEAD).removesuffix(rv64.TAIL) for text in texts]
    calls = "\n".join(_CALL.format(number=number, rounds=ROUNDS) for number in range(len(texts)))
    entry = _ENTRY.format(count=len(texts), rounds=ROUNDS, calls=calls)
    return rv64.HEAD + "".join(_numbered(body, n) for n, body in enumerate(bodies)) + rv64.CALL + entry


def _numbered(text: str, number: int) -> str:
    return _DECLARED.sub(lambda found: f"{found[0]}_{number}", text)


# ---- tasks -----------------------------------------------------------------------------------------------------------


Alone = Callable[[Task], Row]
"""The type of a function that runs a single task and returns its outcome."""
LEAST_SECONDS: Final = 1.0
SECONDS_EACH: Final = 0.1
"""The compiler's time limit in seconds for each program of a combined source.

A compiler that takes longer probably hangs on one of the programs.
"""


def perform_combined(tasks: Sequence[Task], alone: Alone) -> list[Row]:
    """Run tasks that differ only in their seed, and return their result columns, in order.

    `alone` runs one task by itself.
    """
    if len(tasks) > 1:
        try:
            return _performed(tasks)
        except (CompilerCrash, CompileError, _Stopped):
            half = len(tasks) // 2
            return perform_combined(tasks[:half], alone) + perform_combined(tasks[half:], alone)
    return [alone(task) for task in tasks]


class _Stopped(Exception):
    """The error for a program that prevented the other programs of its source from running."""


def _performed(tasks: Sequence[Task]) -> list[Row]:
    first = tasks[0]
    generator = GENERATORS[first.generator]
    source = combined_source(generator.runs_as, [generator.seeded(task.seed).text() for task in tasks]).encode()
    agent = (first.agent or DEFAULT_AGENT) if generator.runs_as == "opencl" else ""
    seconds = min(first.time_limit, LEAST_SECONDS + SECONDS_EACH * len(tasks))
    compiled = compile_generated(source, generator.runs_as, agent, first.compiler, first.options, seconds)
    share = compiled._replace(seconds=compiled.seconds / len(tasks))
    if generator.runs_as == "opencl":
        return [
            _row(task, share, partial(run_kernel, share.code, agent, task, f"k_{n}")) for n, task in enumerate(tasks)
        ]
    return _printed(tasks, share)


def _row(task: Task, compiled: Compiled, run: Callable[[], RunResult]) -> Row:
    return perform(task, b"", lambda _, __: (run(), compiled))


def _printed(tasks: Sequence[Task], share: Compiled) -> list[Row]:
    """Run the RV64 programs of `tasks`, compiled as one executable, and return the result row of each.

    `share` has the executable. Its compilation time is already divided by the number of programs. All programs
    print results of the same length, so the output is split into parts of this length."""
    size = 8 * ROUNDS
    try:
        whole = run_rv64(share.code, tasks[0])
    except SoftcardError as error:
        raise _Stopped from error
    if whole.wrong or len(whole.result) != size * len(tasks):
        raise _Stopped
    each = replace(whole, instructions=whole.instructions // len(tasks), seconds=whole.seconds / len(tasks))
    return [
        _row(task, share, partial(replace, each, result=whole.result[at : at + size]))
        for task, at in zip(tasks, range(0, len(whole.result), size), strict=True)
    ]
