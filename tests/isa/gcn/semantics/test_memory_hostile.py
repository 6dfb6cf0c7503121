"""Random descriptors, addresses and fields: every memory operation ends well or with a typed error, never with ours."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.errors import BeyondModel, GuestFault
from softcard.isa.gcn.target import target
from tests.isa.gcn.semantics.memory_rig import BASE, FIELDS, FORMS, GPUS, SIZE, TABLE, Rig

SMALL = {"dmask": 16, "dfmt": 16, "nfmt": 8, "offset": 4096, "offset0": 256, "offset1": 256, "soffset": 256, "imm": 1}
REGISTERS = ("vdst", "addr", "data", "data0", "data1", "vdata", "vaddr")


def scramble(rig: Rig) -> None:
    """Descriptors everywhere: mostly plausible ones, around the mapped memory."""
    random = rig.rng.integers
    words = random(0, 1 << 32, 128, np.uint64).astype(np.uint32)
    for first in range(0, 124, 4):
        if random(2):
            start = BASE + int(random(0, SIZE))
            shift = 8 * int(random(2))
            words[first], words[first + 1] = (
                start >> shift & 0xFFFF_FFFF,
                start >> shift + 32 | int(words[first + 1]) & ~0xFF,
            )
            words[first + 2] = int(random(1 << int(random(1, 32))))
            if random(2):
                level = 0 if rig.target.level == 9 else 8
                words[first + 3] = int(random(0, 4096)) | level << 20 | int(random(8, 14)) << 28
    rig.wave.sgpr[:126] = words[:126]
    hard = np.array(
        [0, 1, 0x7FC0_0000, 0xFF80_0000, 0xFFFF_FFFF, 0x7F7F_FFFF, 0x3F00_0000, BASE & 0xFFFF_FFFF, BASE >> 32]
    )
    rig.wave.vgpr[:64] = rig.rng.choice(hard, (64, 64)).astype(np.uint32)
    rig.wave.vgpr[::3] = random(0, 1 << 32, rig.wave.vgpr[::3].shape, np.uint64).astype(np.uint32)


@pytest.mark.parametrize("gpu", GPUS)
def test_nothing_but_typed_errors(gpu: str) -> None:
    level = target(gpu).level
    names = sorted((family, name) for family, of, name in TABLE if of == level)
    outcomes = {"done": 0, "fault": 0, "beyond": 0}
    rig = Rig(gpu, 7)
    for turn, (family, name) in enumerate(names):
        if turn % 4 == 0:
            scramble(rig)
        form = FORMS.get(family) or ("SMRD" if level == 7 else "SMEM")
        fields = {}
        for field in FIELDS[form].split():
            top = SMALL.get(field, 256 if field in REGISTERS else 2)
            top = {"sbase": 126, "srsrc": 125, "ssamp": 125, "sdata": 128, "sdst": 128, "saddr": 128}.get(field, top)
            if field == "soffset" and form == "SMEM":
                top = 128
            fields[field] = int(rig.rng.integers(top))
        if level != 7:
            fields.pop("addr64", None)
        try:
            rig.run(family, name, **fields)
            outcomes["done"] += 1
        except GuestFault:
            outcomes["fault"] += 1
        except BeyondModel:
            outcomes["beyond"] += 1
    assert all(outcomes.values()), outcomes
