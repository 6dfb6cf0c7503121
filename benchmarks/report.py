"""Rewrite the table in docs/performance.md from results/latest.json. The same file gives the same text.

Likewise the figures that `understudy bench` and `doctor` compare with, which lie in the package.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from harness import HEADINGS, ROOT, Row
from misses import reason
from run import RESULTS

PAGE: Final = ROOT / "docs" / "performance.md"
SHIPPED: Final = ROOT / "src" / "understudy" / "data" / "bench.json"
BEGIN: Final = "<!-- results start: written by benchmarks/report.py -->"
END: Final = "<!-- results stop -->"
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
    "shipped": "What `understudy bench` measures",
}


def report(found: dict[str, Any]) -> str:
    """Machine, date, command and one table per question, in Markdown."""
    parts = ["\n".join([machine_lines(found), *map(later_line, found.get("later", []))])]
    rows = [Row(**row) for row in found["rows"]]
    if any(row.met is False for row in rows):
        parts.append(missed(rows))
    for question, group in groupby(rows, key=lambda row: row.question):
        parts.append(f"### {TITLES.get(question, question)} (`benchmarks/{question}.py`)")
        parts.append(table(list(group)))
    return "\n\n".join(parts)


def missed(rows: list[Row]) -> str:
    """All rows that miss their target, those of one reason together."""
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
    return "### Targets that are missed, and why\n\n" + lines[0] + "\n\n" + "\n".join(lines[1:])


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


def fill(page: str, text: str) -> str:
    """`page` with `text` between the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} must hold the lines {BEGIN} and {END}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def shipped(found: dict[str, Any]) -> str:
    """The best of what `understudy bench` measures, as the package has it."""
    facts = found["machine"]
    best = {row["what"]: float(f"{row['best']:.4g}") for row in found["rows"] if row["question"] == "shipped"}
    document = {"machine": f"{facts['cpu']}, {facts['cores']} cores", "date": found["date"], "best": best}
    return json.dumps(document, indent=2) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Rewrite the table of docs/performance.md.")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the page is out of date")
    options = parser.parse_args()
    old = options.page.read_text(encoding="utf-8")
    found = json.loads(options.results.read_text(encoding="utf-8"))
    new = fill(old, report(found))
    if options.check:
        raise SystemExit(old != new)
    options.page.write_text(new, encoding="utf-8")
    print(f"wrote {options.page}")
    if any(row["question"] == "shipped" for row in found["rows"]):
        SHIPPED.write_text(shipped(found), encoding="utf-8")
        print(f"wrote {SHIPPED}")


if __name__ == "__main__":
    main()
