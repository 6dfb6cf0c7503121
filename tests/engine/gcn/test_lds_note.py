"""Accesses past the end of LDS: engines note one, whatever instruction makes it, and none for those that are right."""

from __future__ import annotations

import pytest

from softcard.engine.gcn.api import Engine
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.isa.gcn.state import NOTE_SIZE, NOTE_STORE
from tests.engine.gcn.jit.test_jit import TIERS, WIDTHS
from tests.engine.gcn.programs import program

SPREAD = "v_lshlrev_b32 v3, 4, v0 | v_mov_b32 v4, 1 | v_mov_b32 v5, 1 | "
"""Offsets 0 to 1008 in v3."""
ONE = "v_mov_b32 v3, 0x3f0 | v_mov_b32 v4, 1 | v_mov_b32 v5, 1 | "
FLAT = "s_mov_b64 s[8:9], src_shared_base | v_mov_b32 v4, s9 | v_mov_b32 v6, 1 | v_mov_b32 v7, 1 | "
ACCESSES = {
    "ds_read_b32 v8, v3": (4, 0),
    "ds_read_b64 v[8:9], v3": (8, 0),
    "ds_read_b128 v[8:11], v3": (16, 0),
    "ds_read_u8 v8, v3": (1, 0),
    "ds_read_i16 v8, v3": (2, 0),
    "ds_read2_b32 v[8:9], v3 offset1:1": (4, 0),
    "ds_write_b32 v3, v4": (4, 1),
    "ds_write_b64 v3, v[4:5]": (8, 1),
    "ds_write_b8 v3, v4": (1, 1),
    "ds_write2_b32 v3, v4, v5 offset1:1": (4, 1),
    "ds_add_u32 v3, v4": (4, 1),
    "ds_add_rtn_u32 v8, v3, v4": (4, 1),
    "ds_add_u64 v3, v[4:5]": (8, 1),
    "ds_cmpst_rtn_b32 v8, v3, v4, v5": (4, 1),
    "flat_load_dword v8, v[3:4]": (4, 0),
    "flat_store_dword v[3:4], v6": (4, 1),
    "flat_atomic_add v[3:4], v6": (4, 1),
}
ENGINES: dict[str, Engine] = {
    "reference": ReferenceEngine(),
    **{
        f"{tier.name.lower()}-{lanes}": JitEngine(threads=1, tier=tier, lanes=lanes)
        for tier in TIERS
        for lanes in (WIDTHS[-1],)
    },
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("addresses", ["spread", "one"])
@pytest.mark.parametrize("access", ACCESSES)
def test_what_is_past_the_end_is_noted(access: str, addresses: str, name: str) -> None:
    size, store = ACCESSES[access]
    before = SPREAD if addresses == "spread" else ONE
    text = f"{before}{FLAT if access.startswith('flat') else ''}{access} | s_waitcnt lgkmcnt(0) | s_endpgm"
    right, wrong = (program(text, lds_bytes=bytes_) for bytes_ in (1024, 512))
    ENGINES[name].run(right)
    assert not right.lds_note[0]
    ENGINES[name].run(wrong)
    note = int(wrong.lds_note[0])
    assert (note >> NOTE_SIZE & 0xFF, note >> NOTE_STORE) == (size, store)
    assert 512 <= note & 0xFFFF_FFFF < 1024
