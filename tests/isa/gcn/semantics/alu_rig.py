"""One wave for tests of scalar and vector operations: registers in, one instruction, registers out.

Oracles are written from the manuals, over Python numbers, one lane after the other; nothing of a meaning is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from random import Random

import numpy as np

from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.reference.lane_float import quiet
from softcard.engine.gcn.reference.lanes import Lanes, View
from softcard.isa.gcn import state as gcn
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.encoding.decode import VOP3B_NAMES, decode
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations import sop, sopk, sopp, vop1, vop2, vop3, vop3p, vopc
from softcard.isa.gcn.operations.table import NOT_PROMOTED
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import EXEC, VCC, Wave, aligned
from softcard.isa.gcn.target import target

GPUS = ("gfx700", "gfx803", "gfx900", "gfx906")
FULL = (1 << 64) - 1
PARTIAL = 0xF0F1_7E5A_8001_C3A5
DEFAULT_MODE = 0x3F0
"""Round to nearest, all denormals kept, DX10_CLAMP, IEEE."""
FLUSH32 = 0x3C0
"""The mode of `MODE` with binary32 denormals flushed."""
PC = 0x1000
OLD = 0xDEAD_BEEF
"""The values of destination registers before each instruction."""
LDS_BYTES = 256

OPS: tuple[Op, ...] = (*sop.OPS, *sopk.OPS, *sopp.OPS, *vop1.OPS, *vop2.OPS, *vop3.OPS, *vopc.OPS, *vop3p.OPS)


class Alu:
    """A wave whose instructions are executed one at a time."""

    def __init__(self, gpu: str = "gfx900", mode: int = DEFAULT_MODE, exec_: int = FULL) -> None:
        self.target = target(gpu)
        self.hints: list[tuple[str, int]] = []
        self.traps: list[int] = []
        self.wave = Wave()
        self.wave.vgpr[:] = OLD
        self.lds = aligned(LDS_BYTES)
        words = self.wave.words
        words[gcn.LDS_BASE], words[gcn.LDS_SIZE] = self.lds.ctypes.data, LDS_BYTES
        words[gcn.SHARED_BASE], words[gcn.PRIVATE_BASE] = 1 << 48, 2 << 48
        words[gcn.MODE] = mode
        self.set_s64(EXEC, exec_)
        self.lanes = Lanes(GpuMemory(), None, lambda _, what, n: self.hints.append((what, n)), self._trap)
        self.view = View(self.wave, bool(self.target.matrix))

    def _trap(self, wave: Wave, number: int) -> bool:
        self.traps.append(number)
        return True

    # registers
    def set_s(self, n: int, value: int) -> None:
        self.wave.sgpr[n] = value & 0xFFFF_FFFF

    def set_s64(self, n: int, value: int) -> None:
        self.wave.set_s64(n, value & FULL)

    def s(self, n: int) -> int:
        return int(self.wave.sgpr[n])

    def s64(self, n: int) -> int:
        return self.wave.s64(n)

    @property
    def scc(self) -> int:
        return int(self.wave.words[gcn.SCC])

    @scc.setter
    def scc(self, value: int) -> None:
        self.wave.words[gcn.SCC] = value

    @property
    def mode(self) -> int:
        return int(self.wave.words[gcn.MODE])

    def set_v(self, n: int, values: Sequence[int], width: int = 32) -> None:
        """Lanes of a register, or of as many as `width` takes."""
        for k in range(max(1, width // 32)):
            self.wave.vgpr[n + k] = np.array([v >> 32 * k & 0xFFFF_FFFF for v in values], np.uint32)

    def v(self, n: int, width: int = 32) -> list[int]:
        columns = [self.wave.vgpr[n + k].tolist() for k in range(max(1, width // 32))]
        return [sum(word << 32 * k for k, word in enumerate(words)) for words in zip(*columns, strict=True)]

    # instructions
    def run(self, *texts: str) -> int:
        """Assemble, decode and execute instructions; where the last one goes on, relative to its own address."""
        at = PC
        for text in texts:
            at = self.step(decode(self.target, assemble(self.target, text), PC))
        return at - PC

    def step(self, insn: Insn) -> int:
        """Execute a decoded instruction; the next address."""
        with quiet():
            self.lanes.begin(self.view, insn)
            execute(self.lanes, insn)
        return self.lanes.target

    def execute(self, op: Op, form: str, literal: int | None = None, **fields: int) -> int:
        """Execute an operation with these fields; absent ones are 0."""
        known = dict.fromkeys(
            (
                "vdst",
                "src0",
                "src1",
                "src2",
                "abs",
                "neg",
                "omod",
                "clamp",
                "op_sel",
                "neg_hi",
                "op_sel_hi",
                "ssrc0",
                "ssrc1",
            ),
            0,
        )
        return self.step(Insn(op, self.target, form, PC, 8, (0, 0), known | fields, literal))


def operation(name: str, gpu: str, family: str = "") -> Op:
    """The operation of that name on a processor."""
    t = target(gpu)
    found = [op for op in OPS if op.on(t) and op.names[t.level] == name and op.family.startswith(family)]
    assert len(found) == 1, f"{len(found)} operations {name} on {gpu}"
    return found[0]


def forms(op: Op) -> list[str]:
    """The encodings of an operation, SDWA and DPP apart."""
    family = op.family.upper()
    long = "VOP3B" if op.name in VOP3B_NAMES else "VOP3A"
    if family == "VOP3":
        return [long]
    if family in ("VOP1", "VOP2", "VOPC") and op.name not in NOT_PROMOTED:
        return [family, long]
    return [family]


def width(kind: str) -> int:
    """Bits of a type as it lies in registers."""
    return 32 if kind in ("p16", "h16", "x32", "k32", "simm", "uimm") else int(kind[1:])


def signed(w: int, n: int) -> int:
    """The low `w` bits as two's complement."""
    n &= (1 << w) - 1
    return n - (1 << w) if n >> w - 1 else n


SOURCES_AT = (10, 14, 20)
MASK_AT = 20
OUT_MASK_AT = 30


def vector_results(
    op: Op,
    form: str,
    columns: Sequence[Sequence[int]],
    gpu: str,
    mode: int = DEFAULT_MODE,
    exec_: int = FULL,
    **fields: int,
) -> list[tuple[int, ...]]:
    """The results of a vector operation lane by lane, lane masks as bits; `columns`: 64 values of each explicit source.

    Checks that lanes outside of `exec_` keep their registers and get 0 in masks.
    """
    alu = Alu(gpu, mode, exec_)
    extra: dict[str, int] = {"vdst": 0}
    literal = None
    slots = iter(("src0", "src1", "src2"))
    for at, (kind, values) in enumerate(
        zip([k for k in op.sources if k not in ("old", "level")], columns, strict=True)
    ):
        if kind == "k32":
            literal = values[0]
            continue
        slot = next(slots, None)
        if kind == "m64":
            is_vcc = slot is None or not form.startswith("VOP3")
            alu.set_s64(VCC if is_vcc else MASK_AT, sum(bit << n for n, bit in enumerate(values)))
            extra |= {} if slot is None else {slot: MASK_AT}
            continue
        alu.set_v(SOURCES_AT[at], values, width(kind))
        assert slot is not None
        extra[slot] = 256 + SOURCES_AT[at]
    if "old" in op.sources:
        alu.set_v(0, OLD_VALUES, width(op.results[0]))
    before = alu.v(0, 128)
    if form == "VOP3B" or (form == "VOP3A" and op.family == "vopc"):
        extra["sdst"] = OUT_MASK_AT
    alu.execute(op, form, literal, **(extra | fields))
    after, found = alu.v(0, 128), []
    bits = alu.s64(extra.get("sdst", VCC))
    for lane in range(64):
        if not exec_ >> lane & 1:
            assert after[lane] == before[lane]
            assert "m64" not in op.results or not bits >> lane & 1
            continue
        parts = []
        for kind in op.results:
            mask = alu.s64(EXEC) if kind == "exec" else bits
            wide = max(32, width(kind)) if kind not in ("m64", "exec") else 0
            parts.append(after[lane] & (1 << wide) - 1 if wide else mask >> lane & 1)
        found.append(tuple(parts))
    return found


OLD_VALUES = [OLD + 0x0137_1001 * n & 0xFFFF_FFFF for n in range(64)]
"""The value of the destination of an operation with an `old` source."""


HARD = {
    8: (0, 1, 0x7F, 0x80, 0xFF),
    16: (0, 1, 2, 15, 16, 0x7F, 0xFF, 0x100, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF),
    32: (
        0, 1, 2, 5, 24, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF,
        0x800000, 0xFFFFFF, 0x1000000, 0x01020304, 0x80FF7F00, 0x7FFFFFFF, 0x80000000, 0x80000001,
        0xFFFFFFFE, 0xFFFFFFFF,
    ),
    64: (
        0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, FULL - 1, FULL,
        0x0123456789ABCDEF, 0xFFFF0000FFFF0000,
    ),
    128: (0, (1 << 128) - 1, 0x0123456789ABCDEF_FEDCBA9876543210),
    1: (0, 1),
}  # fmt: skip
"""Integers that break things."""


def batches(
    widths: Sequence[int], hard: Callable[[int], Sequence[int]], seed: int = 1, limit: int = 6
) -> Iterator[list[list[int]]]:
    """Columns of 64 lanes each: combinations of hard values, as many batches as `limit`, and one of random ones."""
    rows = _rows(tuple(widths), tuple(tuple(hard(w)) for w in widths), seed, limit)
    for at in range(0, len(rows), 64):
        yield [list(column) for column in zip(*rows[at : at + 64], strict=True)]


@cache
def _rows(widths: tuple[int, ...], hard: tuple[tuple[int, ...], ...], seed: int, limit: int) -> list[tuple[int, ...]]:
    """Return rows of operands for all operations of these widths: there are tens of thousands of combinations to
    shuffle."""
    random = Random(seed)
    rows = list(product(*hard))
    random.shuffle(rows)
    rows = rows[: 64 * limit]
    while len(rows) % 64:
        rows.append(tuple(random.choice(values) for values in hard))
    rows += [tuple(random.getrandbits(w) for w in widths) for _ in range(64)]
    return rows
