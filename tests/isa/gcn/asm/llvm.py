"""LLVM's assembler and disassembler, as judges of encodings and texts. All comparisons are pinned to its version 19."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

import pytest

LLVM_MC = shutil.which("llvm-mc-19")
needs_llvm = [pytest.mark.oracle, pytest.mark.skipif(LLVM_MC is None, reason="needs llvm-mc-19 (package llvm-19)")]
S_NOP = 0xBF80_0000
"""An instruction with a number that follows every instruction under test, so that refused ones can be identified."""


def _run(arguments: Sequence[str], source: str) -> subprocess.CompletedProcess[str]:
    assert LLVM_MC is not None
    command = [LLVM_MC, "-triple=amdgcn-amd-amdhsa", *arguments]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False)


def disassembled(processor: str, codes: Sequence[bytes]) -> list[str | None]:
    """The text of each instruction, None for what LLVM refuses or does not take as one instruction."""
    lines = []
    for number, code in enumerate(codes):
        for part in (code, (S_NOP | number & 0xFFFF).to_bytes(4, "little")):
            lines.append("[" + ",".join(f"{byte:#04x}" for byte in part) + "]")
    output = _run(["--disassemble", f"-mcpu={processor}"], "\n".join(lines)).stdout
    found: list[list[str]] = [[]]
    for line in output.splitlines():
        shown = re.sub(r"\s+", " ", line.partition(" //")[0]).strip()
        if not shown or shown.startswith("."):
            continue
        mark = re.fullmatch(r"s_nop (\w+)", shown)
        if mark and int(mark[1], 0) == len(found) - 1 & 0xFFFF:
            found.append([])
        else:
            found[-1].append(shown)
    assert len(found) == len(codes) + 1
    return [texts[0] if len(texts) == 1 else None for texts in found[:-1]]


def assembled(processor: str, texts: Sequence[str]) -> list[bytes | None]:
    """The machine code of each line, None where LLVM refuses it."""
    result = _run([f"-mcpu={processor}", "-show-encoding"], "\n".join(texts))
    refused = {int(number) for number in re.findall(r"^<stdin>:(\d+):\d+: error", result.stderr, re.MULTILINE)}
    codes = [
        bytes(int(byte, 16) for byte in found.split(","))
        for found in re.findall(r"encoding: \[([^\]]*)\]", result.stdout)
    ]
    assert len(codes) + len(refused) == len(texts)
    taken = iter(codes)
    return [None if number in refused else next(taken) for number, _ in enumerate(texts, 1)]
