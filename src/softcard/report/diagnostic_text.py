"""Diagnostics as text, in the form of clang and rustc: the sentence, the position, the source line, and notes.

The lines are rich `Text`, so that a console prints them with colours on a terminal and plain elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from softcard.core.diagnostics import AnyFinding, Diagnostic, Location, Note, diagnostics_of, help_uri, of_error
from softcard.core.display import demangled, printable, shown_path
from softcard.core.errors import SoftcardError
from softcard.core.findings import Level

if TYPE_CHECKING:
    from rich.text import Text

STYLES: Final = {Level.ERROR: "bold red", Level.WARNING: "bold yellow", Level.NOTE: "bold cyan"}
KINDS: Final = {"note": "bold cyan", "help": "bold green", "rule": "bold cyan"}
GUTTER: Final = "bold blue"
TAB: Final = 4
"""The number of columns of a tab in excerpts."""
MOST_ROOM: Final = 200
"""The maximum number of columns of a source line, even where text is not wrapped."""
LEAST_ROOM: Final = 16
"""The minimum number of columns of text next to the gutter, however narrow the terminal is."""
ELLIPSIS: Final = "..."
BEFORE: Final = 3
"""The part of an excerpt's width that precedes the position, as a divisor, where a source line is cut."""
UNLIMITED: Final = 1 << 16
"""The width of text that is not wrapped."""


def render(found: Diagnostic, width: int = 0) -> list[Text]:
    """Return the lines of a diagnostic, wrapped between words at `width` columns; with 0 they are not wrapped."""
    return list(_Layout(found, width or UNLIMITED).lines())


def as_text(findings: Iterable[AnyFinding], width: int = 0) -> str:
    """Return findings as plain text, one diagnostic per pair of source positions, with empty lines between them."""
    return "\n\n".join("\n".join(line.plain for line in render(each, width)) for each in diagnostics_of(findings))


def diagnostic_text(*found: AnyFinding | SoftcardError, width: int = 100) -> str:
    """Return errors, findings and lints as text, as the command line prints them; with `width` 0 it is not wrapped."""
    return as_text((of_error(each) if isinstance(each, SoftcardError) else each for each in found), width)


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """A line of source or an instruction, with the characters from `start` to `end` underlined."""

    text: str
    start: int
    end: int
    number: int = 0


class _Layout:
    """The layout of one diagnostic at one width."""

    def __init__(self, found: Diagnostic, width: int) -> None:
        from rich.text import Text

        self._text = Text
        self.found = found
        self.width = width
        numbers = [each.line for each in (found.position, *(note.location for note in found.notes))]
        self.gutter = max(2, 1 + len(str(max(numbers))))
        self.notes = list(found.all_notes())

    def lines(self) -> Iterator[Text]:
        """Yield the lines."""
        found, position = self.found, self.found.position
        yield from self._head()
        excerpt = _excerpt(position)
        if not found.is_text_input and position:
            yield self._arrow(position)
        if excerpt is not None:
            yield from self._excerpt(excerpt, found.label, STYLES[found.level])
        plain = [each for each in self.notes if not each.location]
        about = _code(position) if position.line else []
        about = [Note(found.label), *about] if excerpt is None and found.label else about
        facts, advice = [each for each in plain if each.kind == "note"], [each for each in plain if each.kind != "note"]
        yield from self._attached([*about, *facts], is_first=excerpt is not None)
        located = [each for each in self.notes if each.location]
        for each in located:
            yield from self._located(each)
        yield from self._attached(advice, is_first=bool(located) or (excerpt is not None and not about and not facts))

    def _head(self) -> Iterator[Text]:
        """Yield the sentence; the id is a link to its documentation on terminals, if the address of that is known."""
        from rich.style import Style

        found = self.found
        head = self._text()
        if found.is_text_input:
            head.append(_clean(f"{replace(found.position, file=shown_path(found.position.file))}: "), "bold")
        known = found.level.value
        if found.check in ("not modelled", "bug in softcard"):
            head.append(f"{found.check}: ", STYLES[found.level])
        else:
            head.append(f"{known}[{_clean(found.id)}]: " if found.id else f"{known}: ", STYLES[found.level])
            if found.id and "://" in (uri := help_uri(found)):
                head.stylize(Style(link=uri), len(head) - len(_clean(found.id)) - len("]: "), len(head) - len("]: "))
        first, *more = found.message.split("\n")
        head.append(_clean(first), "bold")
        yield from self._wrapped(head, "", "  ")
        for line in more:
            yield self._text(_clean(line))

    def _arrow(self, position: Location) -> Text:
        """Return the line with the position; it is never broken, so that editors and terminals recognise it."""
        line = self._text(" " * (self.gutter - 1))
        line.append(" --> ", GUTTER)
        line.append(demangled(_clean(str(replace(position, file=shown_path(position.file))))))
        return line

    def _excerpt(self, excerpt: _Excerpt, label: str, style: str) -> Iterator[Text]:
        yield self._bar()
        label = _clean(label)
        room = min(MOST_ROOM, max(LEAST_ROOM, self.width - self.gutter - 3))
        text, start, end = _cut(excerpt, room)
        line = self._gutter(f"{excerpt.number or '':>{self.gutter}} | ")
        line.append(text)
        yield line
        if start == end:
            yield from self._labels(label, 0, room, style)
            return
        carets = self._gutter(" " * (self.gutter + 1) + "| ")
        carets.append(" " * start + "^" * (end - start), style)
        if label and end + 1 + len(label) <= room:
            carets.append(f" {label}", style)
            label = ""
        yield carets
        yield from self._labels(label, min(start, room // 4), room, style)

    def _labels(self, label: str, indent: int, room: int, style: str) -> Iterator[Text]:
        if label:
            prefix = self._gutter(" " * (self.gutter + 1) + "| ")
            for line in self._fold(self._text(label, style), room - indent):
                yield self._text.assemble(prefix, " " * indent, line)

    def _attached(self, notes: Iterable[Note], is_first: bool) -> Iterator[Text]:
        """Yield notes without a position of their own; an empty bar separates them from an excerpt."""
        for each in notes:
            if is_first:
                yield self._bar()
                is_first = False
            head = self._text()
            head.append(f"{each.kind}: ", KINDS[each.kind])
            head.append(demangled(_clean(each.text)))
            start = self._gutter(" " * (self.gutter + 1) + "= ")
            yield from self._wrapped(head, start, " " * (self.gutter + 3 + len(each.kind) + 2))

    def _located(self, note: Note) -> Iterator[Text]:
        head = self._text()
        head.append(f"{note.kind}: ", KINDS[note.kind])
        head.append(_clean(note.text))
        yield from self._wrapped(head, "", " " * (len(note.kind) + 2))
        yield self._arrow(note.location)
        excerpt = _excerpt(note.location)
        about = _code(note.location) if note.location.line else []
        if excerpt is not None:
            yield from self._excerpt(excerpt, note.label, KINDS[note.kind])
        elif note.label:
            about = [Note(note.label), *about]
        yield from self._attached(about, is_first=excerpt is not None)

    def _gutter(self, text: str) -> Text:
        """Return the beginning of a line; what is appended to it has styles of its own."""
        return self._text.assemble((text, GUTTER))

    def _bar(self) -> Text:
        return self._gutter(" " * (self.gutter + 1) + "|")

    def _wrapped(self, text: Text, first: Text | str, others: str) -> Iterator[Text]:
        """Yield the lines of `text`: the first one after `first`, the others after `others`."""
        begin = self._text(first) if isinstance(first, str) else first
        indent = others if self.width - len(others) >= LEAST_ROOM else others[: max(0, self.width - LEAST_ROOM)]
        lines = self._fold(text, self.width - len(begin), self.width - len(indent))
        for number, line in enumerate(lines):
            yield self._text.assemble(indent if number else begin, line)

    def _fold(self, text: Text, first: int, others: int = 0) -> Iterator[Text]:
        for start, end in _folds(text.plain, first, others or first):
            yield text[start:end]


def fold(text: str, first: int, others: int) -> list[str]:
    """Return `text` in lines of at most `first`, then `others` columns; words are broken only if no line holds them."""
    return [text[start:end] for start, end in _folds(text, first, others)]


def _folds(plain: str, first: int, others: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line of a text that is folded as `fold` describes."""
    width, start, end, at = max(1, first), 0, 0, 0
    while start < len(plain):
        end, at = start, start
        while at < len(plain):
            after = _end_of_word(plain, at)
            if cells(plain[start:after]) > width:
                break
            end, at = after, after
        if end == start:  # a word that no line holds
            end = start + _fitting(plain[start:], width)
        yield start, end
        start = end
        while start < len(plain) and plain[start] == " ":
            start += 1
        width = max(1, others)


def _end_of_word(text: str, at: int) -> int:
    """Return the end of the word that follows the spaces at `at`."""
    while at < len(text) and text[at] == " ":
        at += 1
    while at < len(text) and text[at] != " ":
        at += 1
    return at


def cells(text: str) -> int:
    """Return the number of columns of text on a terminal."""
    from rich.cells import cell_len

    return cell_len(text)


def _fitting(text: str, width: int) -> int:
    """Return the number of characters at the start of `text` that `width` columns hold, at least 1."""
    used = 0
    for number, each in enumerate(text):
        used += cells(each)
        if used > width:
            return max(1, number)
    return len(text)


def _clean(text: str) -> str:
    """Return text as one printable line."""
    return printable(text).replace("\t", " " * TAB).replace("\n", " ")


def _code(position: Location) -> list[Note]:
    """Return a note about the instruction at a position in the source, with its text unless the source line has it."""
    if position.pc is None and not position.code:
        return []
    is_shown = " ".join(position.insn.split()) in " ".join(position.source_line().split())
    where = position.code or f"pc {position.pc:#x}"
    pc = f" (pc {position.pc:#x})" if position.code and position.pc is not None else ""
    return [Note(f"in {where}{pc}" + ("" if is_shown else f": {position.insn}"))]


def _excerpt(position: Location) -> _Excerpt | None:
    """Return the source line at a position, or the instruction if there is no source; None without both."""
    line = position.source_line().rstrip("\r")
    if line.strip():
        start, end = position.span()
        shown = _clean(line)
        begin = len(_clean(line[:start]))
        return _Excerpt(shown, begin, begin + max(end > start, len(_clean(line[start:end]))), position.line)
    if position.file and position.line and position.text.strip():  # the text input cannot be read again
        return _Excerpt(_clean(position.text), 0, 0, position.line)
    if position.insn and not position.file:
        text = _clean(position.insn)
        return _Excerpt(text, 0, len(text.split(" ", 1)[0]))
    return None


def _cut(excerpt: _Excerpt, room: int) -> tuple[str, int, int]:
    """Return the part of a line that `room` columns hold, around the underlined characters, and these in it."""
    text, start, end = excerpt.text.rstrip(), excerpt.start, excerpt.end
    if len(text) <= room:
        return text, start, end
    begin = max(0, min(start - room // BEFORE, len(text) - room)) if start > room // 2 else 0
    part = text[begin : begin + room]
    if begin:
        part = ELLIPSIS + part[len(ELLIPSIS) :]
    if begin + room < len(text):
        part = part[: -len(ELLIPSIS)] + ELLIPSIS
    return part, start - begin, min(end - begin, room)
