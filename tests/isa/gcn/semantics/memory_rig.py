"""A wave with random registers and memories, one instruction, and a plain copy of it all for an oracle to change.

Oracles are written from the manuals over `Model`: Python integers, one lane after the other. After the instruction
every register, every byte of memory, LDS and GDS must be what the oracle left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.lane_float import quiet
from softcard.engine.gcn.reference.lanes import Lanes, View
from softcard.isa.gcn import state as gcn
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations import buffer, ds, flat, image, smem
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import Wave, aligned
from softcard.isa.gcn.target import target

GPUS = ("gfx700", "gfx803", "gfx900")
BASE = 0x12_3450_0000
SIZE = 0x4000
LDS = 2048
GDS = 512
SCRATCH = 0x7F_0000_0000
LANE_BYTES = 128
SHARED = 0x0001_0000_0000_0000
PRIVATE = 0x0002_0000_0000_0000
M0, EXEC = 124, 126
SHOWN = 32
"""Vector registers that a `Model` has."""
FULL = (1 << 64) - 1

TABLE: dict[tuple[str, int, str], Op] = {
    (op.family, level, op.names[level]): op
    for op in (*buffer.OPS, *ds.OPS, *flat.OPS, *image.OPS, *smem.OPS)
    for level, processor in ((7, "gfx700"), (8, "gfx803"), (9, "gfx906"))
    if op.on(target(processor))
}
FORMS = {
    "ds": "DS",
    "flat": "FLAT",
    "global": "FLAT",
    "scratch": "FLAT",
    "mubuf": "MUBUF",
    "mtbuf": "MTBUF",
    "mimg": "MIMG",
}
FIELDS = {
    "DS": "vdst addr data0 data1 offset0 offset1 gds",
    "FLAT": "vdst addr data saddr seg offset glc slc lds nv tfe",
    "MUBUF": "vdata vaddr srsrc soffset offset offen idxen glc slc lds tfe addr64",
    "MTBUF": "vdata vaddr srsrc soffset offset offen idxen glc slc tfe addr64 dfmt nfmt",
    "MIMG": "vdata vaddr srsrc ssamp dmask unorm glc slc da r128 tfe lwe d16",
    "SMRD": "sdst sbase imm offset",
    "SMEM": "sdata sbase imm soffset_en soffset offset glc nv",
}
DEFAULTS = {"saddr": 0x7F, "soffset": 128}


def mnemonics(family: str, gpu: str, part: str = "") -> list[str]:
    """All operations of a family on a processor whose name has `part` in it."""
    return [name for f, level, name in TABLE if f == family and level == target(gpu).level and part in name]


class Model:
    """The state of a rig as Python integers and bytearrays; `x` is EXEC."""

    def __init__(self, rig: Rig) -> None:
        self.v: list[list[int]] = rig.wave.vgpr[:SHOWN].tolist()
        self.s: list[int] = rig.wave.sgpr.tolist()
        self.memory = {
            "global": bytearray(rig.ram.tobytes()),
            "lds": bytearray(rig.lds.tobytes()),
            "gds": bytearray(rig.gds.tobytes()),
            "private": bytearray(rig.scratch.tobytes()),
        }

    @property
    def lanes(self) -> list[int]:
        """The active lanes."""
        x = self.s[EXEC] | self.s[EXEC + 1] << 32
        return [n for n in range(64) if x >> n & 1]

    def peek(self, space: str, address: int, size: int) -> int:
        """A little-endian number; 0 outside of LDS and GDS."""
        at = address - BASE if space == "global" else address
        bytes_ = self.memory[space]
        if space in ("lds", "gds") and at + size > len(bytes_):
            return 0
        assert 0 <= at <= len(bytes_) - size, f"the test must stay in memory: {address:#x}"
        return int.from_bytes(bytes_[at : at + size], "little")

    def poke(self, space: str, address: int, size: int, value: int) -> None:
        """Store a number; nothing outside of LDS and GDS."""
        at = address - BASE if space == "global" else address
        bytes_ = self.memory[space]
        if space in ("lds", "gds") and at + size > len(bytes_):
            return
        assert 0 <= at <= len(bytes_) - size, f"the test must stay in memory: {address:#x}"
        bytes_[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def wide(self, n: int, lane: int, dwords: int) -> int:
        """Vector registers as one number."""
        return sum(self.v[n + k][lane] << 32 * k for k in range(dwords))

    def set_wide(self, n: int, lane: int, dwords: int, value: int) -> None:
        """Write vector registers."""
        for k in range(dwords):
            self.v[n + k][lane] = value >> 32 * k & 0xFFFF_FFFF


class Rig:
    """One wave, its memories and the reference's algebra."""

    def __init__(self, gpu: str, seed: int = 0, exec_mask: int | None = None) -> None:
        self.target = target(gpu)
        self.rng = np.random.default_rng(seed)
        random = self.rng.integers
        self.ram = random(0, 256, SIZE, np.uint8)
        self.lds, self.gds = aligned(LDS), aligned(GDS)
        self.lds[:], self.gds[:] = random(0, 256, LDS, np.uint8), random(0, 256, GDS, np.uint8)
        self.scratch = random(0, 256, 64 * LANE_BYTES, np.uint8)
        self.memory = GpuMemory()
        self.memory.map(BASE, self.ram)
        self.memory.map(SCRATCH, self.scratch)
        self.hints: list[str] = []
        reported = self.hints  # not through this rig: a circle would keep its memory until somebody looks for garbage
        self.lanes = Lanes(self.memory, self.gds, lambda wave, what, n: reported.append(what))
        self.wave = Wave()
        self.wave.vgpr[:SHOWN] = random(0, 1 << 32, (SHOWN, 64), np.uint32)
        self.wave.sgpr[:] = random(0, 1 << 32, 128, np.uint32)
        words = self.wave.words
        words[gcn.LDS_BASE], words[gcn.LDS_SIZE] = self.lds.ctypes.data, LDS
        words[gcn.SHARED_BASE], words[gcn.PRIVATE_BASE] = SHARED, PRIVATE
        words[gcn.SCRATCH_AT], words[gcn.SCRATCH_SIZE] = SCRATCH, LANE_BYTES
        words[gcn.MODE] = 0x3C0
        self.set_s64(EXEC, int(random(0, 1 << 63)) << 1 | 1 if exec_mask is None else exec_mask)
        self.set_s(M0, 0xFFFF_FFFF)

    def set_s(self, n: int, *values: int) -> None:
        """Write scalar registers."""
        for k, value in enumerate(values):
            self.wave.sgpr[n + k] = value & 0xFFFF_FFFF

    def set_s64(self, n: int, value: int) -> None:
        """Write a scalar register pair."""
        self.wave.set_s64(n, value)

    def set_v(self, n: int, values: Any) -> None:
        """Write a vector register."""
        self.wave.vgpr[n] = np.asarray(values, np.uint64).astype(np.uint32)

    def set_v64(self, n: int, values: Any) -> None:
        """Write a vector register pair."""
        numbers = np.asarray(values, np.uint64)
        self.wave.vgpr[n] = (numbers & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
        self.wave.vgpr[n + 1] = (numbers >> np.uint64(32)).astype(np.uint32)

    def random(self, low: int, high: int, step: int = 1) -> Any:
        """64 random multiples of `step`."""
        return self.rng.integers(low // step, high // step, 64, np.int64) * step

    def insn(self, family: str, name: str, literal: int | None = None, **fields: int) -> Insn:
        """An instruction with these fields, all others 0 (no scalar address, SOFFSET 0)."""
        op = TABLE[family, self.target.level, name]
        form = FORMS.get(family) or ("SMRD" if self.target.level == 7 else "SMEM")
        known = FIELDS[form].split()
        assert set(fields) <= set(known), (form, fields)
        every = {field: DEFAULTS.get(field, 0) if form != "SMEM" else 0 for field in known} | fields
        return Insn(op, self.target, form, 0x1000, 8, (0, 0), every, literal)

    def run(self, family: str, name: str, literal: int | None = None, **fields: int) -> None:
        """Execute it."""
        insn = self.insn(family, name, literal, **fields)
        self.lanes.begin(View(self.wave), insn)
        with quiet():
            execute(self.lanes, insn)

    def model(self) -> Model:
        """A copy of everything."""
        return Model(self)

    def check(self, model: Model) -> None:
        """Everything is as the oracle says."""
        now = Model(self)
        for n, (mine, theirs) in enumerate(zip(now.v, model.v, strict=True)):
            assert mine == theirs, f"v{n}: " + ", ".join(
                f"lane {k}: {a:#x}, not {b:#x}" for k, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b
            )
        assert now.s == model.s, [
            (n, hex(a), hex(b)) for n, (a, b) in enumerate(zip(now.s, model.s, strict=True)) if a != b
        ]
        for space, bytes_ in now.memory.items():
            assert bytes_ == model.memory[space], space
