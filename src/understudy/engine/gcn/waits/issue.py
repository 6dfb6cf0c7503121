"""An instruction as the scoreboard sees it: registers as bits of one number, counters, and what comes late.

Registers follow from the instruction's meaning (`jit.effects`) where it says them, else from its operands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from understudy.engine.gcn.jit.effects import Effects
from understudy.isa.gcn.asm.printer import text
from understudy.isa.gcn.encoding.shape import Slot, visible_slots
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.state import EXEC, M0, SGPRS, VCC, VGPRS
from understudy.isa.gcn.target import GFX9

SGPR_BIT: Final = VGPRS
"""Bit of s0; those of vector registers come before it."""
LDS_STORED: Final = 1 << SGPR_BIT + SGPRS
"""Stands for what is on its way to LDS."""
SCALAR_STORED: Final = LDS_STORED << 1
"""Likewise for the scalar cache."""
LDS_DMA: Final = LDS_STORED << 2
"""Likewise for what vector memory sends to LDS."""
VECTOR_BITS: Final = (1 << VGPRS) - 1
SCALAR_BITS: Final = (1 << SGPRS) - 1 << SGPR_BIT
VCC_BITS: Final = 3 << SGPR_BIT + VCC

VALU, SALU, VECTOR, LDS, GDS, SCALAR, EXPORT = "valu", "salu", "vector", "lds", "gds", "scalar", "export"
"""Kinds of instructions; `VECTOR` and `SCALAR` are memory instructions."""
VECTOR_FORMS: Final = frozenset({"FLAT", "MUBUF", "MTBUF", "MIMG"})
MOST: Final = {"vm": {7: 15, 8: 15, 9: 63}, "lgkm": {7: 15, 8: 15, 9: 15}, "exp": {7: 7, 8: 7, 9: 7}}
"""The largest values of the counters by generation: so many can be outstanding, and waiting for that is no wait."""
MEMORY, FLAT, SAMPLER = "memory", "flat", "sampler"
"""Orders in which things come back, among others."""
UNORDERED: Final = frozenset({SCALAR, FLAT})
"""Orders that are none."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a counter counts of an instruction: things of one `order` are done one after the other.

    `owed` are registers (and the like) that are only there when it is done, `lent` those that must stay until then.
    """

    counter: str
    order: str
    owed: int = 0
    lent: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Issue:
    """An instruction. `takes`: wait states that it is; `wide`: data registers that a store reads a little late."""

    insn: Insn
    kind: str
    reads: int
    writes: int
    flow: str
    target: int
    counted: tuple[Counted, ...] = ()
    takes: int = 1
    wide: int = 0
    has_sampler: bool = False
    _text: list[str] = field(default_factory=list)

    @property
    def pc(self) -> int:
        """Where it stands."""
        return self.insn.pc

    @property
    def level(self) -> int:
        """The generation."""
        return self.insn.target.level

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.insn.name

    @property
    def stores(self) -> bool:
        """Whether it stores to memory or changes it."""
        return "store" in self.name or "atomic" in self.name

    @property
    def text(self) -> str:
        """The instruction as assembly text."""
        if not self._text:
            self._text.append(text(self.insn))
        return self._text[0]

    @property
    def waits(self) -> dict[str, int]:
        """Of s_waitcnt: how many may be outstanding by counter; counters that it does not wait for are absent."""
        if self.name != "s_waitcnt":
            return {}
        n = self.insn["simm16"] & 0xFFFF
        fields = {"vm": self.insn.target.vmcnt(n), "exp": n >> 4 & 7, "lgkm": n >> 8 & 15}
        return {counter: most for counter, most in fields.items() if most < MOST[counter][self.level]}


def bits(first: int, count: int = 1) -> int:
    """The bits of `count` registers from bit `first` on."""
    return (1 << count) - 1 << first


def registers_of(mask: int) -> list[str]:
    """The registers of a mask by their names."""
    names = [f"v{n}" for n in range(VGPRS) if mask >> n & 1]
    special = {VCC: "vcc_lo", VCC + 1: "vcc_hi", M0: "m0", EXEC: "exec_lo", EXEC + 1: "exec_hi"}
    return names + [special.get(n, f"s{n}") for n in range(SGPRS) if mask >> SGPR_BIT + n & 1]


def issue_of(insn: Insn, found: Effects) -> Issue:
    """What an instruction with these effects is to the scoreboard."""
    kind = _kind(insn)
    reads, writes = _registers(insn, found)
    takes = 1 + (insn["simm16"] & 15) if insn.name == "s_nop" else 1
    return Issue(
        insn,
        kind,
        reads,
        writes,
        found.flow,
        found.target,
        tuple(_counted(insn, kind, found, reads, writes)),
        takes,
        _wide(insn, reads),
        "sample" in insn.name or "gather4" in insn.name,
    )


def _kind(insn: Insn) -> str:
    form = insn.form
    if form in VECTOR_FORMS:
        return VECTOR
    if form == "DS":
        return GDS if insn.get("gds") else LDS
    if form in ("SMRD", "SMEM"):
        return SCALAR
    if form == "EXP":
        return EXPORT
    return VALU if form.startswith("V") else SALU


# ---- registers -------------------------------------------------------------------------------------------------------
def _registers(insn: Insn, found: Effects) -> tuple[int, int]:
    """What is read and written."""
    reads = _mask(found.v_reads, found.s_reads, found.mask_reads)
    writes = _mask(found.v_writes, found.s_writes, found.mask_writes)
    if found.indexes_scalars or (found.reference and not reads | writes):
        return _by_operands(insn)
    return reads, writes


def _mask(vectors: Iterable[int], scalars: Iterable[int], pairs: Iterable[int]) -> int:
    made = 0
    for n in vectors:
        made |= 1 << n
    for n in scalars:
        made |= 1 << SGPR_BIT + n
    for n in pairs:
        made |= 3 << SGPR_BIT + n
    return made & (LDS_STORED - 1)


def _by_operands(insn: Insn) -> tuple[int, int]:
    """The registers that the text names."""
    if insn.form == "EXP":
        count = 2 if insn["compr"] else 4
        return _mask((insn[f"vsrc{k}"] for k in range(count) if insn["en"] >> k & 1), (), ()), 0
    reads = writes = 0
    is_load, is_atomic = "store" not in insn.name, "atomic" in insn.name
    for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields):
        named = _named(insn, slot)
        is_result = slot.field in ("vdst", "sdst") or (slot.field in ("vdata", "sdata") and is_load)
        if is_result and (not is_atomic or insn.get("glc")):
            writes |= named
        if not is_result or is_atomic:
            reads |= named
    return reads, writes


def _named(insn: Insn, slot: Slot) -> int:
    """The registers of one operand."""
    if slot.kind not in ("v", "s", "src"):
        return 3 << SGPR_BIT + VCC if slot.kind == "vcc" else 0
    code = insn[slot.field]
    if slot.kind == "v" or code >= 256:
        return bits(code & 0xFF, slot.words) & VECTOR_BITS
    return bits(SGPR_BIT + code, slot.words) & SCALAR_BITS if 0 <= code < SGPRS else 0


# ---- counters --------------------------------------------------------------------------------------------------------
def _counted(insn: Insn, kind: str, found: Effects, reads: int, writes: int) -> Iterable[Counted]:
    if kind == VECTOR:
        if not insn.name.startswith("buffer_wbinvl1"):
            yield from _vector(insn, writes)
    elif kind == LDS:
        stored = LDS_STORED if found.stores else 0
        yield Counted("lgkm", LDS, writes | stored)
    elif kind == GDS:
        yield Counted("lgkm", GDS, writes)
        data = _fields(insn, "data0", "data1") & reads
        if data:
            yield Counted("exp", GDS, lent=data)
    elif kind == SCALAR:
        stored = SCALAR_STORED if found.stores else 0
        yield Counted("lgkm", SCALAR, writes | stored)
    elif kind == EXPORT:
        to = insn["tgt"]
        yield Counted("exp", "parameter" if to >= 32 else "position" if to >= 12 else "colour", lent=reads)
    elif insn.name in ("s_sendmsg", "s_sendmsghalt"):
        yield Counted("lgkm", "message")


def _vector(insn: Insn, writes: int) -> Iterable[Counted]:
    if insn.get("lds") or insn.name == "buffer_store_lds_dword":
        yield Counted("vm", MEMORY, LDS_DMA if insn.get("lds") else 0)
    else:
        yield Counted("vm", MEMORY, writes)
        if insn.op.family == "flat":
            yield Counted("lgkm", FLAT, writes | (LDS_STORED if "store" in insn.name or "atomic" in insn.name else 0))


def _fields(insn: Insn, *names: str) -> int:
    """The registers of some operands."""
    made = 0
    for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields):
        if slot.field in names:
            made |= _named(insn, slot)
    return made


def _wide(insn: Insn, reads: int) -> int:
    """Data registers of a store of more than 64 bits, which the next VALU instruction must leave alone."""
    if insn.form not in VECTOR_FORMS or not ("store" in insn.name or "cmpswap_x2" in insn.name) or insn.get("lds"):
        return 0
    if insn.form in ("MUBUF", "MTBUF") and insn["soffset"] < SGPRS:
        return 0
    if insn.form == "MIMG" and (insn.target.level >= GFX9 or not insn["r128"]):
        return 0
    data = _fields(insn, "data", "vdata")
    return data & reads if data.bit_count() > 2 else 0
