"""Markdown of what the benchmarks found (results/latest.json), which `make docs` puts into the pages of docs/.

Run as a script, it writes the figures that `softcard bench` and `doctor` compare with, which lie in the package.
"""

from __future__ import annotations

import argparse
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness import HEADINGS, ROOT, Row, number
from misses import reason
from run import RESULTS

SHIPPED: Final = ROOT / "src" / "softcard" / "data" / "bench.json"
TITLES: Final = {
    "rv64_engine": "RV64 machine code, one core",
    "rv64_vectors": "RV64 vector code, VLEN 512, one core",
    "rv64_extensions": "RV64 code of further extensions, one core",
    "refsi_kernels": "RefSi kernels through command buffers",
    "refsi_commands": "RefSi commands and small buffers",
    "refsi_driver": "RefSi: unmodified host programs",
    "start": "Start of new processes",
    "shell_start": "Start of whole programs, as the shell sees them",
    "hsa_queue": "AMD HSA: packets through a queue",
    "hsa_start": "Start of new processes that run an HSA kernel",
    "scaling": "Four harts on two threads",
    "acceldev": "Acceldev: user commands and registers",
    "vfio_user": "Acceldev over vfio-user: a register's round trip",
    "gcn": "GCN machine code",
    "gcn_limits": "GCN kernels and the limit of one core",
    "gcn_left": "GCN: what leaves translated code, and instructions that seldom occur",
    "gcn_checks": "GCN: what checks of values and of races cost, over our own unchecked run",
    "refsi_checks": "RefSi: what checks cost, over our own unchecked run",
    "campaign": "Campaigns: bookkeeping, two workers, and programs a second",
    "library_load": "AMD HSA: loading and listing a library",
    "amdcl2_load": "AMD OpenCL 2.0: loading a program",
    "fletcher_map": "Fletcher: register maps",
    "fletcher_sum": "Fletcher: kernels",
    "fletcher_mmio": "Fletcher: a register's round trip",
    "shipped": "What `softcard bench` measures",
    "checks": "What the checks memory, sync and init cost, and Oclgrind",
    "rocm": "Unmodified HIP programs",
}
HEADLINES: Final = (
    ("RV64: Collatz loop, one core", "rv64_engine", "integer loop (collatz)", "qemu-riscv64"),
    ("RV64: matrix product 128, binary32, one core", "rv64_engine", "f32 matmul 128", "qemu-riscv64"),
    ("RV64 vectors: saxpy of 1 Mi floats, VLEN 512", "rv64_vectors", "saxpy, 1 Mi floats", "qemu-riscv64"),
    ("RefSi: matrix product 128, binary32, one thread", "refsi_kernels", "matmul f32 128, 1 thread", ""),
    ("RefSi: unmodified host, matrix product 512", "refsi_driver", "matmul f32 512, profile refsidrv", ""),
    ("RefSi: 100,000 mixed small commands", "refsi_commands", "100,000 mixed small commands", ""),
    ("gfx900: matrix product 256 in LDS, two threads", "gcn", "gfx900 LDS-tiled matmul 256: all of it", ""),
    ("gfx900: vector add, two threads", "gcn", "gfx900 vector add: all of it", ""),
    ("gfx900: polynomial, one thread", "gcn_limits", "gfx900 polynomial", "C, one core"),
    ("gfx900: reduction, one thread", "gcn_limits", "gfx900 reduction", "C, one core"),
    ("gfx900: empty dispatch with its signal", "hsa_queue", "gfx900: empty dispatch with completion signal", ""),
    ("gfx900: saxpy with the check `memory`", "checks", "saxpy with the check of memory", ""),
    ("HIP: vector sum of 1 Mi, whole program, first run", "rocm", "vector sum of 1 Mi, whole program, first run", ""),
    ("Acceldev: FILL of 4 MiB", "acceldev", "FILL 4 MiB, consecutive pages, one word repeated", ""),
    ("Fletcher: sum of 100,000,000 rows", "fletcher_sum", "sum of 100,000,000, synchronous", ""),
    ("first HSA program, nothing cached", "shell_start", "README's HSA program, nothing on disk", ""),
)
"""The rows for a reader who decides whether to use Softcard: label, question, row, and peer if the row has several."""


class Cost(NamedTuple):
    """One line of the table of checks: the device, what executes kernels under the check, and the rows of its cost."""

    check: str
    device: str
    engine: str
    question: str = ""
    rows: str = ""


GPU: Final = "AMD GPUs"
COSTS: Final = (
    Cost("`memory`", GPU, "JIT", "checks", r"gfx.*check=memory"),
    Cost("`memory`", "RefSi", "JIT", "checks", r"RefSi .*check=memory"),
    Cost("`races`", GPU, "JIT; acquires and racing stores: reference", "gcn_checks", r".*: races"),
    Cost("`races`", "RefSi", "JIT, one thread", "refsi_checks", r".*check=races"),
    Cost("`races,lanes`", GPU, "as `races`; conflicts of lanes: reference", "gcn_checks", r".*: races, lanes"),
    Cost("`init`", GPU, "JIT", "gcn_checks", r".*: init"),
    Cost("`init`", "RefSi", "JIT; vector instructions: reference", "checks", r"RefSi .*check=init"),
    Cost("`fidelity`", GPU, "JIT", "gcn_checks", r".*: fidelity"),
    Cost("`waits`", GPU, "JIT; some work-groups of suspect kernels: reference"),
    Cost("`waits`", "RefSi, profile spec", "JIT, one thread", "refsi_checks", r".*check=waits"),
    Cost("`waits`", "RefSi, profile refsidrv", "reference"),
    Cost("`sync`", GPU, "JIT", "checks", r"gfx.*check=sync"),
    Cost("`init,fidelity`", GPU, "JIT", "gcn_checks", r".*: init, fidelity"),
    Cost("`init,fidelity,races`", GPU, "as `races`", "gcn_checks", r".*: init, fidelity, races"),
    Cost("`waits,init,races`", "RefSi, profile spec", "as `init`", "refsi_checks", r".*check=waits,init,races"),
)


def report(found: dict[str, Any]) -> str:
    """Return machine, date, command and one table per question, in Markdown."""
    parts = [measured(found)]
    rows = rows_of(found)
    for question, group in groupby(rows, key=lambda row: row.question):
        parts.append(f"## {TITLES.get(question, question)} (`benchmarks/{question}.py`)")
        parts.append(table(list(group)))
    return "\n\n".join(parts)


def rows_of(found: dict[str, Any]) -> list[Row]:
    """Return the rows of a run."""
    return [Row(**row) for row in found["rows"]]


def measured(found: dict[str, Any]) -> str:
    """Return the machine, the software and the date of a run, and of what was measured later."""
    return "\n".join([machine_lines(found), *map(later_line, found.get("later", []))])


def headlines(rows: list[Row]) -> str:
    """Return the table of `HEADLINES`; `ValueError` if a row is not among `rows`, or is there more than once."""
    lines = ["| what | Softcard | peer | Softcard is |", "|---|---:|---:|---:|"]
    for label, question, what, peer in HEADLINES:
        [row] = [each for each in rows if (each.question, each.what) == (question, what) and peer in each.peer_name]
        _, _, best, _, other, ratio, _ = row.cells()
        lines.append(f"| {label} | {best} | {other} | {ratio and ratio + ' as fast'} |")
    return "\n".join(lines)


def check_costs(rows: list[Row]) -> str:
    """Return the table of checks: what executes kernels, and how many times as long they take as without the check."""
    lines = ["| check | device | executed by | time, of that without | kernels |", "|---|---|---|---:|---:|"]
    for cost in COSTS:
        found = [r.best for r in rows if r.question == cost.question and re.fullmatch(cost.rows, r.what)]
        times = f"{number(min(found))} to {number(max(found))}x" if found else "not measured"
        lines.append(f"| {cost.check} | {cost.device} | {cost.engine} | {times} | {len(found) or ''} |")
    return "\n".join(lines)


def missed(rows: list[Row]) -> str:
    """Return all rows that miss their target, grouped by reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.met is False:
            what, target, best, _, peer, ratio, _ = row.cells()
            reached = f"{ratio} of {peer}" if ratio and not row.absolute else best
            found.setdefault(reason(row.question, row.what), []).append(f"  - {what}: {reached}, target {target}")
    count = sum(map(len, found.values()))
    lines = [f"{count} of {sum(row.met is not None for row in rows)} rows with a target miss it:"]
    for why, misses in found.items():
        lines += [f"- {why}", *misses]
    return lines[0] + "\n\n" + "\n".join(lines[1:])


SECTIONS: Final = {
    "headlines": lambda found: headlines(rows_of(found)),
    "misses": lambda found: missed(rows_of(found)),
    "checks": lambda found: check_costs(rows_of(found)),
    "machine": measured,
}
"""The sections ``benchmarks NAME`` of pages: a function of what a run found."""


def section(name: str) -> str:
    """Return the section ``benchmarks NAME`` of the last run; `KeyError` for an unknown name."""
    return SECTIONS[name](json.loads(RESULTS.read_text(encoding="utf-8")))


def tables() -> str:
    """Return all tables of the last run."""
    return report(json.loads(RESULTS.read_text(encoding="utf-8")))


def machine_lines(found: dict[str, Any]) -> str:
    """On what, when and how."""
    facts = found["machine"]
    software = ", ".join(
        text
        for text in (
            f"Python {facts['python']}",
            f"NumPy {facts['numpy']}",
            f"llvmlite {facts['llvmlite']}",
            facts["qemu"],
            facts["compiler"],
        )
        if text
    )
    return "\n".join(
        (
            f"- machine: {facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}",
            f"- software: {software}",
            f"- {found['date']}, `{found['command']}`: {found['seconds']} s, with a load average of "
            f"{facts['load_before']} when it began",
        )
    )


def later_line(found: dict[str, Any]) -> str:
    """Which tables were measured another time, when and on what."""
    names, facts = ", ".join(f"`{name}`" for name in found["questions"]), found["machine"]
    return (
        f"- but {names}: {facts['cpu']}, {facts['cores']} cores, {found['date']}, `{found['command']}`: "
        f"{found['seconds']} s, with a load average of {facts['load_before']} when it began"
    )


def table(rows: list[Row]) -> str:
    """One Markdown table, and the rows' notes below it."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|---|---|---:|---:|---|---:|---|"]
    for row in rows:
        cells = list(row.cells())
        if row.met is False:
            cells[-1] = "**no**"
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"{row.what}: {row.note}." for row in rows if row.note]
    return "\n".join(lines) + "".join(f"\n\n{note}" for note in notes)


def shipped(found: dict[str, Any]) -> str:
    """The best of what `softcard bench` measures, as the package has it."""
    facts = found["machine"]
    best = {row["what"]: float(f"{row['best']:.4g}") for row in found["rows"] if row["question"] == "shipped"}
    document = {"machine": f"{facts['cpu']}, {facts['cores']} cores", "date": found["date"], "best": best}
    return json.dumps(document, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the figures that `softcard bench` compares with.")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = json.loads(options.results.read_text(encoding="utf-8"))
    if any(row["question"] == "shipped" for row in found["rows"]):
        SHIPPED.write_text(shipped(found), encoding="utf-8")
        print(f"wrote {SHIPPED}")


if __name__ == "__main__":
    main()
