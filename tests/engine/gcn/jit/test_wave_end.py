"""What translated code leaves of a wave that has ended is what somebody looks at."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.state import ENDED, STATUS
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import CODE

TEXT = "s_mov_b32 s20, 7|s_cmp_eq_u32 s20, 8|s_cbranch_scc1 other|s_mov_b32 s21, s20|s_endpgm|other:|s_endpgm"


@pytest.mark.parametrize(("observed", "pc", "s21"), [
    (Observed.NEVER, CODE, 0),
    (Observed.PLACE, CODE + 20, 0),
    (Observed.AT_END, CODE + 20, 7),
    (Observed.ALWAYS, CODE + 20, 7),
])  # fmt: skip
def test_what_is_left(observed: Observed, pc: int, s21: int) -> None:
    """Its place for the check of barriers; scalar registers, which cost more, only where they are asked for."""
    engine = JitEngine(threads=1, tier=Tier.OPTIMISED, observed=observed)
    launch = engine.prepare(program(TEXT))
    launch.run()
    wave = launch._workers[0].waves[0]
    assert wave.words[STATUS] == ENDED
    assert (wave.pc, int(wave.sgpr[21])) == (pc, s21)
