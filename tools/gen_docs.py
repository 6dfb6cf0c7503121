"""Rewrite the generated sections of the pages of docs/; with --check, list those that are out of date (exit status 1).

A section's name selects its content. For an interface whose package is `softcard.device.NAME` (others: `ELSEWHERE`):

    rules NAME           the table of its rules, from its rules.toml
    choices NAME         the table of its choices, from its choices.toml
    registers NAME MAP   the register map MAP of its registers.py
    choices host NAME    the table of choices of `softcard.host.NAME`, from its choices.toml

and for an instruction set whose package is `softcard.isa.NAME`:

    choices NAME         the table of its choices, from its choices.toml
    slots NAME           opcode slots by encoding and processor
    fidelity NAME        operations by fidelity and processor
    matrices NAME        the source of the arithmetic of matrix instructions, by processor
    hazards NAME         hazards that software must wait for, from its hazards.toml
    opcodes NAME FAMILY  every operation of a family

and for the package's public names:

    api NAME             the reference of what `softcard` exports as NAME

and for the last run of all benchmarks (benchmarks/results/latest.json):

    benchmarks NAME      a section of benchmarks/report.py: headlines, misses, checks or machine

and of the pages themselves:

    design               the list of design records in docs/design

Source distributions have no benchmarks: pages with such a section stay as they are there.
"""

# ruff: noqa: T201  # a command-line tool prints

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import softcard
from softcard.core.errors import SoftcardError
from softcard.core.rule import load_choices, load_rules
from softcard.report import gcn
from softcard.report.api import reference
from softcard.report.markdown import SectionError, fill_sections, section_names, table
from softcard.report.registers import to_markdown
from softcard.report.rules import choice_table, rule_table

INSTRUCTION_SETS = ("gcn",)
ELSEWHERE = {"gcn": "isa.gcn", "vector": "isa.riscv.vector"}
"""Packages of rules and choices that do not belong to a device."""
COVERAGE = {"slots": False, "fidelity": False, "matrices": False, "hazards": False, "opcodes": True}
"""Kinds of section about an instruction set: True if the name has an item."""
ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"


def generate(name: str, tests_dir: Path) -> str:
    """Return the text of the section `name`; `SectionError` if nothing has that name."""
    kind, _, rest = name.partition(" ")
    interface, _, item = rest.partition(" ")
    package = f"softcard.{ELSEWHERE.get(interface, f'device.{interface}')}"
    try:
        if kind == "rules" and interface and not item:
            return rule_table(load_rules(package).values(), tests_dir)
        if kind == "choices" and interface == "host" and item:
            return choice_table(load_choices(f"softcard.host.{item}").values())
        if kind == "choices" and interface and not item:
            return choice_table(load_choices(package).values())
        if interface in INSTRUCTION_SETS and COVERAGE.get(kind) == bool(item):
            return _coverage(kind, item, tests_dir)
        if kind == "api" and interface in softcard.__all__ and not item:
            return reference(interface, getattr(softcard, interface))
        if name == "design":
            return _design()
        if kind == "benchmarks" and interface and not item:
            return _benchmarks(interface)
        if kind == "registers" and item:
            return to_markdown(getattr(import_module(f"softcard.device.{interface}.registers"), item), level=3)
    except (ModuleNotFoundError, FileNotFoundError, AttributeError, KeyError) as error:
        raise SectionError(f"section {name}: {error}") from error
    raise SectionError(
        f"section {name} must be one of: rules NAME, choices NAME, choices host NAME, registers NAME MAP, slots NAME, "
        "fidelity NAME, matrices NAME, hazards NAME, opcodes NAME FAMILY, api NAME, benchmarks NAME, design"
    )


def fresh(page: Path, tests_dir: Path) -> str:
    """Return the text that `page` should hold."""
    text = page.read_text(encoding="utf-8")
    names = section_names(text)
    if not BENCHMARKS.is_dir() and any(name.startswith("benchmarks ") for name in names):
        return text
    return fill_sections(text, {name: generate(name, tests_dir) for name in names})


def main(arguments: list[str] | None = None) -> int:
    """Run the tool. Return the exit status: 0, 1 with --check if a page is out of date, 2 for a broken page."""
    parser = argparse.ArgumentParser(description="Rewrite the generated sections of the pages of docs/.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the pages")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="folder of the tests that prove the rules")
    options = parser.parse_args(arguments)
    stale = 0
    for page in sorted(options.docs.rglob("*.md")):
        try:
            text = fresh(page, options.tests)
        except SoftcardError as error:
            print(f"{page.name}: {error}", file=sys.stderr)
            return 2
        if text == page.read_text(encoding="utf-8"):
            continue
        stale += 1
        if options.check:
            print(f"{page.name} is out of date: run make docs", file=sys.stderr)
        else:
            page.write_text(text, encoding="utf-8", newline="\n")
            print(f"{page.name} written")
    return 1 if options.check and stale else 0


def _benchmarks(name: str) -> str:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module("report").section(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


def _design() -> str:
    rows = []
    for page in sorted((ROOT / "docs" / "design").glob("[0-9]*.md")):
        title, _, status = page.read_text(encoding="utf-8").splitlines()[:3]
        rows.append((page.name[:3], f"[{title.removeprefix('# ')}]({page.name})", status.removeprefix("Status: ")))
    return table(("number", "decision", "status"), rows)


def _coverage(kind: str, family: str, tests_dir: Path) -> str:
    if kind == "slots":
        return gcn.slot_table()
    if kind == "fidelity":
        return gcn.fidelity_table()
    if kind == "matrices":
        return gcn.matrix_table()
    if kind == "hazards":
        return gcn.hazard_table()
    if family not in gcn.FAMILIES:
        raise SectionError(f"family {family} must be one of {', '.join(gcn.FAMILIES)}")
    return gcn.opcode_table(family, tests_dir)


if __name__ == "__main__":
    sys.exit(main())
