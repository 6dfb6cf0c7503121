"""Writer of Markdown: tables, and the generated sections of hand-written documents.

A generated section lies between the lines ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; a name may contain spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from softcard.core.errors import SoftcardError


def cell(text: str) -> str:
    """Return `text` as the content of a table cell: one line, with ``|`` escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, without a final line end; free text in cells must be escaped by `cell`."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class SectionError(SoftcardError):
    """The error for a generated section whose begin and end lines do not match."""


def fill_sections(text: str, content: Mapping[str, str]) -> str:
    """Return `text` with the content of each generated section replaced by ``content[NAME]``.

    `SectionError`, with the line number, is raised if a begin or end line has no counterpart, or if the NAME of a
    section is not in `content`."""
    lines: list[str] = []
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        verb, name = _delimiter(line)
        if verb == "end" and name != inside:
            raise SectionError(f"section {name} must begin before it ends").at("line", number)
        if verb == "begin" and inside:
            raise SectionError(f"section {inside} must end before {name} begins").at("line", number)
        if verb == "begin" and name not in content:
            raise SectionError(f"section {name} is unknown: there is no generated text for it").at("line", number)
        if verb == "end":
            inside = ""
        if not inside:
            lines.append(line)
        if verb == "begin":
            inside = name
            lines += ["", content[name].rstrip("\n"), ""]
    if inside:
        raise SectionError(f"section {inside} has no end marker")
    return "\n".join(lines) + "\n"


def section_names(text: str) -> tuple[str, ...]:
    """Return the names of the generated sections of a document, in order."""
    return tuple(name for verb, name in map(_delimiter, text.splitlines()) if verb == "begin")


def _delimiter(line: str) -> tuple[str, str]:
    if not (line.startswith("<!-- ") and line.endswith(" -->")):
        return "", ""
    verb, _, name = line.removeprefix("<!-- ").removesuffix(" -->").partition(" ")
    return (verb, name) if verb in ("begin", "end") else ("", "")
