"""`understudy compare`: what is different between two campaigns, or two columns of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.exits import ExitCode, UsageError
from understudy.cli.files import writing


def compare(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output of a campaign.")],
    one: Annotated[str, typer.Argument(metavar="OTHER", help="That of a later one; or a column, NAME=VALUE.")],
    other: Annotated[str, typer.Argument(metavar="[NAME=VALUE]", help="The column to be compared with it.")] = "",
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Counts and differences as JSON.")] = False,
) -> None:
    """Say what is different between two campaigns, or two columns of one.

    New failures, fixed ones, changed digests, and what takes 1.5 times as long or
    as short. Several columns at once: compiler=clang-16,options=-O0. Exit status 1
    where something fails, or gives another result, that did not before.

      understudy compare yesterday today --junit new.xml

      understudy compare nightly engine=reference engine=jit
    """
    from understudy.campaign import compare_output as output
    from understudy.campaign.compare import compare as campaigns
    from understudy.campaign.compare import compare_columns
    from understudy.campaign.errors import CampaignError

    try:
        if other:
            found = compare_columns(_rows(folder), one, other)
        else:
            found = campaigns(_rows(folder), _rows(Path(one)), (str(folder), one))
    except CampaignError as error:
        raise UsageError(error.message) from None
    for path, made in ((junit, output.as_junit), (html, output.as_html)):
        if path is not None:
            with writing(path):
                path.write_text(made(found), "utf-8")
    if as_json:
        differences = [
            {"kind": str(each.kind), "id": each.row["id"], "what": each.told()}
            | {name: each.row[name] for name in found.keys}
            for each in found.differences
        ]
        counts = {str(kind): count for kind, count in found.counts().items()}
        print(json.dumps({"common": found.common, "counts": counts, "differences": differences}, indent=2))
    else:
        print(output.as_text(found))
    raise typer.Exit(ExitCode.GUEST if found.is_worse else ExitCode.OK)


def _rows(folder: Path) -> list[dict[str, object]]:
    from understudy.campaign.dataset import FOLDER, Dataset

    if not (folder / FOLDER).is_dir():
        raise UsageError(f"{folder} is no campaign's output: it has no {FOLDER}")
    return Dataset(folder).rows()
