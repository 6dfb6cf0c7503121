"""Random instructions: any operation in any form, with operands that mostly make sense.

Registers have roles, which `state` in `programs.py` fills: see `Roles`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.encoding.decode import VOP3B_NAMES, decode, lane_patterns
from softcard.isa.gcn.encoding.encode import encode, find_format, names_of
from softcard.isa.gcn.encoding.formats import KINDS, MATRIX_FORMS
from softcard.isa.gcn.encoding.shape import WITH_ACC, Slot, data_fields, slots
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations import table
from softcard.isa.gcn.semantics.matrix.table import FORMATS, Matrix, matrices
from softcard.isa.gcn.state import EXEC, M0, VCC
from softcard.isa.gcn.target import GFX7, GFX8, GFX9, GFX90A, GFX940, Target
from tests.agree.gcn.values import STYLES, of_style, pick

Rng = np.random.Generator

# Vector registers by what they hold at first; those from INPUTS on are hard values.
NEAR: Final = 0
"""Pair: global addresses, often side by side."""
FAR: Final = 2
"""Pair: global addresses anywhere in the data."""
ANYWHERE: Final = 6
"""Pair: flat addresses in LDS, private and global memory."""
LOCAL: Final = 4
"""LDS offsets side by side; one further: anywhere in LDS and a little beyond."""
SMALL: Final = 8
"""Small offsets; one further: small indices."""
WILD: Final = 10
"""Pair: addresses of which some are bad."""
INPUTS: Final = 12
OUTPUTS: Final = 40
LAST: Final = 63
# Scalar registers.
BASE: Final = 0
"""Pair: the middle of the data."""
OFFSETS: Final = (2, 3, 16)
RESOURCES: Final = (4, 8, 12)
"""V#s: raw, structured, swizzled."""
ANCHOR: Final = 18
"""Pair: address in code."""
FREE: Final = 20
"""From here on registers are anyone's."""
FREE_LAST: Final = 79
MANY: Final = 16
"""More registers of an operand than this are anywhere."""
KEPT: Final = 80
"""Loop counters and the like, up to 95, that no random instruction writes."""

SKIPPED: Final = frozenset({"s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done"})
COMPUTED: Final = frozenset(
    {"s_setpc_b64", "s_swappc_b64", "s_rfe_b64", "s_rfe_restore_b64", "s_cbranch_g_fork", "s_cbranch_join"}
)
JUMPS: Final = COMPUTED | {"s_call_b64", "s_cbranch_i_fork"}
FORMS: Final = {
    "sop1": "SOP1", "sop2": "SOP2", "sopc": "SOPC", "sopk": "SOPK", "sopp": "SOPP", "vop1": "VOP1", "vop2": "VOP2",
    "vopc": "VOPC",
    "vop3p": "VOP3P", "vintrp": "VINTRP", "ds": "DS", "flat": "FLAT", "global": "FLAT", "scratch": "FLAT",
    "mubuf": "MUBUF",
    "mtbuf": "MTBUF", "mimg": "MIMG", "exp": "EXP", "mai": "MAI", "vop3px": "VOP3PX",
}  # fmt: skip


def forms(op: Op, target: Target) -> tuple[str, ...]:
    """The forms of an operation on a processor."""
    if op.family == "smem":
        return ("SMRD" if target.level == GFX7 else "SMEM",)
    if op.family == "vop3":
        return ("VOP3B" if op.name in VOP3B_NAMES else "VOP3A",)
    found = [FORMS[op.family]]
    if table.is_promoted(op):
        found.append("VOP3B" if op.name in VOP3B_NAMES else "VOP3A")
    if table.has_sdwa(op, target):
        found.append(f"{found[0]}_SDWA")
    if table.has_dpp(op, target):
        found.append(f"{found[0]}_DPP")
    return tuple(found)


def every(target: Target) -> list[tuple[Op, str]]:
    """All operations of a processor in all their forms."""
    return [(op, form) for op in table.OPS if op.on(target) for form in forms(op, target)]


class Maker:
    """Makes instructions of one processor. `hard`: sources are first values that nothing has overwritten."""

    def __init__(self, rng: Rng, target: Target, *, hard: bool = False, wild: float = 0.03) -> None:
        self.rng = rng
        self.target = target
        self.hard = hard
        self.wild = wild
        self.m0 = -1

    def make(self, op: Op, form: str, pc: int = 0) -> tuple[bytes, Insn]:
        """Machine code of one instruction, and what it decodes to; it is `op`."""
        error: Exception | None = None
        for _ in range(60):
            try:
                fields, literal = self.fields(op, form)
                code = encode(self.target, op, form, fields, literal)
                insn = decode(self.target, code, pc)
            except SoftcardError as failed:
                error = failed
                continue
            if insn.op is op and insn.size == len(code):
                return code, insn
        raise AssertionError(f"no {form} of {op.name} on {self.target}: {error}")

    # ---- choices -------------------------------------------------------------------------------------------------
    def chance(self, p: float) -> bool:
        """Yes with probability p."""
        return bool(self.rng.random() < p)

    def below(self, n: int) -> int:
        """0 to n - 1."""
        return int(self.rng.integers(n))

    def vgpr(self, count: int = 1, *, written: bool = False) -> int:
        """A vector register, the first of `count`."""
        if self.chance(self.wild) or count > MANY:
            n = self.below(257 - count) if count > MANY or self.chance(0.3) else self.below(LAST)
        elif written:
            n = OUTPUTS + self.below(LAST + 2 - OUTPUTS - count)
        else:
            last = OUTPUTS if self.hard else LAST + 1
            n = INPUTS + self.below(last - INPUTS - count + 1)
            n = n & ~1 if count == 2 and self.chance(0.7) else n
        return n & ~1 if count > 1 and self.target.encoding >= GFX90A else n

    def sgpr(self, count: int = 1, *, written: bool = False) -> int:
        """A scalar register, the first of `count`, aligned as its size wants."""
        step = min(count, 4)
        if written and self.chance(0.12) and count <= 2:
            return VCC + (self.below(2) if count == 1 else 0)
        if written and self.chance(0.05) and count <= 2:
            return EXEC + (self.below(2) if count == 1 else 0)
        if not written and self.chance(0.15) and count <= 2:
            return int(pick(self.rng, (VCC, EXEC))) + (self.below(2) if count == 1 else 0)
        if count == 1 and self.chance(0.02 if written else 0.04):
            return M0
        n = FREE + self.below(FREE_LAST + 2 - FREE - count)
        return max(n // step * step, -(-FREE // step) * step)

    def scalar_source(self, count: int, *, literal: bool) -> int:
        """An operand code below 256."""
        kind = self.rng.random()
        if kind < 0.62:
            return self.sgpr(count)
        if kind < 0.82:
            return 128 + self.below(81)
        if kind < 0.9:
            return 240 + self.below(9 if self.target.level > GFX7 else 8)
        if kind < 0.95 and literal:
            return 255
        specials = (251, 252, 253, *((235, 236, 237, 238) if self.target.level == GFX9 else ()))
        return int(pick(self.rng, specials))

    def source(self, slot: Slot, form: str) -> int:
        """A source operand code for a slot."""
        scalar_form = form.startswith("S")
        literal = form in ("SOP1", "SOP2", "SOPC", "VOP1", "VOP2", "VOPC") and slot.words <= 2
        if scalar_form:
            return self.scalar_source(slot.words, literal=literal)
        if slot.type == "m64":
            return self.sgpr(2) if self.chance(0.9) else self.scalar_source(2, literal=False)
        if slot.words > 2 or self.chance(0.7):
            return 256 + self.vgpr(slot.words)
        if self.chance(0.01) and slot.words == 1:
            return 254
        return self.scalar_source(slot.words, literal=literal)

    # ---- fields --------------------------------------------------------------------------------------------------
    def fields(self, op: Op, form: str) -> tuple[dict[str, int], int | None]:
        """Fields of an instruction, and its literal."""
        family = op.family
        if form in ("DS", "FLAT", "MUBUF", "MTBUF", "SMEM", "SMRD", "MIMG"):
            fields = getattr(self, f"_{form.lower()}")(op, form)
            names = names_of(find_format(self.target, op, form))
            return self._newer({name: n for name, n in fields.items() if name in names}, op, form), None
        fields = self._modifiers(op, form)
        for slot in slots(op, form):
            self._operand(op, form, slot, fields)
        if form.endswith(("_DPP", "_SDWA")):
            self._extended(op, form, fields)
        elif form in ("VOP2", "VOPC") and fields.get("src1", 256) < 256 and "lane" not in op.name:
            fields["src1"] = 256 + self.vgpr(2)
        if family in ("sopk", "sopp"):
            self._immediate(op, fields)
        needs = any(fields.get(name) == 255 for name in ("ssrc0", "ssrc1", "src0", "src1", "src2"))
        needs |= any(slot.kind == "literal" for slot in slots(op, form)) and form in ("VOP2", "SOPK")
        return fields, self._literal() if needs else None

    def _newer(self, fields: dict[str, int], op: Op, form: str) -> dict[str, int]:
        """On gfx90a and later processors, data registers of memory instructions may be accumulation registers."""
        if self.target.encoding >= GFX90A and form in WITH_ACC:
            if self.chance(0.3):
                fields |= {name: fields[name] + 256 for name in data_fields(op, form)}
            if form != "DS":
                fields["scc"] = self.below(2)
        if self.target.encoding >= GFX940 and op.family == "scratch":
            fields["sve"] = self.below(2)
        return fields

    def _literal(self) -> int:
        return int(of_style(self.rng, pick(self.rng, STYLES), 2)[0])

    def _modifiers(self, op: Op, form: str) -> dict[str, int]:
        """Everything that is not an operand, at random."""
        fields: dict[str, int] = {}
        plain = self.chance(0.35)
        for name in sorted(names_of(find_format(self.target, op, form))):
            width = KINDS[name].width if name in KINDS else 1
            if op.name.startswith("v_cvt_scalef32") and name in ("abs", "neg", "omod", "clamp"):
                fields[name] = 0  # they raise `BeyondModel`
            elif name in ("abs", "neg", "neg_hi", "op_sel", "op_sel_hi", "omod", "clamp"):
                width = {"op_sel": 4 if form == "VOP3A" else 3, "op_sel_hi": 3, "clamp": 1, "omod": 2}.get(name, 3)
                fields[name] = 0 if plain else self.below(1 << width) & self.below(1 << width)
            elif name in ("src0_sext", "src1_sext", "bound_ctrl"):
                fields[name] = self.below(2)
            elif name not in ("sdst", "vdst", "src0", "src1", "src2", "ssrc0", "ssrc1", "dpp_ctrl", "simm16"):
                fields[name] = self.below(1 << max(width, 1))
        if form == "VOP3P" and plain:
            fields["op_sel_hi"] = 7
        matrix = matrices().get((self.target.name, op.name)) if form in MATRIX_FORMS else None
        if matrix is not None:
            fields |= self._matrix(matrix)
        for name in ("src0", "src1", "src2") if form in ("VOP3A", "VOP3B", "VOP3P") else ():
            fields[name] = 0
        return fields

    def _matrix(self, matrix: Matrix) -> dict[str, int]:
        """The fields of a matrix instruction, mostly with a meaning."""
        if matrix.is_scaled:
            formats = {name: self.below(len(FORMATS)) for name in ("cbsz", "blgp")}
            return formats | {"op_sel": self.below(4), "op_sel_hi": self.below(4)}
        if matrix.is_sparse or self.chance(0.02):
            return {"cbsz": self.below(8), "abid": self.below(16), "blgp": self.below(8) * (not matrix.is_sparse)}
        if matrix.takes_formats:
            return {"cbsz": self.below(len(FORMATS)), "abid": 0, "blgp": self.below(len(FORMATS))}
        fields = {"cbsz": self.below(matrix.blocks.bit_length()) * matrix.takes_block * self.below(2)}
        fields["abid"] = self.below(1 << fields["cbsz"])
        fields["blgp"] = self.below(8) * (matrix.takes_lanes or matrix.takes_signs) * self.below(2)
        return fields

    def _operand(self, op: Op, form: str, slot: Slot, fields: dict[str, int]) -> None:
        if slot.kind in ("v", "a", "va"):
            file = 256 if slot.kind == "a" or (slot.kind == "va" and self.chance(0.5)) else 0
            fields[slot.field] = file + self.vgpr(slot.words, written=True)
        elif slot.kind in ("vsrc", "asrc", "vasrc") or (slot.kind == "csrc" and self.chance(0.7)):
            file = 512 if slot.kind == "asrc" or (slot.kind != "vsrc" and self.chance(0.5)) else 256
            fields[slot.field] = file + self.vgpr(slot.words, written=slot.kind == "asrc" and self.chance(0.7))
        elif slot.kind == "csrc":
            fields[slot.field] = 128 + self.below(81)
        elif slot.kind == "s":
            if slot.field == "vdst":
                fields["vdst"] = self.sgpr(1, written=True)
            else:
                fields[slot.field] = self.sgpr(slot.words, written=True)
        elif slot.kind == "src":
            fields[slot.field] = self.source(slot, form)
            if op.name in ("v_readlane_b32", "v_writelane_b32") and (slot.field == "src1" or "write" in op.name):
                fields[slot.field] = self.scalar_source(1, literal=False)
            elif op.name.startswith("s_movrel"):
                fields[slot.field] = self.sgpr(slot.words)
            elif op.name in ("v_readfirstlane_b32", "v_readlane_b32", "v_swap_b32") or op.name.startswith("v_movrel"):
                fields[slot.field] = 256 + self.vgpr()

    def _extended(self, op: Op, form: str, fields: dict[str, int]) -> None:
        """SDWA and DPP: vector registers, selections, lane patterns."""
        for name in ("src0", "src1"):
            if name in fields and (form.endswith("_DPP") or self.target.level == GFX8 or self.chance(0.85)):
                fields[name] = 256 + self.vgpr()
            elif fields.get(name, 256) < 256:
                fields[name] = self.sgpr()
        for name in ("dst_sel", "src0_sel", "src1_sel"):
            if name in fields:
                fields[name] = self.below(7)
        if "dst_unused" in fields:
            fields["dst_unused"] = self.below(3)
        if form == "VOPC_SDWA":
            fields["sdst"] = -1 if self.target.level == GFX8 or self.chance(0.5) else self.sgpr(2, written=True)
            if self.target.level == GFX8:
                del fields["sdst"]
        if form.endswith("_DPP"):
            patterns = lane_patterns(op, self.target.encoding)
            while True:
                control = self.below(0x100) if self.chance(0.3) else 0x100 + self.below(0x60)
                if control in patterns:
                    break
            fields["dpp_ctrl"] = control
            for slot in slots(op, form):
                if slot.words == 2 and slot.field in ("src0", "src1"):
                    fields[slot.field] = 256 + self.vgpr(2)
            if self.chance(0.6):
                fields["row_mask"] = fields["bank_mask"] = 15
        names = names_of(find_format(self.target, op, form))
        for name in ("abs", "neg"):
            if name in fields:
                fields[name] &= 3
        for name in [name for name in fields if name not in names]:
            del fields[name]

    def _immediate(self, op: Op, fields: dict[str, int]) -> None:
        fields["simm16"] = pick(self.rng, (0, 1, 0x7FFF, 0x8000, 0xFFFF, self.below(1 << 16)))
        if "hwreg" in [slot.kind for slot in slots(op, "SOPK")]:
            register = pick(self.rng, (1, 1, 1, 2, 3, 4, 5, 6, 7, *((15,) if self.target.level == GFX9 else ()), 9))
            at = self.below(10) if self.chance(0.8) else self.below(32)
            size = self.below(max(1, 10 - at)) if register == 1 and "setreg" in op.name else self.below(32)
            if register == 1 and "setreg" in op.name:
                at = min(at, 9)
            fields["simm16"] = register | at << 6 | size << 11
        elif op.name == "s_trap":
            fields["simm16"] = 2 * self.below(4) + (not self.hard and self.chance(0.1))
        elif op.name == "s_waitcnt":
            fields["simm16"] = self.below(1 << 12)
        elif op.name in ("s_sendmsg", "s_sendmsghalt"):
            fields["simm16"] = 1 + self.below(3)

    # ---- memory --------------------------------------------------------------------------------------------------
    def _data(self, op: Op, form: str, fields: dict[str, int], names: tuple[str, ...]) -> None:
        """Registers of data fields; those an operation does not use are anything."""
        used = {slot.field: slot.words for slot in slots(op, form)}
        for name in names:
            written = name in ("vdst",) or (name == "vdata" and "store" not in op.name)
            fields[name] = self.vgpr(used.get(name, 1), written=written)

    def _ds(self, op: Op, form: str) -> dict[str, int]:
        fields: dict[str, int] = {"addr": LOCAL + self.chance(0.5)}
        self._data(op, form, fields, ("vdst", "data0", "data1"))
        if self.chance(0.1) or op.name.startswith(("ds_bpermute", "ds_permute", "ds_swizzle")):
            fields["addr"] = self.vgpr()
        gds_only = op.name.startswith(("ds_gws", "ds_ordered"))
        fields["gds"] = int(gds_only or self.chance(0.08))
        style = self.rng.random()
        fields["offset0"] = 0 if style < 0.4 else 4 * self.below(16) if style < 0.7 else self.below(256)
        fields["offset1"] = self.below(256) if "2" in op.name[:9] or op.name == "ds_swizzle_b32" else self.below(2)
        if "src2" in op.name or op.name == "ds_ordered_count":
            fields["offset1"] = self.below(256)
        return fields

    def _flat(self, op: Op, form: str) -> dict[str, int]:
        fields = self._any_flat(op, form)
        if self.hard and "offset" in fields:
            fields["offset"] = 8 * (fields["offset"] % 4)
        return fields

    def _any_flat(self, op: Op, form: str) -> dict[str, int]:
        fields: dict[str, int] = {"glc": self.below(2), "slc": self.below(2)}
        self._data(op, form, fields, ("vdst", "data"))
        where = (NEAR, NEAR, FAR) if op.family == "global" else (NEAR, FAR, ANYWHERE)
        fields["addr"] = WILD if self.chance(self.wild) else pick(self.rng, where)
        if self.target.level < GFX9:
            return fields
        fields["lds"] = int(self.chance(0.05))
        if op.family == "flat":
            fields["offset"] = pick(self.rng, (0, 0, 8, 64, 4, self.below(1 << 12)))
            fields["saddr"] = 0x7F
            return fields
        fields["offset"] = pick(self.rng, (0, 0, 8, -8, 64, 4, self.below(1 << 13) - (1 << 12)))
        fields["saddr"] = 0x7F
        if op.family == "scratch":
            fields["offset"] = pick(self.rng, (0, 0, 4, 8, -4, self.below(64)))
            fields["addr"] = SMALL + 1
            if self.chance(0.4):
                fields["saddr"] = pick(self.rng, OFFSETS)
        elif self.chance(0.3):
            fields["saddr"], fields["addr"] = BASE, SMALL
        return fields

    def _mubuf(self, op: Op, form: str) -> dict[str, int]:
        fields: dict[str, int] = {
            "glc": self.below(2),
            "slc": self.below(2),
            "idxen": self.below(2),
            "offen": self.below(2),
        }
        self._data(op, form, fields, ("vdata",))
        fields["srsrc"] = pick(self.rng, RESOURCES)
        fields["soffset"] = pick(self.rng, (128, 128, 128 + self.below(65), *OFFSETS, 193 + self.below(16)))
        fields["offset"] = pick(self.rng, (0, 4, 16, self.below(1 << 12)))
        fields["vaddr"] = SMALL if not fields["idxen"] else SMALL + 1
        if fields["idxen"] and fields["offen"]:
            fields["vaddr"] = SMALL
        if form == "MUBUF":
            fields["lds"] = int(self.chance(0.04)) if "load" in op.name else 0
            fields["tfe"] = int(self.chance(0.04)) if "load" in op.name else 0
        if self.target.level == GFX7:
            fields["addr64"] = int(self.chance(0.15))
            if fields["addr64"]:
                fields |= {"vaddr": SMALL, "idxen": 0, "offen": 0}
        return fields

    def _mtbuf(self, op: Op, form: str) -> dict[str, int]:
        fields = self._mubuf(op, form)
        fields["dfmt"], fields["nfmt"] = self.below(16), self.below(8)
        return fields

    def _scalar_memory(self, op: Op, form: str) -> dict[str, int]:
        used = {slot.field: slot.words for slot in slots(op, form)}
        data = "sdst" if form == "SMRD" else "sdata"
        count = next((words for name, words in used.items() if name in ("sdst", "sdata")), 2)
        written = not ("store" in op.name or "atomic" in op.name)
        fields = {
            data: self.sgpr(count, written=written),
            "sbase": BASE if used.get("sbase", 2) == 2 else pick(self.rng, RESOURCES),
        }
        if not written and fields[data] >= 100:
            fields[data] = FREE
        return fields

    def _smrd(self, op: Op, form: str) -> dict[str, int]:
        fields = self._scalar_memory(op, form)
        fields["imm"] = self.below(2)
        fields["offset"] = self.below(256) if fields["imm"] else pick(self.rng, OFFSETS)
        return fields

    def _smem(self, op: Op, form: str) -> dict[str, int]:
        fields = self._scalar_memory(op, form)
        fields["imm"], fields["glc"] = self.below(2), self.below(2)
        if fields["imm"]:
            fields["offset"] = pick(self.rng, (0, 4, 64, self.below(1 << 12)))
            if self.target.level == GFX9 and self.chance(0.2):
                fields["offset"] = -4 * self.below(64)
        else:
            fields["offset"] = pick(self.rng, OFFSETS)
        if self.target.level == GFX9:
            fields["soffset_en"] = int(self.chance(0.3))
            fields["soffset"] = pick(self.rng, OFFSETS)
        return fields

    def _mimg(self, op: Op, form: str) -> dict[str, int]:
        fields: dict[str, Any] = {"dmask": self.below(16), "unorm": self.below(2), "glc": self.below(2)}
        fields["vaddr"], fields["vdata"] = SMALL, self.vgpr(4, written=True)
        fields["srsrc"], fields["ssamp"] = 4 * self.below(6), 12
        fields["da"] = self.below(2)
        return fields
