"""`understudy bench`: how fast this machine is, beside recorded figures, and how fast a kernel of the user's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from understudy.cli import completion
from understudy.cli.bench_cases import BENCHES, INTERFACES, Bench, recorded
from understudy.cli.engines import Engine, EngineOption, Tier, TierOption
from understudy.cli.exits import UsageError
from understudy.cli.run import SEED, parsed, prepared
from understudy.cli.tables import show
from understudy.core.errors import UnderstudyError
from understudy.image.arrow_schema import ArrowMissing

SECONDS: Final = 1.0
LEAST_LAUNCHES: Final = 3
AS_A_PROGRAM: Final = "import sys; from understudy.cli import main; sys.exit(main())"
NUMBERS: Final = frozenset({2, 3, 5, 6})
"""Columns of the table that hold numbers."""


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help=f"{', '.join(INTERFACES)}; with --kernel, the kernel's name.",
            autocompletion=completion.interfaces,
        ),
    ] = None,
    kernel: Annotated[
        Path | None, typer.Option("--kernel", metavar="FILE", help="Measure a kernel of this file, as `run` runs it.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Option("--arg", metavar="VALUE", help="An argument of the kernel, as in `run`.")
    ] = None,
    grid: Annotated[str, typer.Option(metavar="SIZE", help="As in `run`.")] = "",
    group: Annotated[str, typer.Option(metavar="SIZE", help="As in `run`.")] = "",
    agent: Annotated[str, typer.Option(metavar="NAME", help="As in `run`.", autocompletion=completion.agents)] = "",
    engine: EngineOption = Engine.JIT,
    tier: TierOption = Tier.AUTO,
    seed: Annotated[int, typer.Option(min=0, help="Of random arrays.")] = SEED,
    seconds: Annotated[float, typer.Option(min=0, max=3600, help="How long to measure each thing.")] = SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """Measure how fast this machine is, or a kernel of your own.

    Without --kernel: a few kernels, commands and starts of each interface, each
    result checked, beside what the machine of docs/performance.md reached
    ("1.1x": faster than that).

    With --kernel: the time of a whole `understudy run` with nothing kept on
    disk and with code kept, then launch after launch in one process. GB/s are
    of the arrays that it is given. "One by one" is the share of instructions
    that translated code left to the reference engine: if it is more than a few
    percent, that is why a kernel is slow.

      understudy bench hsa refsi

      understudy bench --kernel k.co saxpy --arg 2.5 --arg f32:1048576 --arg f32:1048576
    """
    given = names or []
    if kernel is not None:
        if len(given) > 1:
            raise UsageError(f"one kernel at a time, not {', '.join(given)}")
        values = {"--arg": arguments or [], "--grid": [grid], "--group": [group], "--agent": [agent]}
        values |= {"--engine": [engine.value], "--tier": [tier.value], "--seed": [str(seed)]}
        options = [word for name, texts in values.items() for text in texts if text for word in (name, text)]
        document = _kernel(kernel, given[0] if given else "", options, values, seconds)
        if as_json:
            print(json.dumps(document, indent=2))
        else:
            _show_kernel(document)
        return
    if arguments or grid or group or agent:
        raise UsageError("--arg, --grid, --group and --agent are for --kernel FILE")
    for name in given:
        if name not in INTERFACES:
            raise UsageError(f"no measurements of {name!r}: there are {', '.join(INTERFACES)}; --kernel FILE for yours")
    rows = list(_measured([each for each in BENCHES if not given or each.interface in given], seconds))
    if as_json:
        known = recorded()
        print(json.dumps({"recorded_on": known["machine"], "recorded": known["date"], "rows": rows}, indent=2))
    else:
        _show(rows)


# ---- this machine ----------------------------------------------------------------------------------------------------


def _measured(benches: list[Bench], seconds: float) -> Iterator[dict[str, Any]]:
    best = recorded()["best"]
    for each in benches:
        row = {"interface": each.interface, "what": each.what, "unit": each.unit}
        try:
            with _telling(each.name):
                speed = each.measure(seconds)
        except ArrowMissing as error:
            yield row | {"skipped": str(error)}
            continue
        before = best.get(each.name)
        ratio = None if before is None else before / speed.best if each.is_time else speed.best / before
        yield row | {"best": speed.best, "median": speed.median, "recorded": before, "ratio": ratio}


def _show(rows: list[dict[str, Any]]) -> None:
    known = recorded()
    cells = []
    for row in rows:
        if "skipped" in row:
            cells.append((row["interface"], row["what"], "", "", "", "", row["skipped"]))
            continue
        before = "" if row["recorded"] is None else _number(row["recorded"])
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}x"
        numbers = _number(row["best"]), _number(row["median"])
        cells.append((row["interface"], row["what"], *numbers, row["unit"], before, ratio))
    show(("interface", "what", "best", "median", "unit", "recorded", ""), cells, NUMBERS)
    print(f"\nrecorded: {known['machine']}, {known['date']}")


# ---- a kernel --------------------------------------------------------------------------------------------------------


def _kernel(file: Path, name: str, options: list[str], given: dict[str, list[str]], seconds: float) -> dict[str, Any]:
    """How long the first result takes, and a launch of many."""
    from understudy.cli.kernel_files import Options, RawHeader

    if str(file) == "-":
        raise UsageError("the file is read several times: name one, not standard input")
    values = parsed(given["--arg"], int(given["--seed"][0]))
    how = Options(given["--agent"][0], given["--engine"][0], given["--tier"][0])
    sizes = given["--grid"][0], given["--group"][0]
    found, name, (grid, group) = prepared(file, name, sizes, values, how, RawHeader())
    results: list[Any] = []
    with found.opened(how) as launch, _telling(name):
        end = time.perf_counter() + seconds
        while len(results) < LEAST_LAUNCHES or time.perf_counter() < end:
            results.append(launch(name, grid, group, [_copy(each) for each in values]).took)
    best = min(results, key=lambda took: took.time)
    cold, warm = _first_results(file, name, options)
    return {
        "kernel": name,
        "interface": found.interface,
        "agent": found.agent,
        "engine": how.engine,
        "unit": found.unit,
        "first_cold_seconds": cold,
        "first_warm_seconds": warm,
        "launches": len(results),
        "best_seconds": best.time,
        "median_seconds": median(each.time for each in results),
        "instructions": best.instructions,
        "rate": best.rate,
        "bytes": best.bytes,
        "bandwidth": best.bandwidth,
        "interpreted": best.interpreted,
    }


def _copy(value: Any) -> Any:
    """Arrays as they were given, whatever the launch before has left in them."""
    return value.copy() if hasattr(value, "dtype") and value.shape else value


def _first_results(file: Path, name: str, options: list[str]) -> list[float]:
    """Seconds of a whole `understudy run`, with nothing kept on disk, and then with what that has kept."""
    found = []
    with tempfile.TemporaryDirectory(prefix="understudy-", ignore_cleanup_errors=True) as folder:
        for _ in range(2):
            command = [sys.executable, "-c", AS_A_PROGRAM, "run", *options, "--", str(file), name]
            start = time.perf_counter()
            done = subprocess.run(
                command,
                env=os.environ | {"XDG_CACHE_HOME": folder},
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            found.append(time.perf_counter() - start)
            if done.returncode:
                raise UnderstudyError(f"understudy run failed: {done.stderr.strip().removeprefix('error: ')}")
    return found


def _show_kernel(found: dict[str, Any]) -> None:
    share = found["interpreted"] / max(found["instructions"], 1)
    rows = [
        ("first result, nothing kept", f"{found['first_cold_seconds']:.2f} s", "a whole `understudy run`"),
        ("first result, code kept", f"{found['first_warm_seconds']:.2f} s", "the same once more"),
        ("launch, best", _time(found["best_seconds"]), f"of {found['launches']:,}, in one process"),
        ("launch, median", _time(found["median_seconds"]), ""),
        (found["unit"], f"{found['rate'] / 1e6:,.1f} M/s", f"{found['instructions']:,} a launch"),
        ("arrays", f"{found['bandwidth'] / 1e9:,.2f} GB/s", f"{found['bytes']:,} bytes"),
        ("one by one", f"{share:.2%}", f"{found['interpreted']:,} instructions on the reference engine"),
    ]
    show((f"{found['kernel']} ({found['interface']}, {found['agent']}, {found['engine']})", "", ""), rows)


# ---- both ------------------------------------------------------------------------------------------------------------


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Somebody who looks at a terminal sees what is being measured."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        yield


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} us"


def _number(value: float) -> str:
    """Three digits that count, thousands apart."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
