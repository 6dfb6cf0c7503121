"""A reader of the YAML in V2 metadata: block and flow mappings and sequences, plain, quoted and block scalars.

Lists and maps in brackets may take several lines, as may text after ``|`` and ``>``. Anchors, tags, plain and quoted
scalars of several lines, and several documents do not occur in V2 metadata; they are rejected or read as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from softcard.core.errors import WireError

MAX_DEPTH: Final = 16
_KEY: Final = re.compile(r"""('(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^\s\[\]{},'"#][^:]*?)\s*:(?:\s+|$)""")
_FLOW: Final = re.compile(r"""\s*('(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[\[\]{},]|:(?=\s)|(?:[^\[\]{},:]|:(?!\s))+)""")
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_BLOCK: Final = re.compile(r"([|>])([-+]?)([1-9]?)([-+]?)")
_FOLDED: Final = re.compile(r"(?<=[^\n])\n(\n*)(?=[^\n ])")
_TOKEN: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[\[\]{},]|\s+|[^\s\[\]{},]+""")
_INTEGER: Final = re.compile(r"[-+]?(0x[0-9a-fA-F]+|[0-9]+)")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def parse(text: str) -> Any:
    """Return a YAML document as dicts, lists, strings, integers and booleans.

    Raise `WireError` with the line of an error.
    """
    lines, source = [], []
    for number, raw in enumerate(text.split("\n"), 1):
        if raw.rstrip() == "...":
            break
        if raw.startswith("---"):
            raw = "   " + raw[3:]
        source.append(raw)
        body = _without_comment(raw.strip())
        if body:
            lines.append(_Line(number, _indent(raw), body))
    reader = _Blocks(lines, source)
    value = reader.block(-1, 0) if lines else None
    if reader.at < len(lines):
        raise _wrong("a line has the wrong indentation", lines[reader.at])
    return value


class _Blocks:
    """A parser of YAML in block style. `lines` are the non-empty lines without comments, `source` all lines."""

    def __init__(self, lines: list[_Line], source: list[str]) -> None:
        self.lines = lines
        self.source = source
        self.at = 0

    def block(self, outside: int, depth: int) -> Any:
        """Return the value that starts in the current line and is indented by more than `outside` columns."""
        line = self.lines[self.at]
        if depth > MAX_DEPTH:
            raise _wrong(f"the text nests more than {MAX_DEPTH} levels", line)
        if line.indent <= outside:
            return None
        if line.text == "-" or line.text.startswith("- "):
            return self.sequence(line.indent, depth)
        if _KEY.match(line.text):
            return self.mapping(line.indent, depth)
        self.at += 1
        return self.inline(line, line.text, outside)

    def sequence(self, indent: int, depth: int) -> list[Any]:
        items: list[Any] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.indent != indent or not (line.text == "-" or line.text.startswith("- ")):
                break
            rest = line.text[1:].lstrip(" ")
            if rest:
                # The text after the dash begins a block at its own column.
                self.lines[self.at] = _Line(line.number, indent + len(line.text) - len(rest), rest)
                items.append(self.block(indent, depth + 1))
            else:
                self.at += 1
                items.append(self.block(indent, depth + 1) if self.at < len(self.lines) else None)
        return items

    def mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.at < len(self.lines) and self.lines[self.at].indent == indent:
            line = self.lines[self.at]
            match = _KEY.match(line.text)
            if match is None:
                raise _wrong("expected a key and a colon", line)
            rest = line.text[match.end() :].strip()
            self.at += 1
            found[str(_scalar(match.group(1)))] = self.inline(line, rest, indent) if rest else self.under(indent, depth)
        return found

    def under(self, indent: int, depth: int) -> Any:
        """Return the value of a key if the value starts in a line after the key; None at the end of the document.

        The key is indented by `indent` columns. A sequence as its value may have the same indentation."""
        if self.at >= len(self.lines):
            return None
        line = self.lines[self.at]
        if line.indent == indent and line.text.startswith("- "):
            return self.sequence(indent, depth + 1)
        return self.block(indent, depth + 1)

    def inline(self, line: _Line, text: str, outside: int) -> Any:
        """Return the value that begins with `text` in `line`, after a key or a dash.

        It may continue in lines that are indented by more than `outside` columns.
        """
        block = _BLOCK.fullmatch(text)
        if block is not None:
            return self.text_block(line, outside, block)
        if text[0] not in "[{":
            return _scalar(text)
        parts, depth = [text], _nesting(text)
        while depth > 0 and self.at < len(self.lines):
            more = self.lines[self.at]
            if more.indent <= outside and more.text[0] not in "]}":
                break
            parts.append(more.text)
            depth += _nesting(more.text)
            self.at += 1
        return _brackets(line, " ".join(parts))

    def text_block(self, line: _Line, outside: int, style: re.Match[str]) -> str:
        """Return a block scalar; the style ``|`` keeps line ends, and ``>`` replaces them by spaces."""
        last = line.number
        while last < len(self.source) and (not self.source[last].strip() or _indent(self.source[last]) > outside):
            last += 1
        found = self.source[line.number : last]
        while self.at < len(self.lines) and self.lines[self.at].number <= last:
            self.at += 1
        width = next((_indent(raw) for raw in found if raw.strip()), 0)
        if style.group(3):
            width = max(outside, 0) + int(style.group(3))
        text = "\n".join(raw[width:].rstrip("\r") for raw in found)
        body = text.rstrip("\n")
        if style.group(1) == ">":
            body = _FOLDED.sub(lambda match: match.group(1) or " ", body)
        ends = {"-": "", "+": text[len(text.rstrip("\n")) :] + "\n"}
        return body + ends.get(style.group(2) or style.group(4), "\n" if body else "")


def _indent(raw: str) -> int:
    return len(raw) - len(raw.lstrip(" "))


def _without_comment(text: str) -> str:
    """Return a line without its comment, which starts at a # at the beginning of a word and outside of quotes."""
    for match in _TOKEN.finditer(text):
        start = match.start()
        if text[start] == "#" and (not start or text[start - 1].isspace()):
            return text[:start].rstrip()
    return text


def _nesting(text: str) -> int:
    """Return the number of opening brackets minus the number of closing brackets."""
    tokens = [match.group(1).strip() for match in _FLOW.finditer(text)]
    return sum(token in ("[", "{") for token in tokens) - sum(token in ("]", "}") for token in tokens)


def _brackets(line: _Line, text: str) -> Any:
    """Return the list or map in brackets that begins with `text`; it may continue in the next lines."""
    tokens = [match.group(1).strip() for match in _FLOW.finditer(text)]
    tokens = [token for token in tokens if token]
    value, rest = _flow(line, tokens, 0, 0)
    if rest != len(tokens):
        raise _wrong("text follows the end of a list or map", line)
    return value


def _flow(line: _Line, tokens: list[str], at: int, depth: int) -> tuple[Any, int]:
    if at >= len(tokens) or depth > MAX_DEPTH:
        raise _wrong("a list or map has no closing bracket", line)
    if tokens[at] == "[":
        items = []
        at += 1
        while at < len(tokens) and tokens[at] != "]":
            value, at = _flow(line, tokens, at, depth + 1)
            items.append(value)
            at = _separator(line, tokens, at, "]")
        return items, _end(line, tokens, at)
    if tokens[at] == "{":
        found = {}
        at += 1
        while at < len(tokens) and tokens[at] != "}":
            if tokens[at + 1 : at + 2] != [":"]:
                raise _wrong("expected a key and a colon", line)
            value, end = _flow(line, tokens, at + 2, depth + 1)
            found[str(_scalar(tokens[at]))] = value
            at = _separator(line, tokens, end, "}")
        return found, _end(line, tokens, at)
    if tokens[at] in "]},:":
        raise _wrong(f"expected a value before {tokens[at]}", line)
    return _scalar(tokens[at]), at + 1


def _separator(line: _Line, tokens: list[str], at: int, close: str) -> int:
    if tokens[at : at + 1] == [","]:
        return at + 1
    if tokens[at : at + 1] == [close]:
        return at
    raise _wrong(f"expected , or {close}", line)


def _end(line: _Line, tokens: list[str], at: int) -> int:
    if at >= len(tokens):
        raise _wrong("a list or map has no closing bracket", line)
    return at + 1


def _scalar(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(_escaped, text[1:-1])
    if _INTEGER.fullmatch(text) and len(text) <= 20:
        return int(text, 0) if "x" in text else int(text)
    return {"true": True, "false": False, "null": None, "~": None}.get(text, text)


def _escaped(match: re.Match[str]) -> str:
    code = match.group(1)
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def _wrong(what: str, line: _Line) -> WireError:
    return WireError(f"unsupported YAML in metadata: {what}").at("line", line.number)
