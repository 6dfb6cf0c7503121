"""`softcard campaign`, `compare` and `triage`.

They run a test matrix, compare two campaigns, and group failures.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softcard.cli.exits import ExitCode, UsageError, as_usage
from softcard.cli.files import check_folder, write_file, writing
from softcard.cli.options import JsonOption, ResultFormat, ResultFormatOption, is_json
from softcard.cli.progress import progress, tracked
from softcard.core.display import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from softcard.campaign.cluster import Progress
    from softcard.campaign.plan import Plan
    from softcard.campaign.task import Row


FILE = "campaign.toml"
"""The name under which a copy of the campaign file is stored in the campaign's output folder."""


def campaign(
    file: Annotated[Path, typer.Argument(help="The description of the campaign, in TOML (format: see above).")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder for the results; a campaign that was interrupted resumes from it.",
        ),
    ] = None,
    scheduler: Annotated[
        str,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Address of Dask's scheduler; by default one is started on this machine."
        ),
    ] = "",
    workers: Annotated[
        int, typer.Option(min=0, help="Number of workers on this machine; 0 for one per processor.")
    ] = 0,
    only: Annotated[
        str, typer.Option(metavar="ID", help="Run only this task, in this process, and print its result.")
    ] = "",
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
) -> None:
    """Run a matrix of programs, compilers and seeds, on many machines.

    All combinations in a file are run, and their outcomes are stored. Tables
    [[matrix]] name programs (files, or generate:NAME), kernels, inputs (tables
    [inputs.NAME]), agents, compilers, options, engines, checks and seeds. The
    same command again resumes a campaign that was stopped.

    A task may fail, hang or end its process: these are outcomes. Exit status 1
    if there are such tasks.

      softcard campaign nightly.toml --output nightly

      softcard campaign nightly.toml --only 3f2a1b0c9d8e7f60
    """
    from softcard.campaign.plan import read_plan
    from softcard.campaign.task import CampaignError

    as_json = is_json(form, as_json)
    try:
        plan = read_plan(file)
        if only:
            status = _only(plan, only, as_json)
        elif output is None:
            raise UsageError("--output is missing: give the folder for the results")
        else:
            check_folder(output)
            status = _all(plan, output, scheduler, workers or os.cpu_count() or 1, as_json)
    except CampaignError as error:
        raise as_usage(error) from None
    raise typer.Exit(status)


def _only(plan: Plan, id_: str, as_json: bool) -> ExitCode:
    """Run the task with the identifier `id_` in this process, and print its result."""
    import json
    import time

    from softcard.campaign.worker import REFUSED, row_of
    from softcard.cli.running.campaign_task import perform_task

    task = next((each for each in plan.tasks() if each.id == id_), None)
    if task is None:
        raise UsageError(f"{plan.path} has no task {id_!r}")
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

    from softcard.campaign import cluster
    from softcard.campaign.dataset import Dataset
    from softcard.cli.running.campaign_task import COMMAND

    dataset = Dataset(output)
    with writing(output / FILE):
        (output / FILE).write_text(plan.text, "utf-8")
    with _ended_in_order(), cluster.connected(scheduler, workers) as client, _shown_progress(plan) as show:
        ended = cluster.run(plan, dataset, client, (sys.executable, *COMMAND), on_progress=show)
    counts = ended.outcomes
    if as_json:
        document = {"campaign": plan.name, "tasks": ended.total, "resumed": ended.resumed, "outcomes": counts}
        print(json.dumps(document, indent=2))
    else:
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        before = f" ({ended.resumed} of them before)" if ended.resumed else ""
        print(f"{plan.name}: {ended.done} tasks{before}: {listed or 'none'}")
    return ExitCode.OK if set(counts) <= {"ok"} else ExitCode.GUEST


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that workers are stopped and their files deleted."""

    def end(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # a second signal would interrupt the cleanup
        raise SystemExit(128 + number)

    ends = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in ends}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _shown_progress(plan: Plan) -> Iterator[Callable[[Progress], None]]:
    """Provide the function that shows the progress of a campaign on a terminal, and the address of its dashboard."""
    is_begun = False

    def show(now: Progress) -> None:
        nonlocal is_begun
        if not is_begun:
            is_begun = True
            bar.begin(now.resumed)
            if now.dashboard:
                bar.print(f"dashboard: {now.dashboard}")
        counts = " ".join(f"{name} {count}" for name, count in now.outcomes.items())
        bar.update(now.done, f"{counts} on {now.workers} workers".lstrip())

    with progress(plan.name, len(plan), "tasks") as bar:
        yield show


# ---- compare ---------------------------------------------------------------------------------------------------------


def compare(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output of a campaign.")],
    one: Annotated[
        str,
        typer.Argument(
            metavar="OTHER", help="The output of a later campaign; or NAME=VALUE, to compare tasks of one campaign."
        ),
    ],
    other: Annotated[str, typer.Argument(metavar="[NAME=VALUE]", help="The NAME=VALUE to be compared with it.")] = "",
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the differences as JUnit XML.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the differences as an HTML page.")] = None,
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
) -> None:
    """Compare two campaigns, or two columns of one.

    Lists new failures, fixed failures, changed digests, and tasks whose time changed
    by a factor of 1.5 or more. A column is a setting of a task, NAME=VALUE; a comma
    joins several conditions: compiler=clang-16,options=-O0. Exit status 1 if a task
    newly fails or gives another result.

      softcard compare yesterday today --junit new.xml

      softcard compare nightly engine=reference engine=jit
    """
    from softcard.campaign import compare as output
    from softcard.campaign.compare import compare as campaigns
    from softcard.campaign.compare import compare_columns
    from softcard.campaign.task import CampaignError, column

    as_json = is_json(form, as_json)
    try:
        if other:
            found = compare_columns(_rows(folder), one, other)
        else:
            found = campaigns(_rows(folder), _rows(Path(one)), (str(folder), one))
    except CampaignError as error:
        raise as_usage(error) from None
    for path, made in ((junit, output.as_junit), (html, output.as_html)):
        if path is not None:
            write_file(path, made(found))
    if as_json:
        differences: list[dict[str, str | int]] = [
            {
                "kind": str(each.kind),
                "id": each.row["id"],
                "what": each.description(),
                **{name: column(each.row, name) for name in found.keys},
            }
            for each in found.differences
        ]
        counts = {str(kind): count for kind, count in found.counts().items()}
        print(json.dumps({"common": found.common, "counts": counts, "differences": differences}, indent=2))
    else:
        print(output.as_text(found))
    raise typer.Exit(ExitCode.GUEST if found.is_worse else ExitCode.OK)


def _rows(folder: Path) -> list[Row]:
    from softcard.campaign.dataset import FOLDER, Dataset

    if not os.path.isdir(folder / FOLDER):
        raise UsageError(f"{folder} has no folder {FOLDER}, expected the output of a campaign")
    return Dataset(folder).rows()


# ---- triage ----------------------------------------------------------------------------------------------------------

TRIAGE_FOLDER = "triage"
MOST_SHOWN = 5


def triage(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output of a campaign.")],
    reduce: Annotated[
        bool, typer.Option("--reduce", help="Reduce one program of each group to a smaller one that still fails.")
    ] = False,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="Show only groups whose signature contains this text.")
    ] = "",
    passes: Annotated[
        bool, typer.Option("--passes", help="Find the compiler pass, or the instruction, that makes results differ.")
    ] = False,
    tries: Annotated[int, typer.Option(min=1, help="Maximum number of runs to reduce one program.")] = 400,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Time limit of one such run, in seconds.")] = 20.0,
) -> None:
    """Group the failures of a campaign, and reduce their programs.

    The failures of a group have the same signature: the outcome with its message,
    or, for different results, the compilers and engines that differ. --reduce
    writes the smallest failing program of each group to DIR/triage, with a
    campaign that reproduces the failure by the printed command. --passes groups
    different results by the compiler pass that causes them, with the first
    instruction that it changes, or, if the two engines differ, by the first
    instruction about which they differ. Exit status 1 if there are failures.

      softcard triage nightly --reduce --only clang-16
    """
    from softcard.campaign.dataset import FOLDER as RESULTS
    from softcard.campaign.dataset import Dataset
    from softcard.campaign.task import CampaignError
    from softcard.campaign.triage import groups

    if not os.path.isdir(folder / RESULTS):
        raise UsageError(f"{folder} has no folder {RESULTS}, expected the output of a campaign")
    try:
        found = [group for group in groups(Dataset(folder).rows()) if only in group.signature]
        for number, group in enumerate(found, 1):
            print(f"{number}. {group.signature}: {count(len(group.failures), 'run')} of {_programs(group)}")
            for failure in group.failures[:MOST_SHOWN]:
                print(f"   softcard campaign {folder / 'campaign.toml'} --only {failure.row['id']}")
            if reduce:
                _reduce(folder / TRIAGE_FOLDER / f"{number}-{_short(group.signature)}", group, tries, time_limit)
        if passes:
            _print_passes([each for group in found for each in group.failures], time_limit)
    except CampaignError as error:
        raise as_usage(error) from None
    if not found:
        print("nothing failed")
    raise typer.Exit(ExitCode.GUEST if found else ExitCode.OK)


def _short(signature: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", signature).strip("-")[:60]


def _programs(of: Any) -> str:
    """Return the number of programs in the group `of` as text, such as "1 program" or "3 programs"."""
    return _count(of.seeds)


def _count(seeds: Sequence[int] | set[int]) -> str:
    return f"{len(seeds)} program{'s' * (len(seeds) != 1)}"


@contextmanager
def _performer() -> Iterator[Any]:
    """Provide a function that runs a task in a child process, since a task may hang or end its process."""
    from softcard.campaign.worker import GRACE_S, Child, run_alone
    from softcard.cli.running.campaign_task import COMMAND

    child = Child((sys.executable, *COMMAND))
    try:
        yield lambda task, data: run_alone(task, data, child, GRACE_S)
    finally:
        child.close()


def _print_passes(failures: Sequence[Any], time_limit: float) -> None:
    """Print the causes of failures in which results differ.

    The cause is a compiler pass, or, if the two engines differ, the first instruction about which they differ.
    `time_limit` is the limit of one run in seconds."""
    from softcard.campaign.bisection import blamed, divergence, grouped, is_blamed
    from softcard.campaign.task import CampaignError

    known, refused = [], []
    ours: dict[str, list[Any]] = {}
    chosen = list(filter(is_blamed, failures))
    with _performer() as perform:
        for failure in tracked(chosen, "passes", len(chosen), "failures"):
            try:
                found = divergence(failure, perform, time_limit)
                if found is not None:
                    ours.setdefault(found.name, []).append(found)
                else:
                    known.append((failure, blamed(failure, perform, time_limit)))
            except CampaignError as error:
                refused.append(error.message)
    for name, each in sorted(ours.items()):
        seeds = {found.row["seed"] for found in each}
        print(f"jit and reference differ in {name}: {_count(seeds)}")
        for found in each[:MOST_SHOWN]:
            print(f"   seed {found.row['seed']}, {found}")
    for blame in grouped(known):
        print(f"{blame.signature}: {_programs(blame)} {', '.join(blame.makers)}".rstrip())
        for failure, changes in blame.changes[:MOST_SHOWN]:
            for change in changes:
                print(f"   seed {failure.row['seed']}, {change}")
    for text in refused:
        print(f"unknown: {text}")


def _reduce(folder: Path, group: Any, tries: int, time_limit: float) -> None:
    """Reduce a failing program of `group`, and write it to `folder`."""
    from softcard.campaign.reproduce import reduce_failure, write
    from softcard.campaign.task import CampaignError

    runs = 0

    def counting(task: Any, data: bytes) -> Any:
        nonlocal runs
        runs += 1
        return perform(task, data)

    try:
        with _performer() as perform, progress("reducing", state=lambda: count(runs, "run")):
            program = reduce_failure(group.failures[0], counting, time_limit, tries)
        file = write(folder, group, program, time_limit)
    except CampaignError as error:
        print(f"   not reduced: {error}")
        return
    print(f"   reduced to {program.size()} parts: softcard campaign {file} --output {folder / 'output'}")
