"""`softcard bench`: it compares this machine with recorded figures, or measures the user's own kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import typer

from softcard.cli.exits import UsageError
from softcard.cli.options import (
    Engine,
    EngineOption,
    JsonOption,
    ResultFormat,
    ResultFormatOption,
    SeedOption,
    Tier,
    TierOption,
    TimeLimitOption,
    complete_agents,
    complete_interfaces,
    is_json,
    time_limit_of,
)
from softcard.cli.progress import progress
from softcard.cli.running.bench_cases import BENCHES, INTERFACES, Bench, recorded
from softcard.cli.running.run import SEED, parsed, prepared
from softcard.cli.tables import show
from softcard.core.errors import SoftcardError, close_to
from softcard.image.arrow_schema import ArrowMissing

SECONDS: Final = 1.0
LEAST_LAUNCHES: Final = 3
AS_A_PROGRAM: Final = "import sys; from softcard.cli import main; sys.exit(main())"
NUMBERS: Final = frozenset({2, 3, 5, 6})
"""The indices of the table's columns that contain numbers."""


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help=f"{', '.join(INTERFACES)}; with --kernel, the name of the kernel.",
            autocompletion=complete_interfaces,
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
    agent: Annotated[str, typer.Option(metavar="NAME", help="As in `run`.", autocompletion=complete_agents)] = "",
    engine: EngineOption = Engine.JIT,
    tier: TierOption = Tier.AUTO,
    seed: SeedOption = SEED,
    seconds: Annotated[float, typer.Option(min=0, max=3600, help="Seconds to run each measurement.")] = SECONDS,
    time_limit: TimeLimitOption = None,
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
) -> None:
    """Measure how fast this machine is, or a kernel of your own.

    Without --kernel: measures a few kernels, commands and process starts of each
    interface, and checks each result. The figures are shown next to the results
    of the machine in docs/performance.md; "1.1x" is faster than that machine.

    With --kernel: the time of a whole `softcard run` with an empty cache on
    disk and with a filled one, then of many launches in one process. GB/s count
    the array arguments. "One by one" is the share of instructions that ran on
    the reference engine instead of translated code: if it is more than a few
    percent, it is the reason for a slow kernel.

      softcard bench hsa refsi

      softcard bench --kernel k.co saxpy --arg 2.5 --arg f32:1048576 --arg f32:1048576"""
    as_json = is_json(form, as_json)
    chosen = names or []
    if kernel is not None:
        if len(chosen) > 1:
            raise UsageError(f"expected one kernel, got {', '.join(chosen)}")
        values = {"--arg": arguments or [], "--grid": [grid], "--group": [group], "--agent": [agent]}
        values |= {"--engine": [engine.value], "--tier": [tier.value], "--seed": [str(seed)]}
        values |= {"--time-limit": ["" if time_limit is None else str(time_limit_of(time_limit))]}
        options = [word for name, texts in values.items() for text in texts if text for word in (name, text)]
        document = _kernel(kernel, chosen[0] if chosen else "", options, values, seconds)
        if as_json:
            print(json.dumps(document, indent=2))
        else:
            _show_kernel(document)
        return
    if arguments or grid or group or agent or time_limit is not None:
        raise UsageError("--arg, --grid, --group, --agent and --time-limit require --kernel FILE")
    for name in chosen:
        if name not in INTERFACES:
            raise UsageError(
                f"unknown interface {name!r}, expected one of {', '.join(INTERFACES)}; use --kernel FILE for your "
                f"own kernel{close_to(name, INTERFACES)}"
            )
    rows = list(_measured([each for each in BENCHES if not chosen or each.interface in chosen], seconds))
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
            with progress(each.name):
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


def _kernel(
    file: Path, name: str, options: list[str], values_of: dict[str, list[str]], seconds: float
) -> dict[str, Any]:
    """Measure the time to a kernel's first result, and the times of many launches; return the figures by name.

    `values_of` has the values of the command-line options by option, and `options` the same options as words."""
    from softcard.cli.running.kernel_files import Options, RawHeader

    if str(file) == "-":
        raise UsageError("bench reads the file several times: give a file instead of standard input")
    values = parsed(values_of["--arg"], int(values_of["--seed"][0]))
    how = Options(values_of["--agent"][0], values_of["--engine"][0], values_of["--tier"][0])
    if limit := values_of["--time-limit"][0]:
        how = replace(how, time_limit=float(limit))
    sizes = values_of["--grid"][0], values_of["--group"][0]
    found, name, (grid, group) = prepared(file, name, sizes, values, how, RawHeader())
    results: list[Any] = []
    with found.opened(how) as launch, progress(name):
        end = time.perf_counter() + seconds
        while len(results) < LEAST_LAUNCHES or time.perf_counter() < end:
            results.append(launch(name, grid, group, [_copy(each) for each in values]).result)
    best = min(results, key=lambda result: result.time)
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
    """Return a copy of an array, or the value itself; each launch needs the original values."""
    return value.copy() if hasattr(value, "dtype") and value.shape else value


def _first_results(file: Path, name: str, options: list[str]) -> list[float]:
    """Return the run times in seconds of two `softcard run` processes.

    The first one has an empty disk cache, the second one a filled cache.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="softcard-", ignore_cleanup_errors=True) as folder:
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
                raise SoftcardError(f"softcard run failed: {done.stderr.strip().removeprefix('error: ')}")
    return found


def _show_kernel(found: dict[str, Any]) -> None:
    share = found["interpreted"] / max(found["instructions"], 1)
    rows = [
        ("first result, empty cache", f"{found['first_cold_seconds']:.2f} s", "a whole `softcard run`"),
        ("first result, filled cache", f"{found['first_warm_seconds']:.2f} s", "a second `softcard run`"),
        ("launch, best", _time(found["best_seconds"]), f"of {found['launches']:,} launches in one process"),
        ("launch, median", _time(found["median_seconds"]), ""),
        (found["unit"], f"{found['rate'] / 1e6:,.1f} M/s", f"{found['instructions']:,} a launch"),
        ("arrays", f"{found['bandwidth'] / 1e9:,.2f} GB/s", f"{found['bytes']:,} bytes"),
        ("one by one", f"{share:.2%}", f"{found['interpreted']:,} instructions on the reference engine"),
    ]
    show((f"{found['kernel']} ({found['interface']}, {found['agent']}, {found['engine']})", "", ""), rows)


# ---- both ------------------------------------------------------------------------------------------------------------


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} us"


def _number(value: float) -> str:
    """Return a number as text, with three significant digits or with separators between thousands."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
