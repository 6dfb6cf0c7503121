"""Rewrite the generated sections of the pages of docs/, or with --check tell which are out of date (exit status 1).

Sections are named by what fills them, for an interface whose package is `understudy.device.NAME` (others: `ELSEWHERE`):

    rules NAME           the table of its rules, from its rules.toml
    choices NAME         the table of its choices, from its choices.toml
    registers NAME MAP   the register map MAP of its registers.py
    choices host NAME    the table of choices of `understudy.host.NAME`, from its choices.toml

and for an instruction set whose package is `understudy.isa.NAME`:

    choices NAME         the table of its choices, from its choices.toml
    slots NAME           opcode slots by encoding and processor
    fidelity NAME        operations by fidelity and processor
    hazards NAME         what software must wait for, from its hazards.toml
    opcodes NAME FAMILY  every operation of a family

and for the package's public names:

    api NAME             the reference of what `understudy` exports as NAME
"""

# ruff: noqa: T201  # a command-line tool prints

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

import understudy
from understudy.core.errors import UnderstudyError
from understudy.core.rule import load_choices, load_rules
from understudy.report import gcn
from understudy.report.api import reference
from understudy.report.markdown import SectionError, fill_sections, section_names
from understudy.report.registers import to_markdown
from understudy.report.rules import choice_table, rule_table

INSTRUCTION_SETS = ("gcn",)
ELSEWHERE = {"gcn": "isa.gcn", "vector": "isa.riscv.vector"}
"""Packages of rules and choices that are no device's."""
COVERAGE = {"slots": False, "fidelity": False, "hazards": False, "opcodes": True}
"""Kinds of section about an instruction set, and whether they name an item."""
ROOT = Path(__file__).resolve().parent.parent


def generate(name: str, tests_dir: Path) -> str:
    """The text of the section `name`; `SectionError` where there is nothing of that name."""
    kind, _, rest = name.partition(" ")
    interface, _, item = rest.partition(" ")
    package = f"understudy.{ELSEWHERE.get(interface, f'device.{interface}')}"
    try:
        if kind == "rules" and interface and not item:
            return rule_table(load_rules(package).values(), tests_dir)
        if kind == "choices" and interface == "host" and item:
            return choice_table(load_choices(f"understudy.host.{item}").values())
        if kind == "choices" and interface and not item:
            return choice_table(load_choices(package).values())
        if interface in INSTRUCTION_SETS and COVERAGE.get(kind) == bool(item):
            return _coverage(kind, item, tests_dir)
        if kind == "api" and interface in understudy.__all__ and not item:
            return reference(interface, getattr(understudy, interface))
        if kind == "registers" and item:
            return to_markdown(getattr(import_module(f"understudy.device.{interface}.registers"), item), level=3)
    except (ModuleNotFoundError, FileNotFoundError, AttributeError) as error:
        raise SectionError(f"section {name}: {error}") from error
    raise SectionError(
        f"section {name} must be one of: rules NAME, choices NAME, choices host NAME, registers NAME MAP, slots NAME, "
        "fidelity NAME, hazards NAME, opcodes NAME FAMILY, api NAME"
    )


def fresh(page: Path, tests_dir: Path) -> str:
    """What `page` should hold."""
    text = page.read_text(encoding="utf-8")
    return fill_sections(text, {name: generate(name, tests_dir) for name in section_names(text)})


def main(arguments: list[str] | None = None) -> int:
    """Run; the result is the exit status: 0, 1 with --check where something is out of date, 2 for a broken page."""
    parser = argparse.ArgumentParser(description="Rewrite the generated sections of the pages of docs/.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the pages")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests", help="folder of the tests that prove the rules")
    options = parser.parse_args(arguments)
    stale = 0
    for page in sorted(options.docs.rglob("*.md")):
        try:
            text = fresh(page, options.tests)
        except UnderstudyError as error:
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


def _coverage(kind: str, family: str, tests_dir: Path) -> str:
    if kind == "slots":
        return gcn.slot_table()
    if kind == "fidelity":
        return gcn.fidelity_table()
    if kind == "hazards":
        return gcn.hazard_table()
    if family not in gcn.FAMILIES:
        raise SectionError(f"family {family} must be one of {', '.join(gcn.FAMILIES)}")
    return gcn.opcode_table(family, tests_dir)


if __name__ == "__main__":
    sys.exit(main())
