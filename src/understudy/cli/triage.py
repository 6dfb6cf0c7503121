"""`understudy triage`: failures of a campaign that are the same, together, and made small."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.exits import ExitCode, UsageError

FOLDER = "triage"
SHOWN = 5


def triage(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output of a campaign.")],
    reduce: Annotated[bool, typer.Option("--reduce", help="Make a program of each group small.")] = False,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Groups whose signature has this in it.")] = "",
    passes: Annotated[
        bool, typer.Option("--passes", help="Find the pass, or instruction, that changes a result.")
    ] = False,
    tries: Annotated[int, typer.Option(min=1, help="Most runs to make a program small.")] = 400,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds of one run of these.")] = 20.0,
) -> None:
    """Put failures of a campaign together where they are the same, and make them small.

    Groups have one signature: the outcome and what it says; where programs have
    another result than most runs of theirs, who differs. With --reduce a program
    of each group is made as small as it still fails, into DIR/triage, beside a
    campaign that shows it by the command that is printed. With --passes programs
    that do not do the same everywhere are put together by the pass of the compiler
    that makes the difference, with the first instruction that is another one then;
    where the two engines give one code two results, by the first instruction that
    they do not agree about.
    Exit status 1 where there are failures.

      understudy triage nightly --reduce --only clang-16
    """
    from understudy.campaign.dataset import FOLDER as RESULTS
    from understudy.campaign.dataset import Dataset
    from understudy.campaign.errors import CampaignError
    from understudy.campaign.triage import groups

    if not (folder / RESULTS).is_dir():
        raise UsageError(f"{folder} is no campaign's output: it has no {RESULTS}")
    try:
        found = [group for group in groups(Dataset(folder).rows()) if only in group.signature]
        for number, group in enumerate(found, 1):
            print(f"{number}. {group.signature}: {len(group.failures)} runs of {_programs(group)}")
            for failure in group.failures[:SHOWN]:
                print(f"   understudy campaign {folder / 'campaign.toml'} --only {failure.row['id']}")
            if reduce:
                _reduce(folder / FOLDER / f"{number}-{_short(group.signature)}", group, tries, time_limit)
        if passes:
            _blame([each for group in found for each in group.failures], time_limit)
    except CampaignError as error:
        raise UsageError(error.message, path=error.path) from None
    if not found:
        print("nothing failed")
    raise typer.Exit(ExitCode.GUEST if found else ExitCode.OK)


def _short(signature: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", signature).strip("-")[:60]


def _programs(of: Any) -> str:
    """How many programs a group is of."""
    return _count(of.seeds)


def _count(seeds: Sequence[int] | set[int]) -> str:
    return f"{len(seeds)} program{'s' * (len(seeds) != 1)}"


@contextmanager
def _performer() -> Iterator[Any]:
    """What runs a task in a child, since what is run may hang or end its process."""
    from understudy.campaign.child import GRACE_S, Child
    from understudy.campaign.worker import run_alone
    from understudy.cli.campaign_task import COMMAND

    child = Child((sys.executable, *COMMAND))
    try:
        yield lambda task, data: run_alone(task, data, child, GRACE_S)
    finally:
        child.close()


def _blame(failures: Sequence[Any], time_limit: float) -> None:
    """Say which passes change results."""
    from rich.console import Console
    from rich.progress import Progress

    from understudy.campaign.divergence import divergence
    from understudy.campaign.errors import CampaignError
    from understudy.campaign.passes import blamed, is_blamed, together

    known, refused = [], []
    ours: dict[str, list[Any]] = {}
    console = Console(stderr=True)
    with _performer() as perform, Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        for failure in bar.track(list(filter(is_blamed, failures)), description="passes"):
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
        print(f"jit and reference do not agree about {name}: {_count(seeds)}")
        for found in each[:SHOWN]:
            print(f"   seed {found.row['seed']}, {found}")
    for blame in together(known):
        print(f"{blame.signature}: {_programs(blame)} {', '.join(blame.makers)}".rstrip())
        for failure, changes in blame.changes[:SHOWN]:
            for change in changes:
                print(f"   seed {failure.row['seed']}, {change}")
    for text in refused:
        print(f"not known: {text}")


def _reduce(folder: Path, group: Any, tries: int, time_limit: float) -> None:
    """Make it small."""
    from understudy.campaign.errors import CampaignError
    from understudy.campaign.reproduce import reduce_failure, write

    try:
        with _performer() as perform:
            program = reduce_failure(group.failures[0], perform, time_limit, tries)
        file = write(folder, group, program, time_limit)
    except CampaignError as error:
        print(f"   not reduced: {error}")
        return
    print(f"   reduced to {program.size()} parts: understudy campaign {file} --output {folder / 'output'}")
