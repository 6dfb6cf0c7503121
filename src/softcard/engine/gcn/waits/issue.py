"""Instructions in the form that the scoreboard uses: register masks, counters and late results.

A register mask is an integer with one bit per register. The registers of an instruction follow from its semantics
(`effects`) if these name them, else from its operands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from softcard.engine.gcn.effects import Effects
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.coherence import CACHE_OPERATIONS
from softcard.isa.gcn.encoding.formats import MATRIX_FORMS
from softcard.isa.gcn.encoding.operands import vector_rows
from softcard.isa.gcn.encoding.shape import Slot, visible_slots
from softcard.isa.gcn.hazards import Formats
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import EXEC, M0, ROWS, SGPRS, VCC, register_name
from softcard.isa.gcn.target import GFX9

SGPR_BIT: Final = ROWS
"""The position of the bit of s0 in a register mask; vector and accumulation registers have lower positions."""
LDS_STORED: Final = 1 << SGPR_BIT + SGPRS
"""The bit of a register mask that stands for data on its way to LDS."""
SCALAR_STORED: Final = LDS_STORED << 1
"""The bit of a register mask that stands for data in the scalar cache that is not in memory yet."""
LDS_DMA: Final = LDS_STORED << 2
"""The bit of a register mask that stands for data that vector memory instructions send to LDS."""
VECTOR_BITS: Final = (1 << ROWS) - 1
SCALAR_BITS: Final = (1 << SGPRS) - 1 << SGPR_BIT
VCC_BITS: Final = 3 << SGPR_BIT + VCC

VALU, SALU, VECTOR, LDS, GDS, SCALAR, EXPORT = "valu", "salu", "vector", "lds", "gds", "scalar", "export"
"""Names of the kinds of instructions; `VECTOR` and `SCALAR` are memory instructions."""
VECTOR_FORMS: Final = frozenset({"FLAT", "MUBUF", "MTBUF", "MIMG"})
MOST: Final = {"vm": {7: 15, 8: 15, 9: 63}, "lgkm": {7: 15, 8: 15, 9: 15}, "exp": {7: 7, 8: 7, 9: 7}}
"""The largest value of each counter by generation. Waiting for that many outstanding operations has no effect."""
MEMORY, FLAT, SAMPLER = "memory", "flat", "sampler"
"""Names of three orders, that is, groups of operations that complete one after the other."""
UNORDERED: Final = frozenset({SCALAR, FLAT})
"""The orders whose operations may complete in any sequence."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The effect of an instruction on a counter: it starts an operation of the given `order`.

    Operations of one order complete one after the other. `owed` is a mask of the registers (and pseudo-registers for
    memory data) that are ready only when the operation completes. `locked` is a mask of the registers that must not
    change until then.
    """

    counter: str
    order: str
    owed: int = 0
    locked: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Issue:
    """An instruction in the form that the scoreboard uses.

    `takes` is the number of wait states that the instruction itself takes. `wide` is a mask of the data registers that
    a wide store reads late, so that the next VALU instruction must not overwrite them.
    """

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
        """The address of the instruction."""
        return self.insn.pc

    @property
    def level(self) -> int:
        """The generation of the processor (7, 8 or 9)."""
        return self.insn.target.level

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.insn.name

    @property
    def is_matrix(self) -> bool:
        """True for a matrix instruction."""
        return self.insn.form in MATRIX_FORMS

    @property
    def formats(self) -> Formats:
        """The formats of the factors of an f8f6f4 matrix instruction; (0, 0) for other instructions."""
        return (self.insn["cbsz"], self.insn["blgp"]) if self.name.endswith("f8f6f4") else (0, 0)

    @property
    def addend(self) -> int:
        """The register mask of the addend C of a matrix instruction."""
        return fields_of(self.insn, "vdst" if self.name.startswith("v_smfmac") else "src2")

    @property
    def factors(self) -> int:
        """The register mask of the factors of a matrix instruction or dot product.

        These are A and B, for a sparse A also its indices, and the scales of A and B.
        """
        more = ("src2",) if self.name.startswith("v_smfmac") else ("scale_a", "scale_b")
        return fields_of(self.insn, "src0", "src1", *more)

    @property
    def stores(self) -> bool:
        """True if the instruction stores to memory or updates memory."""
        return "store" in self.name or "atomic" in self.name

    @property
    def text(self) -> str:
        """The instruction as assembly text."""
        if not self._text:
            self._text.append(text(self.insn))
        return self._text[0]

    @property
    def waits(self) -> dict[str, int]:
        """The number of operations that an s_waitcnt lets stay outstanding, by counter.

        Counters that it does not wait for are absent.
        """
        if self.name != "s_waitcnt":
            return {}
        n = self.insn["simm16"] & 0xFFFF
        fields = {"vm": self.insn.target.vmcnt(n), "exp": n >> 4 & 7, "lgkm": n >> 8 & 15}
        return {counter: most for counter, most in fields.items() if most < MOST[counter][self.level]}


def bits(first: int, count: int = 1) -> int:
    """Return a mask of `count` registers from bit `first` on."""
    return (1 << count) - 1 << first


def registers_of(mask: int) -> list[str]:
    """Return the names of the registers in a mask."""
    names = [register_name(n) for n in range(ROWS) if mask >> n & 1]
    special = {VCC: "vcc_lo", VCC + 1: "vcc_hi", M0: "m0", EXEC: "exec_lo", EXEC + 1: "exec_hi"}
    return names + [special.get(n, f"s{n}") for n in range(SGPRS) if mask >> SGPR_BIT + n & 1]


def issue_of(insn: Insn, found: Effects) -> Issue:
    """Return an instruction with these effects in the form that the scoreboard uses."""
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
    return VALU if form in MATRIX_FORMS or form.startswith("V") else SALU


# ---- registers -------------------------------------------------------------------------------------------------------
def _registers(insn: Insn, found: Effects) -> tuple[int, int]:
    """Return the registers that an instruction reads and writes, as two masks."""
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
    """Return the registers that the instruction's operands name, read and written, as two masks."""
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
        if not is_result or is_atomic or insn.name.startswith("v_smfmac"):
            reads |= named
    return reads, writes


def _named(insn: Insn, slot: Slot) -> int:
    """Return the registers of one operand as a mask."""
    if slot.kind == "vcc":
        return 3 << SGPR_BIT + VCC
    if slot.kind not in ("v", "a", "va", "s") and not slot.kind.endswith("src"):
        return 0
    rows, code = vector_rows(insn, slot), insn[slot.field]
    if rows:
        return bits(rows.start, len(rows)) & VECTOR_BITS
    return bits(SGPR_BIT + code, slot.words) & SCALAR_BITS if 0 <= code < SGPRS else 0


# ---- counters --------------------------------------------------------------------------------------------------------
def _counted(insn: Insn, kind: str, found: Effects, reads: int, writes: int) -> Iterable[Counted]:
    if kind == VECTOR:
        if insn.name not in CACHE_OPERATIONS:
            yield from _vector(insn, writes)
    elif kind == LDS:
        stored = LDS_STORED if found.stores else 0
        yield Counted("lgkm", LDS, writes | stored)
    elif kind == GDS:
        yield Counted("lgkm", GDS, writes)
        data = fields_of(insn, "data0", "data1") & reads
        if data:
            yield Counted("exp", GDS, locked=data)
    elif kind == SCALAR:
        stored = SCALAR_STORED if found.stores else 0
        yield Counted("lgkm", SCALAR, writes | stored)
    elif kind == EXPORT:
        to = insn["tgt"]
        yield Counted("exp", "parameter" if to >= 32 else "position" if to >= 12 else "colour", locked=reads)
    elif insn.name in ("s_sendmsg", "s_sendmsghalt"):
        yield Counted("lgkm", "message")


def _vector(insn: Insn, writes: int) -> Iterable[Counted]:
    if insn.get("lds") or insn.name == "buffer_store_lds_dword":
        yield Counted("vm", MEMORY, LDS_DMA if insn.get("lds") else 0)
    else:
        yield Counted("vm", MEMORY, writes)
        if insn.op.family == "flat":
            yield Counted("lgkm", FLAT, writes | (LDS_STORED if "store" in insn.name or "atomic" in insn.name else 0))


def fields_of(insn: Insn, *names: str) -> int:
    """Return the registers of the operands in the encoding fields `names`, as a mask."""
    made = 0
    for slot in visible_slots(insn.op, insn.target, insn.form, insn.fields):
        if slot.field in names:
            made |= _named(insn, slot)
    return made


def _wide(insn: Insn, reads: int) -> int:
    """Return the data registers of a store wider than 64 bits, which the next VALU instruction must preserve."""
    if insn.form not in VECTOR_FORMS or not ("store" in insn.name or "cmpswap_x2" in insn.name) or insn.get("lds"):
        return 0
    if insn.form in ("MUBUF", "MTBUF") and insn["soffset"] < SGPRS:
        return 0
    if insn.form == "MIMG" and (insn.target.level >= GFX9 or not insn["r128"]):
        return 0
    data = fields_of(insn, "data", "vdata")
    return data & reads if data.bit_count() > 2 else 0
