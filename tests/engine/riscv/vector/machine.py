"""One or a few vector instructions from a state of one's own, on both engines, which must agree on all of it."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from softcard.engine.riscv.api import ILLEGAL, Why
from softcard.isa.riscv import csr
from softcard.isa.riscv.assembler import assemble
from softcard.isa.riscv.csrnames import MSTATUS, VCSR
from softcard.isa.riscv.state import FFLAGS, FRM, NO_ADDRESS, RETURN_ADDRESS, VL, VSTART, VTYPE, VXRM, VXSAT, F
from softcard.isa.riscv.vector.vtype import TEXTS, VILL
from tests.engine.riscv.rig import CODE, CODE_BYTES, DATA, ENGINES, UNKNOWN_ORIGIN, Rig

JUNK = 0xA5
"""The initial value of each byte of registers and memory that a test does not set."""
SEEN = 4096
"""Bytes of memory that are kept, from `DATA` on; as many at its end are zero before."""
Elements = Sequence[int] | bytes


@dataclass
class After:
    """The whole state after the last instruction, or before the one that trapped."""

    sew: int
    vlen: int
    x: list[int]
    f: list[int]
    vl: int
    vtype: int
    vstart: int
    vcsr: int
    fflags: int
    status: int
    retired: int
    vectors: bytes
    memory: bytes
    log: list[tuple[object, ...]]
    cause: int | None = None
    value: int = 0
    pc: int = 0
    reported: str = field(default="", compare=False)

    def v(self, n: int, count: int, width: int = 0) -> list[int]:
        """The first elements from register `n` on."""
        return split(self.vectors[n * self.vlen // 8 :], count, width or self.sew)

    def mask(self, n: int, count: int) -> list[int]:
        """The first bits of register `n`."""
        bits = int.from_bytes(self.vectors[n * self.vlen // 8 :][: (count + 7) // 8], "little")
        return [bits >> k & 1 for k in range(count)]

    def m(self, at: int, count: int, width: int = 0) -> list[int]:
        """Elements of memory from `DATA` + `at` on."""
        return split(self.memory[at:], count, width or self.sew)


def split(data: bytes, count: int, width: int) -> list[int]:
    """Numbers without sign."""
    return [int.from_bytes(data[k * width // 8 :][: width // 8], "little") for k in range(count)]


def e(width: int, *values: int) -> bytes:
    """Elements of a width of one's own."""
    return b"".join((value & (1 << width) - 1).to_bytes(width // 8, "little") for value in values)


def bits(*values: int) -> bytes:
    """A mask, element 0 first."""
    return e(64, sum(value << k for k, value in enumerate(values)))


def s(*values: float) -> list[int]:
    """Bits of binary32 numbers."""
    return [struct.unpack("<I", struct.pack("<f", value))[0] for value in values]


def d(*values: float) -> list[int]:
    """Bits of binary64 numbers."""
    return [struct.unpack("<Q", struct.pack("<d", value))[0] for value in values]


SLOT: Final = 0x100
"""Bytes of code of one run: each has its own place, so that none meets the translations of another."""
_places = itertools.cycle(range(CODE, CODE + CODE_BYTES, SLOT))


@cache
def _rig(name: str) -> Rig:
    return Rig(ENGINES[name]())


def run(
    code: str | int | bytes,
    vtype: str | int = "e32,m1",
    vl: int = 4,
    v: Mapping[int, Elements] | None = None,
    *,
    x: Mapping[int, int] | None = None,
    f: Mapping[int, int] | None = None,
    memory: Elements = b"",
    vstart: int = 0,
    vcsr: int = 0,
    frm: int = 0,
    status: int | None = None,
    vlen: int = 512,
) -> After:
    """Run a text, a word or bytes, from a state. x10 is `DATA` unless it is given, policies are tu, mu unless told."""
    text = vtype + ",tu,mu" if isinstance(vtype, str) and vtype.count(",") == 1 else vtype
    bits_ = TEXTS[text] if isinstance(text, str) else text
    sew = 8 << (bits_ >> 3 & 3)
    before = [_packed(memory, sew), {n: _packed(value, sew) for n, value in (v or {}).items()}]
    at = next(_places)
    words = code.to_bytes(4, "little") if isinstance(code, int) else code
    if isinstance(words, str):
        words = assemble(words, at)
    found = []
    for name in ("reference", "quick"):
        rig = _rig(name)
        hart = rig.hart
        csr.reset(hart, vlen)
        hart.own_vectors[:] = bytes([JUNK]) * len(hart.own_vectors)
        for n, data in before[1].items():  # type: ignore[union-attr]
            hart.own_vectors[n * vlen // 8 : n * vlen // 8 + len(data)] = data
        rig.data.view[:SEEN] = bytes([JUNK]) * SEEN
        rig.data.view[-SEEN:] = bytes(SEEN)
        rig.data.view[: len(before[0])] = before[0]
        for n in range(32):
            hart.words[n] = 0
            hart.words[F + n] = 0
        for n, value in {10: DATA, **(x or {})}.items():
            hart.set_x(n, value & (1 << 64) - 1)
        for n, value in (f or {}).items():
            hart.words[F + n] = value
        hart.words[VL], hart.words[VTYPE], hart.words[VSTART] = (0 if bits_ & VILL else vl), bits_, vstart
        hart.words[FFLAGS], hart.words[FRM] = 0, frm
        csr.write(hart, VCSR, vcsr, 3)
        if status is not None:
            hart.csr[MSTATUS] = status
        rig.space.write(at, words, UNKNOWN_ORIGIN)
        rig.engine.code_written(rig.host(at), len(words))
        hart.pc, hart.words[RETURN_ADDRESS] = at, at + len(words)
        rig.device.log.clear()
        retired = hart.retired
        end = rig.engine.run(hart, 1000)
        hart.words[RETURN_ADDRESS] = NO_ADDRESS
        after = After(
            sew,
            vlen,
            [hart.x(n) for n in range(32)],
            list(hart.words[F : F + 32]),
            hart.words[VL],
            hart.words[VTYPE],
            hart.words[VSTART],
            hart.words[VXRM] << 1 | hart.words[VXSAT],
            hart.words[FFLAGS],
            hart.csr.get(MSTATUS, 0),
            hart.retired - retired,
            bytes(hart.own_vectors),
            bytes(rig.data.view[:SEEN]),
            list(rig.device.log),
        )
        if end.why is not Why.RETURN:
            assert end.why is Why.TRAP
            after.cause, after.value, after.pc, after.reported = end.cause, end.value, end.pc - at, end.detail
        found.append(after)
    assert found[0] == found[1], "the engines differ"
    return found[0]


def _packed(values: Elements, sew: int) -> bytes:
    return bytes(values) if isinstance(values, bytes) else e(sew, *values)


def illegal(
    code: str | int, vtype: str | int = "e32,m1", reported: str = "", rule: str = "", vl: int = 4, **more: object
) -> After:
    """Run what must be illegal, and told so with this sentence and rule; gives the state."""
    after = run(code, vtype, vl, **more)  # type: ignore[arg-type]
    assert after.cause == ILLEGAL
    assert reported in after.reported
    assert f"[vector/{rule}: " in after.reported or not rule
    if isinstance(code, int):
        assert f"illegal instruction {code:#010x}" in after.reported
    return after


def changed(text: str, mask: int, value: int) -> int:
    """The word of a text with some bits set otherwise."""
    return int.from_bytes(assemble(text), "little") & ~mask | value
