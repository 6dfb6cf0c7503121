"""Lines of assembly files: comments taken off, labels and statements apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError
from understudy.image.assembly.expressions import NAME

_LABEL: Final = re.compile(rf"\s*({NAME}|\d+)\s*:(?!:)")
_ASSIGNMENT: Final = re.compile(rf"({NAME})\s*==?(?!=)\s*(.+)", re.DOTALL)
_STRING: Final = r'"(?:\\.|[^"\\])*"'
BLOCKS: Final = {
    ".amdgpu_metadata": ".end_amdgpu_metadata",
    ".amd_amdgpu_hsa_metadata": ".end_amd_amdgpu_hsa_metadata",
}
"""Directives with text of another language behind them, and what ends it."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """What differs from one assembler to the next: how comments begin, and what stands between two statements."""

    comments: str
    """A regular expression."""
    separator: str = ""


GCN: Final = Syntax(r";|//|\#(?!alloc|write|execinstr)")
"""LLVM's for AMDGPU."""
RISCV: Final = Syntax(r"\#|//", ";")
"""GNU's and LLVM's for RISC-V."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A label (`name` with a colon), or a directive or instruction: `name`, and the text behind it.

    ``name = value`` is a ``.set``. `body` are the lines of a block of another language.
    """

    line: int
    name: str
    rest: str = ""
    body: str = ""

    @property
    def is_label(self) -> bool:
        """Whether it names a place."""
        return self.name.endswith(":")

    @property
    def text(self) -> str:
        """As it is written, for messages."""
        return f"{self.name} {self.rest}".strip()


def statements(source: str, syntax: Syntax) -> Iterator[Statement]:
    """All statements of a file; `WireError` with the line for a comment or block that does not end."""
    cut = re.compile(rf"({_STRING}|'(?:\\.|[^\\])'?)|/\*|({syntax.comments})" + (r"|(;)" if syntax.separator else ""))
    lines = source.splitlines()
    number, comment = 0, 0
    while number < len(lines):
        parts, comment = _parts(lines[number], cut, comment, number + 1)
        number += 1
        for part in parts:
            for statement in _split(part, number):
                if statement.name in BLOCKS:
                    end = next((n for n in range(number, len(lines)) if BLOCKS[statement.name] == lines[n].strip()), -1)
                    if end < 0:
                        text = f"{statement.name} has no {BLOCKS[statement.name]}"
                        raise WireError(text).at("line", statement.line)
                    body = "\n".join(lines[number:end]) + "\n"
                    number = end + 1
                    statement = Statement(statement.line, statement.name, statement.rest, body)
                yield statement
    if comment:
        raise WireError("a comment that does not end").at("line", comment)


def _parts(line: str, cut: re.Pattern[str], comment: int, number: int) -> tuple[list[str], int]:
    """The statements of a line without comments; `comment` is the line in which one that goes on began, or 0."""
    out, kept, at = [], "", 0
    while at < len(line):
        if comment:
            end = line.find("*/", at)
            if end < 0:
                break
            at, comment = end + 2, 0
            continue
        found = cut.search(line, at)
        if found is None:
            kept += line[at:]
            break
        kept += line[at : found.start()]
        at = found.end()
        if found[1]:
            kept += found[1]
        elif found[2]:
            break
        elif found[0] == "/*":
            comment, kept = number, kept + " "
        else:
            out.append(kept)
            kept = ""
    return [each for each in (*out, kept) if each.strip()], comment


def _split(text: str, number: int) -> Iterator[Statement]:
    while label := _LABEL.match(text):
        yield Statement(number, label[1] + ":")
        text = text[label.end() :]
    text = text.strip()
    if not text:
        return
    assigned = _ASSIGNMENT.fullmatch(text)
    if assigned:
        yield Statement(number, ".set", f"{assigned[1]}, {assigned[2]}")
        return
    name, rest = (*text.split(None, 1), "")[:2]
    yield Statement(number, name, rest.strip())


def operands(text: str) -> list[str]:
    """Texts between commas, those inside of brackets and quotes aside; none of an empty text."""
    parts, depth, start, quote, escaped = [], 0, 0, "", False
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and not escaped else quote
            escaped = letter == "\\" and not escaped
        elif letter in '"':
            quote = letter
        elif letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
        else:
            depth += (letter in "([{") - (letter in ")]}")
    parts.append(text[start:].strip())
    return parts if text.strip() else []


_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|[xX][0-9a-fA-F]+|.)", re.DOTALL)
_LETTERS: Final = {"n": 10, "t": 9, "r": 13, "b": 8, "f": 12}


def string(text: str) -> bytes:
    """The bytes that a quoted string stands for; `WireError` where it is none."""
    if not re.fullmatch(_STRING, text, re.DOTALL):
        raise WireError(f"{text!r} must be a string in quotes")
    out, at, body = bytearray(), 0, text[1:-1]
    for found in _ESCAPE.finditer(body):
        out += body[at : found.start()].encode()
        code = found[1]
        if code[0] in "01234567":
            out.append(int(code, 8) & 0xFF)
        elif code[0] in "xX" and code[1:]:
            out.append(int(code[1:], 16) & 0xFF)
        else:
            out += bytes([_LETTERS[code]]) if code in _LETTERS else code.encode()
        at = found.end()
    return bytes(out + body[at:].encode())
