"""Mistakes in command buffers that can be seen without running them.

A buffer is read alone: registers and windows may have been set by an earlier buffer, so what is merely missing is a
warning, what contradicts the document or is known to abort a buffer is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from understudy.core.errors import WireError
from understudy.core.rule import Rule
from understudy.core.shown import Rows, Shown
from understudy.device.refsi import rules
from understudy.device.refsi.commands import CHUNK_BYTES, COMMANDS, HEADER, Finish, Nop
from understudy.device.refsi.registers import M1_HARTS
from understudy.device.refsi.toolkit.lint_walk import Walk
from understudy.device.refsi.toolkit.listing import Line, lines

__all__ = ["CHECKS", "Finding", "Severity", "lint"]


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Breaks the document, or is known to abort the buffer."""
    WARNING = "warning"
    """Most likely a mistake, or differs between the document and the reference driver."""
    NOTE = "note"
    """Worth a look."""


@dataclass(frozen=True, slots=True)
class Finding(Shown):
    """One mistake: how bad, which check, where (byte offset, chunk, command) and which rule it touches."""

    severity: Severity
    check: str
    offset: int
    command: str
    message: str
    rule: Rule | None = None

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        yield ()
        yield "severity", self.severity.value
        yield "check", self.check
        yield "place", f"byte {self.offset:#x}, chunk {self.chunk}"
        yield "command", self.command
        yield "rule", f"{self.rule.id}: {self.rule.text} ({self.rule.clause})" if self.rule else ""

    @property
    def chunk(self) -> int:
        """Index of the chunk at `offset`."""
        return self.offset // CHUNK_BYTES

    def __str__(self) -> str:
        what = f" ({self.command})" if self.command else ""
        clause = f" [{self.rule.id}: {self.rule.clause}]" if self.rule else ""
        place = f"at byte {self.offset:#x}, chunk {self.chunk}{what}"
        return f"{self.severity.value}: {self.check}: {self.message}, {place}{clause}"


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

CHECKS: Final[dict[str, Severity]] = {
    # what cannot be decoded
    "header-packet-id": _E,
    "header-reserved": _E,
    "header-opcode": _E,
    "header-count": _E,
    "chunks": _E,
    "zero-extension": _E,
    "copy-unit": _E,
    "sync-flags": _E,
    "trailing-bytes": _E,
    # the order of things
    "nop": _N,
    "finish-missing": _W,
    "finish-behind": _W,
    # registers
    "register": _E,
    "register-reserved": _W,
    "entry-32-bit": _E,
    # memory commands
    "address": _W,
    "register-access": _E,
    "copy-alignment": _W,
    "copy-range": _E,
    "counter-unit": _E,
    # windows
    "window-order": _W,
    "window-load": _W,
    "window-mode": _E,
    "window-per-core": _W,
    "window-interleave": _W,
    "window-alignment": _W,
    "window-target": _E,
    "window-overlap": _E,
    "window-scale": _W,
    "window-sync": _W,
    # kernels
    "max-harts": _E,
    "no-instances": _N,
    "run-registers": _W,
    "entry-zero": _E,
    "stack-alignment": _W,
    "stack-shared": _W,
    "kernel-sync": _W,
    "kub-range": _E,
    "kub-missing": _W,
    "tsd-share": _E,
    # DMA
    "dma-control": _E,
    "dma-planes": _W,
    "dma-wait": _W,
}
"""Every check by name, with the severity of its findings."""


def lint(data: bytes, *, harts: int = M1_HARTS, profile: str = "spec") -> list[Finding]:
    """Findings of a command buffer in the order of their offsets; nothing runs and no input fails.

    `harts` is the number of harts of the device. `profile` ("spec" or "refsidrv") matters for the scaling factor of
    windows, which the document and the reference driver read differently.
    """
    findings: list[Finding] = []
    all_lines = list(lines(data))
    walk = Walk(harts, profile)
    finish = None
    for line in all_lines:
        if finish is not None:
            findings.append(
                _finding("finish-behind", line.offset, "", f"{_rest(all_lines, line)}, FINISH comes before")
            )
            break
        if line.error is not None:
            found = _undecodable(line)
            findings.append(found)
            finish = line if found.command == "FINISH" else None
        elif line.command is None:
            if line.text.startswith(".byte"):
                findings.append(_finding("trailing-bytes", line.offset, "", line.comment, rules.CHUNKS))
        else:
            name = line.command.opcode.name
            if isinstance(line.command, Nop):
                findings.append(_finding("nop", line.offset, name, "the document has no opcode 0"))
            findings += (
                _finding(check, line.offset, name, text, rule) for check, text, rule in walk.step(line.command)
            )
            finish = line if isinstance(line.command, Finish) else None
    end = finish.offset if finish else len(data) // CHUNK_BYTES * CHUNK_BYTES
    if finish is None:
        message = "the buffer does not end with FINISH (the reference driver runs it to the end of its size)"
        findings.append(_finding("finish-missing", end, "", message, rules.FINISH_END))
    findings += (_finding(check, end, "", text, rule) for check, text, rule in walk.end())
    return sorted(findings, key=lambda finding: finding.offset)


def _finding(check: str, offset: int, command: str, message: str, rule: Rule | None = None) -> Finding:
    return Finding(CHECKS[check], check, offset, command, message, rule)


def _undecodable(line: Line) -> Finding:
    error = line.error
    assert isinstance(error, WireError)
    check = error.rule.id.partition("/")[2] if error.rule else "chunks"
    opcode = HEADER.get(int.from_bytes(line.data[:CHUNK_BYTES], "little"), "OPCODE")
    kind = COMMANDS.get(opcode)
    name = kind.opcode.name if kind and check not in ("header-packet-id", "header-reserved") else ""
    return _finding(check, line.offset, name, error.message, error.rule)


def _rest(all_lines: list[Line], first: Line) -> str:
    count = (all_lines[-1].offset - first.offset + len(all_lines[-1].data)) // CHUNK_BYTES
    return f"{count} chunks are never read"
