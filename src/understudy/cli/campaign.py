"""`understudy campaign`: a matrix of runs, on this machine's processors or any cluster of Dask."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.exits import ExitCode, UsageError
from understudy.cli.files import writing

if TYPE_CHECKING:
    from understudy.campaign.cluster import Progress
    from understudy.campaign.plan import Plan

FILE = "campaign.toml"
"""The campaign's file, in its output as well."""


def campaign(
    file: Annotated[Path, typer.Argument(help="The campaign: TOML, see above.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where results go, and are continued.")
    ] = None,
    scheduler: Annotated[
        str, typer.Option(metavar="tcp://HOST:PORT", help="Dask's scheduler; by default one on this machine.")
    ] = "",
    workers: Annotated[int, typer.Option(min=0, help="Of this machine; 0: one for each processor.")] = 0,
    only: Annotated[
        str, typer.Option(metavar="ID", help="Run one task here, without Dask, and show what comes of it.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="What came of it as JSON.")] = False,
) -> None:
    """Run a matrix of programs, compilers and seeds, on many machines.

    All combinations that a file asks for are run, and what comes of each is kept.
    The file says in tables matrix which programs (files, or generate:NAME), kernels,
    inputs (of tables inputs.NAME), agents, compilers, options, engines, checks and seeds.
    The same command once more goes on where it was stopped, whatever stopped it.

    Tasks that fail, hang or end their process are outcomes. Exit status 1 where
    there are such.

      understudy campaign nightly.toml --output nightly

      understudy campaign nightly.toml --only 3f2a1b0c9d8e7f60
    """
    from understudy.campaign.errors import CampaignError
    from understudy.campaign.plan import read_plan

    try:
        plan = read_plan(file)
        if only:
            status = _only(plan, only, as_json)
        elif output is None:
            raise UsageError("--output is missing: the folder where results go")
        else:
            status = _all(plan, output, scheduler, workers or os.cpu_count() or 1, as_json)
    except CampaignError as error:
        usage = UsageError(error.message, path=error.path)
        raise usage from None
    raise typer.Exit(status)


def _only(plan: Plan, id_: str, as_json: bool) -> ExitCode:
    """One task, in this process."""
    import json
    import time

    from understudy.campaign.worker import REFUSED, row_of
    from understudy.cli.campaign_task import perform_task

    task = next((each for each in plan.tasks() if each.id == id_), None)
    if task is None:
        raise UsageError(f"no task {id_!r} in {plan.path}")
    data = b"" if task.generator else plan.data(task.program)
    row = row_of(task, time.time_ns() // 1_000_000) | perform_task(task, data)
    if row["outcome"] == REFUSED:
        raise UsageError(row["message"]).at("line", f"{plan.path}:{task.line}")
    if as_json:
        print(json.dumps(row, indent=2))
    else:
        print(f"{task.id}: {task}")
        message = f": {row['message']}" if row["message"] else ""
        print(f"{row['outcome']}, {row['instructions']:,} instructions, digest {row['digest'] or 'none'}{message}")
    return ExitCode.OK if row["outcome"] == "ok" else ExitCode.GUEST


def _all(plan: Plan, output: Path, scheduler: str, workers: int, as_json: bool) -> ExitCode:
    import json

    from understudy.campaign import cluster
    from understudy.campaign.dataset import Dataset
    from understudy.cli.campaign_task import COMMAND

    dataset = Dataset(output)
    with writing(output / FILE):
        (output / FILE).write_text(plan.text, "utf-8")
    with cluster.connected(scheduler, workers) as client, _Shown(plan) as shown:
        progress = cluster.run(plan, dataset, client, (sys.executable, *COMMAND), told=shown.tell)
    counts = progress.outcomes
    if as_json:
        document = {"campaign": plan.name, "tasks": progress.total, "resumed": progress.resumed, "outcomes": counts}
        print(json.dumps(document, indent=2))
    else:
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        before = f" ({progress.resumed} of them before)" if progress.resumed else ""
        print(f"{plan.name}: {progress.done} tasks{before}: {listed or 'none'}")
    return ExitCode.OK if set(counts) <= {"ok"} else ExitCode.GUEST


class _Shown:
    """A bar with counts on standard error: one that moves on a terminal, lines elsewhere."""

    def __init__(self, plan: Plan) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._plan = plan
        self._console = Console(stderr=True)
        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        columns += [TimeRemainingColumn(), TextColumn("{task.fields[counts]}")]
        self._bars = Bars(*columns, console=self._console)
        self._bar = self._bars.add_task(plan.name, total=len(plan), counts="")
        self._linked = False
        self._tenths = 0

    def __enter__(self) -> _Shown:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def tell(self, progress: Progress) -> None:
        """Show how far it is."""
        if progress.dashboard and not self._linked:
            self._console.print(f"dashboard: {progress.dashboard}", highlight=False)
        self._linked = True
        counts = " ".join(f"{name} {count}" for name, count in progress.outcomes.items())
        text = f"{counts} on {progress.workers} workers"
        self._bars.update(self._bar, completed=progress.done, counts=text)
        tenths = 10 * progress.done // max(1, progress.total)
        if not self._console.is_terminal and (tenths > self._tenths or progress.done == progress.resumed):
            self._tenths = tenths
            self._console.print(f"{progress.done} of {progress.total} tasks: {text}", highlight=False)
