"""What a campaign's workers have for a child: it runs one task after another, files as `understudy run` does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from understudy.campaign.child import serve
from understudy.campaign.compilation import Compiled, version_of
from understudy.campaign.perform import Found, generated_kind, perform, run_generated
from understudy.campaign.task import Task
from understudy.campaign.together import perform_together
from understudy.campaign.worker import REFUSED
from understudy.cli.exits import UsageError
from understudy.cli.kernel_files import KernelFile, Options, RawHeader, read_kernels
from understudy.cli.kernel_values import difference, expected, numbered, parse
from understudy.core.errors import UnderstudyError
from understudy.host.compiling import NoCompiler, named

COMMAND: Final = ("-m", "understudy.cli.campaign_task")
"""Behind Python's name: starts one."""


def run(task: Task, data: bytes) -> tuple[Found, Compiled | None]:
    """Run a task, whatever its program is."""
    if task.generator or generated_kind(task.program):
        return run_generated(task, data)
    return _run_file(task, data)


def _run_file(task: Task, data: bytes) -> tuple[Found, Compiled | None]:
    """Run a kernel of a file; the file is written out, since compilers read it."""
    began = time.perf_counter()
    with TemporaryDirectory(prefix="understudy-") as folder:
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
    """What the named compiler makes of a source; anything else as it is."""
    suffix = Path(task.program).suffix
    if not (task.compiler or task.options) or suffix not in (".cl", ".hip", ".c", ".cc", ".cpp", ".cxx"):
        return data, None
    chosen = named(task.compiler) if task.compiler else None
    if task.compiler and chosen is None:
        raise NoCompiler(f"no compiler {task.compiler}")
    began = time.perf_counter()
    options = task.options.split()
    if suffix in (".cl", ".hip"):
        from understudy.host.hsa.compile import COMPILERS, compilers

        known = {each.name: each for each in compilers()}
        if task.compiler and task.compiler not in known:
            raise UsageError(
                f"{task.compiler} is too old for the library of OpenCL C and HIP: there are {', '.join(known)}"
            )
        text = data.decode("utf-8", "replace")
        agent = task.agent or "gfx900"
        made = COMPILERS[suffix](text, agent, options=options, compiler=known.get(task.compiler))
    else:
        from understudy.host.refsi.compile import compile_kernels

        with TemporaryDirectory(prefix="understudy-") as folder:
            path = Path(folder, Path(task.program).name)
            path.write_bytes(data)
            made = compile_kernels(path, compiler=task.compiler, options=options)
    return made, Compiled(b"", time.perf_counter() - began, version_of(chosen) if chosen else "")


def _launched(found: KernelFile, name: str, task: Task, values: list[Any], options: Options) -> Found:
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
    return Found(result, outcome.took.instructions, outcome.took.time, wrong="; ".join(wrong))


def perform_task(task: Task, data: bytes) -> dict[str, Any]:
    """The columns of a task; what is a mistake of the campaign's file is told as such."""
    refused: list[UnderstudyError] = []

    def watched(task: Task, data: bytes) -> tuple[Found, Compiled | None]:
        try:
            return run(task, data)
        except UsageError as error:
            refused.append(error)
            raise

    found = perform(task, data, watched)
    return found | {"outcome": REFUSED} if refused else found


def perform_tasks(tasks: Sequence[Task], data: bytes) -> list[dict[str, Any]]:
    """The columns of tasks; several are of programs that differ in their seed alone."""
    return perform_together(tasks, lambda task: perform_task(task, data))


if __name__ == "__main__":
    serve(perform_tasks)
