"""What a failing instruction read: registers that are what they were, on either engine.

Translated code keeps no vector registers that nobody reads again, and may be ahead with scalar ones that the
instruction does not read. What it does read, the reference engine has just read itself: that is what found the fault.
"""

from __future__ import annotations

from typing import Final

from understudy.core.registers import Registers
from understudy.engine.gcn.jit.effects import effects
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import EXEC, FLAT_SCRATCH, M0, MODE, VCC, Mode, Wave

PAIRS: Final = {EXEC: "exec", VCC: "vcc"}


def registers_read(insn: Insn, wave: Wave, lane: int | None, said: str) -> Registers:
    """EXEC, and what `insn` reads: scalar registers, and vector registers of the lane that failed.

    A buffer's or image's instruction is to be the one that its numbers make it (`Insn.specific`).
    """
    found = effects(insn, Mode.decode(int(wave.words[MODE])))
    pairs = PAIRS | {FLAT_SCRATCH[insn.target.level]: "flat_scratch"}
    scalars = {"exec": wave.s64(EXEC)}
    for n in sorted(found.s_reads):
        first = n if n in pairs else n - 1 if n - 1 in pairs else None
        if first is not None:
            scalars[pairs[first]] = wave.s64(first)
        elif n < len(wave.sgpr):
            scalars["m0" if n == M0 else f"s{n}"] = int(wave.sgpr[n])
    vectors = {} if lane is None else {f"v{n}": int(wave.vgpr[n, lane]) for n in sorted(found.v_reads)}
    return Registers(insn.pc, said, scalars, vectors, lane)
