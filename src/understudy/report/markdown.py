"""Markdown: tables, and the generated sections of hand-written documents.

A section stands between the lines ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; a name may hold spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from understudy.core.errors import UnderstudyError


def cell(text: str) -> str:
    """`text` as it may stand in a cell: one line, with ``|`` escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without a line end; cells must have gone through `cell` where they hold free text."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class SectionError(UnderstudyError):
    """A generated section of a document that has no end, or an end without a beginning."""


def fill_sections(text: str, content: Mapping[str, str]) -> str:
    """`text` with what stands in each section replaced by ``content[NAME]``.

    `SectionError` with the line where the marks do not pair up or name nothing in `content`.
    """
    lines: list[str] = []
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        verb, name = _mark(line)
        if verb == "end" and name != inside:
            raise SectionError(f"section {name} must begin before it ends").at("line", number)
        if verb == "begin" and inside:
            raise SectionError(f"section {inside} must end before {name} begins").at("line", number)
        if verb == "begin" and name not in content:
            raise SectionError(f"section {name} must be one that can be generated").at("line", number)
        if verb == "end":
            inside = ""
        if not inside:
            lines.append(line)
        if verb == "begin":
            inside = name
            lines += ["", content[name].rstrip("\n"), ""]
    if inside:
        raise SectionError(f"section {inside} must end")
    return "\n".join(lines) + "\n"


def section_names(text: str) -> tuple[str, ...]:
    """The names of the generated sections of a document, in order."""
    marks = map(_mark, text.splitlines())
    return tuple(name for verb, name in marks if verb == "begin")


def _mark(line: str) -> tuple[str, str]:
    if not (line.startswith("<!-- ") and line.endswith(" -->")):
        return "", ""
    verb, _, name = line.removeprefix("<!-- ").removesuffix(" -->").partition(" ")
    return (verb, name) if verb in ("begin", "end") else ("", "")
