"""The child process of a campaign's worker: runs tasks one after another; files run as in `softcard run`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from softcard.campaign.combined import perform_combined
from softcard.campaign.compilation import Compiled, version_of
from softcard.campaign.perform import RunResult, generated_kind, perform, run_generated
from softcard.campaign.task import Row, Task
from softcard.campaign.worker import REFUSED, serve
from softcard.cli.exits import UsageError
from softcard.cli.running.kernel_files import KernelFile, Options, RawHeader, read_kernels
from softcard.cli.running.kernel_values import difference, expected, numbered, parse
from softcard.core.errors import SoftcardError
from softcard.host.compiling import NoCompiler, named

COMMAND: Final = ("-m", "softcard.cli.running.campaign_task")
"""The arguments of the Python interpreter that start the child process."""


def run(task: Task, data: bytes) -> tuple[RunResult, Compiled | None]:
    """Run a task with any kind of program; return its result, and data about the compilation or None without one.

    `data` is the content of the program file, or b"" for a generated program."""
    if task.generator or generated_kind(task.program):
        return run_generated(task, data)
    return _run_file(task, data)


def _run_file(task: Task, data: bytes) -> tuple[RunResult, Compiled | None]:
    """Run a kernel of the file with content `data`; return the result, and data about the compilation or None.

    The content is first written to disk because compilers read files."""
    began = time.perf_counter()
    with TemporaryDirectory(prefix="softcard-") as folder:
        path = Path(folder, Path(task.program).name)
        data, compiled = _made(task, data)
        if compiled is not None:
            path = path.with_suffix(".co" if path.suffix in (".cl", ".hip") else ".elf")
        path.write_bytes(data)
        options = Options(task.agent, task.engine, exact=task.check == "exact")
        found = read_kernels(path, options, RawHeader())
    made = time.perf_counter() - began
    values = [parse(text, task.seed, number) for number, text in enumerate(task.given.arguments)]
    name = found.kernel(task.kernel)
    result = _launched(found, name, task, values, options)
    if compiled is None and path.suffix in (".cl", ".hip", ".c", ".cc", ".cpp", ".cxx"):
        compiled = Compiled(b"", made, "")
    return result, compiled


def _made(task: Task, data: bytes) -> tuple[bytes, Compiled | None]:
    """Return `data`, compiled if it is source code, and data about the compilation or None.

    Nothing is compiled if the task names neither a compiler nor options for it."""
    suffix = Path(task.program).suffix
    if not (task.compiler or task.options) or suffix not in (".cl", ".hip", ".c", ".cc", ".cpp", ".cxx"):
        return data, None
    chosen = named(task.compiler) if task.compiler else None
    if task.compiler and chosen is None:
        raise NoCompiler(f"compiler {task.compiler} was not found: install it, or name another one")
    began = time.perf_counter()
    options = task.options.split()
    if suffix in (".cl", ".hip"):
        from softcard.host.hsa.compile import COMPILERS, compilers

        known = {each.name: each for each in compilers()}
        if task.compiler and task.compiler not in known:
            raise UsageError(
                f"{task.compiler} is too old for the library of OpenCL C and HIP, expected one of {', '.join(known)}"
            )
        text = data.decode("utf-8", "replace")
        agent = task.agent or "gfx900"
        made = COMPILERS[suffix](text, agent, options=options, compiler=known.get(task.compiler))
    else:
        from softcard.host.refsi.compile import compile_kernels

        with TemporaryDirectory(prefix="softcard-") as folder:
            path = Path(folder, Path(task.program).name)
            path.write_bytes(data)
            made = compile_kernels(path, compiler=task.compiler, options=options)
    return made, Compiled(b"", time.perf_counter() - began, version_of(chosen) if chosen else "")


def _launched(found: KernelFile, name: str, task: Task, values: list[Any], options: Options) -> RunResult:
    sizes = [tuple(map(int, text.split("x"))) if text else None for text in (task.given.grid, task.given.group)]
    arrays = [each for each in values if isinstance(each, np.ndarray) and each.shape]
    if sizes[0] is None and found.counts_elements:
        sizes[0] = (max([1, *(each.size for each in arrays)]),)
    wanted = [numbered(text, len(values), "expect") for text in task.given.expect]
    expectations = [(number, expected(text, values[number])) for number, text in wanted]
    outcome = found.run(name, sizes[0], sizes[1], values, options)
    wrong = [f"argument {number}: {difference(values[number], each, 0)}"
             for number, each in expectations if difference(values[number], each, 0)]  # fmt: skip
    result = b"".join(each.tobytes() for each in arrays) + outcome.printed.encode()
    return RunResult(result, outcome.result.instructions, outcome.result.time, wrong="; ".join(wrong))


def perform_task(task: Task, data: bytes) -> Row:
    """Run a task and return its result columns; `data` is the content of the program file.

    A mistake in the campaign file gives the outcome `REFUSED`."""
    refused: list[SoftcardError] = []

    def watched(task: Task, data: bytes) -> tuple[RunResult, Compiled | None]:
        try:
            return run(task, data)
        except UsageError as error:
            refused.append(error)
            raise

    found = perform(task, data, watched)
    return found | {"outcome": REFUSED} if refused else found


def perform_tasks(tasks: Sequence[Task], data: bytes) -> list[Row]:
    """Run tasks whose programs differ only in their seed, and return their result columns.

    `data` is the content of the program file."""
    return perform_combined(tasks, lambda task: perform_task(task, data))


if __name__ == "__main__":
    serve(perform_tasks)
