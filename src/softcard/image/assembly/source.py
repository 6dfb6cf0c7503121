"""The splitting of assembly files into statements, without comments and with labels as statements of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import WireError
from softcard.image.assembly.expressions import NAME

_LABEL: Final = re.compile(rf"\s*({NAME}|\d+)\s*:(?!:)")
_ASSIGNMENT: Final = re.compile(rf"({NAME})\s*==?(?!=)\s*(.+)", re.DOTALL)
_STRING: Final = r'"(?:\\.|[^"\\])*"'
BLOCKS: Final = {
    ".amdgpu_metadata": ".end_amdgpu_metadata",
    ".amd_amdgpu_hsa_metadata": ".end_amd_amdgpu_hsa_metadata",
}
"""The directives that begin a block of text in another language, and the directive that ends each block."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """The syntax of an assembler: the start of comments, and the separator of statements."""

    comments: str
    """A regular expression that matches the start of a comment."""
    separator: str = ""


GCN: Final = Syntax(r";|//|\#(?!alloc|write|execinstr)")
"""The comment and separator syntax of LLVM's assembler for AMDGPU."""
RISCV: Final = Syntax(r"\#|//", ";")
"""The comment and separator syntax of GNU's and LLVM's assemblers for RISC-V."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of an assembly file: a label, a directive or an instruction.

    `name` is the first word, with a final colon for a label. `rest` is the text of the operands. ``name = value``
    is stored as a directive ``.set``. `body` holds the lines of an embedded block, such as metadata."""

    line: int
    name: str
    rest: str = ""
    body: str = ""

    @property
    def is_label(self) -> bool:
        """True if the statement is a label."""
        return self.name.endswith(":")

    @property
    def text(self) -> str:
        """The statement as written, for messages."""
        return f"{self.name} {self.rest}".strip()

    def locate(self, error: WireError) -> WireError:
        """Add the statement's location to an error, and return the error."""
        return error.at("line", self.line, self.text[:80])


def statements(source: str, syntax: Syntax) -> Iterator[Statement]:
    """Yield all statements of a file.

    Raise `WireError` with the line of a comment or block that does not end.
    """
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
        raise WireError("a comment has no end").at("line", comment)


def _parts(line: str, cut: re.Pattern[str], comment: int, number: int) -> tuple[list[str], int]:
    """Return the statements of a line, and the number of the line in which an unfinished comment began, or 0.

    `number` is the number of this line. `comment` is the number of the line in which a comment began that is
    unfinished at the start of this line, or 0."""
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
    """Return the operands in a text, split at commas outside of brackets and quotes; empty for an empty text."""
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
    """Return the bytes of a quoted string; raise `WireError` if `text` is not one."""
    if not re.fullmatch(_STRING, text, re.DOTALL):
        raise WireError(f"{text!r} must be a string in quotes").in_operand(text)
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
