"""Programs that move few registers about under changing EXEC: what translated code leaves out, nobody may miss."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.tiered.translation import Tier
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import Translated, differences, on_reference, widths
from tests.agree.gcn.programs import start

GPU = "gfx900"
STEP_LIMIT = 3000
MOVES = (
    "v_add_u32_e32 {v}, {v}, {v}",
    "v_mov_b32_e32 {v}, {v}",
    "v_mov_b32_e32 {v}, {n}",
    "v_cndmask_b32_e32 {v}, {v}, {v}, vcc",
    "v_cmp_lt_u32_e32 vcc, {v}, {v}",
    "v_cmpx_gt_u32_e32 vcc, {v}, {v}",
    "s_mov_b64 exec, {mask}",
    "s_and_saveexec_b64 s[24:25], vcc",
    "s_xor_saveexec_b64 s[24:25], {mask}",
    "v_readlane_b32 s26, {v}, {n}",
    "v_writelane_b32 {v}, s26, {n}",
    "v_mov_b32_dpp {v}, {v} row_ror:5 row_mask:0x6 bank_mask:0xf",
    "v_mov_b32_sdwa {v}, {v} dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
    "ds_bpermute_b32 {v}, {v}, {v}",
)
CALM = tuple(move for move in MOVES if "exec" not in move and "cmpx" not in move)
MASKS = ("-1", "0", "0xf0f", "0x7fff0000", "s[2:3]", "vcc", "s[24:25]")
HEAD = """
s_mov_b32 s20, 3
v_mbcnt_lo_u32_b32 v38, -1, 0
v_mbcnt_hi_u32_b32 v38, -1, v38
v_lshlrev_b32_e32 v38, 2, v38
"""
SHOW = [
    "s_mov_b64 exec, -1",
    "v_mov_b32_e32 v46, s26",
    *(f"ds_write_b32 v38, v{40 + n} offset:{256 * n}" for n in range(7)),
]
BRANCHES = ("vccz", "vccnz", "execz", "execnz", "scc0")


def program(rng: np.random.Generator) -> str:
    """Moves and forward branches, half of the time three times around, half of the time without changes of EXEC."""
    lines, open_labels = [], []
    moves = MOVES if rng.integers(0, 2) else CALM
    for number in range(int(rng.integers(4, 40))):
        kind = int(rng.integers(0, 20))
        if kind == 0 and open_labels:
            lines.append(f"{open_labels.pop(0)}:")
        elif kind <= 2:
            open_labels.append(f"on{number}")
            lines.append(f"s_cbranch_{BRANCHES[rng.integers(0, len(BRANCHES))]} on{number}")
        else:
            line = moves[rng.integers(0, len(moves))]
            while "{v}" in line:
                line = line.replace("{v}", f"v{rng.integers(40, 47)}", 1)
            mask, n = MASKS[rng.integers(0, len(MASKS))], int(rng.integers(0, 64))
            lines.append(line.format(mask=mask, n=n))
    if rng.integers(0, 4) == 0:  # before a step of the reference engine everything is live
        lines.insert(int(rng.integers(0, len(lines))), "s_sethalt 0")
    lines += [f"{label}:" for label in open_labels]
    if rng.integers(0, 2):
        lines = ["again:", *lines, "s_sub_u32 s20, s20, 1", "s_cmp_lg_u32 s20, 0", "s_cbranch_scc1 again"]
    return "\n".join([HEAD, *lines, *(SHOW if rng.integers(0, 2) else SHOW[1:]), "s_endpgm"])


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("observed", [Observed.AT_END, Observed.NEVER])
@pytest.mark.parametrize("lanes", widths())
def test_registers_are_at_the_end_what_they_are_on_the_reference(lanes: int, observed: Observed, part: int) -> None:
    """Where nobody else looks at them, the program shows them in LDS."""
    engine = Translated(lanes, Tier.THREADED, observed)
    for number in range(30 * part, 30 * part + 30):
        rng = np.random.default_rng([number, lanes])
        text, state = program(rng), start(rng)
        code = assemble(target(GPU), text)
        expected = on_reference(GPU, code, state, STEP_LIMIT)
        lines = differences(expected, engine(GPU, code, state, STEP_LIMIT))
        assert not lines, "\n".join([f"program {number}", text, *lines])
