"""Write tests/vectors/gcn: an instruction of every slot (of gfx906: what gfx900 has not), where LLVM 19 agrees with us.

``python -m tests.isa.gcn.make_vectors`` after a new operation or a new LLVM; it needs llvm-mc-19.
"""

from __future__ import annotations

import random
from pathlib import Path

from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.encode import encode_insn
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.target import GFX7, TARGETS
from tests.isa.gcn.asm.llvm import assembled, disassembled
from tests.isa.gcn.words import fillings

FOLDER = Path(__file__).parents[2] / "vectors" / "gcn"
PROCESSORS = ("gfx700", "gfx803", "gfx900", "gfx906")


def agreed(processor: str) -> list[Insn]:
    """Instructions that LLVM reads and writes as we do; its disassembler does not know GFX7."""
    target = TARGETS[processor]
    insns = list(fillings(target, random.Random(12), 80))
    texts, codes = [text(insn) for insn in insns], [encode_insn(insn) for insn in insns]
    written = assembled(processor, texts)
    read = texts if target.level == GFX7 else disassembled(processor, codes)
    rows = zip(insns, texts, codes, written, read, strict=True)
    return [insn for insn, ours, code, theirs, shown in rows if theirs == code and shown in (ours, _no_suffix(ours))]


def _no_suffix(shown: str) -> str:
    """As LLVM shows comparisons with SDWA of GFX8."""
    return shown.replace("_sdwa vcc", " vcc", 1)


def main() -> None:
    """Of each slot the instruction with the longest text."""
    for processor in PROCESSORS:
        best: dict[tuple[str, str], Insn] = {}
        for insn in agreed(processor):
            if processor == "gfx906" and insn.op.on(TARGETS["gfx900"]):
                continue
            slot = insn.op.family + insn.op.name, insn.form
            if slot not in best or len(text(insn)) > len(text(best[slot])):
                best[slot] = insn
        lines = [f"{encode_insn(insn).hex()}  {text(insn)}\n" for insn in best.values()]
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{processor}.txt").write_text("".join(lines), encoding="utf-8")
        print(processor, len(lines))


if __name__ == "__main__":
    main()
