"""The table of all operations of GFX7, GFX8 and GFX9, collected from the encodings' modules, with lookups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import chain
from typing import Final

from softcard.core.errors import ModelBug
from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.operations import (
    buffer,
    ds,
    flat,
    graphics,
    image,
    mai,
    smem,
    sop,
    sopk,
    sopp,
    vop1,
    vop2,
    vop3,
    vop3p,
    vopc,
)
from softcard.isa.gcn.target import GFX7, GFX8, GFX9, GFX90A, TARGETS, Target

OPS: Final[tuple[Op, ...]] = tuple(
    chain(
        sop.OPS, sopk.OPS, sopp.OPS, smem.OPS,
        vop1.OPS, vop2.OPS, vopc.OPS, vop3.OPS, vop3p.OPS, mai.OPS,
        ds.OPS, flat.OPS, buffer.OPS, image.OPS, graphics.OPS,
    )
)  # fmt: skip
"""The operations of all families, family by family."""

PROMOTED: Final[Mapping[int, Mapping[str, int]]] = {
    GFX7: {"vopc": 0, "vop2": 0x100, "vop1": 0x180},
    GFX8: {"vopc": 0, "vop2": 0x100, "vop1": 0x140},
    GFX9: {"vopc": 0, "vop2": 0x100, "vop1": 0x140},
}
"""The number that is added to the opcode of a 32-bit vector operation to form its VOP3 opcode.

The keys are the generation and the family.
"""
NOT_PROMOTED: Final = frozenset({
    "v_madmk_f32", "v_madak_f32", "v_madmk_f16", "v_madak_f16", "v_fmamk_f32", "v_fmaak_f32", "v_swap_b32",
    "v_readfirstlane_b32", "v_accvgpr_mov_b32",
})  # fmt: skip
"""The 32-bit vector operations that have no VOP3 form."""
_EXTENDED: Final = ("vop1", "vop2", "vopc")
_PLAIN: Final = NOT_PROMOTED | {
    "v_nop", "v_clrexcp", "v_movreld_b32", "v_movrels_b32", "v_movrelsd_b32", "v_permlane16_swap_b32",
    "v_permlane32_swap_b32",
}  # fmt: skip
_NO_SDWA9: Final = frozenset({
    "v_mac_f32", "v_mac_f16", "v_fmac_f32", "v_dot2c_f32_f16", "v_dot2c_i32_i16", "v_dot4c_i32_i8", "v_dot8c_i32_i4",
    "v_dot2c_f32_bf16",
})  # fmt: skip
_KEYS: Final = {"mai": "vop3p"}
"""The families that share the opcode space of another family, which is the value."""

Key = tuple[str, int]
"""The key of an operation: the family of its encoding, and its opcode."""


def is_promoted(op: Op) -> bool:
    """Return True if a 32-bit vector operation also has a VOP3 form."""
    return op.family in _EXTENDED and op.name not in NOT_PROMOTED


def has_sdwa(op: Op, target: Target) -> bool:
    """Return True if a 32-bit vector operation has a form with sub-dword selection."""
    if target.level == GFX7 or op.family not in _EXTENDED or op.name in _PLAIN or "64" in op.name:
        return False
    return not (target.level == GFX9 and op.name in _NO_SDWA9)


def has_dpp(op: Op, target: Target) -> bool:
    """Return True if a 32-bit vector operation has a form that reads other lanes."""
    if target.level == GFX7 or op.family not in _EXTENDED[:2] or op.name in _PLAIN:
        return False
    return target.encoding >= GFX90A or "64" not in op.name


def is_wide(op: Op) -> bool:
    """Return True if an operation with a signature has an operand of 64 bits."""
    return any(type_[1:] == "64" and type_ != "m64" for type_ in (*op.results, *op.sources))


def opcode_table(operations: Iterable[Op], target: Target) -> dict[Key, Op]:
    """Return the operations of one processor by family and opcode, including their VOP3 encodings.

    Raise `ModelBug` if two operations share an opcode."""
    table: dict[Key, Op] = {}
    for op in operations:
        if not op.on(target):
            continue
        code = op.opcodes[target.level]
        keys = [(_KEYS.get(op.family, op.family), code)]
        if is_promoted(op):
            keys.append(("vop3", PROMOTED[target.level][op.family] + code))
        for key in keys:
            if key in table:
                raise ModelBug(f"{target}: {op.name} and {table[key].name} have the same encoding {key[0]} {key[1]:#x}")
            table[key] = op
    return table


@cache
def _by_opcode(name: str) -> dict[Key, Op]:
    return opcode_table(OPS, TARGETS[name])


@cache
def _by_name(name: str) -> dict[str, tuple[Op, ...]]:
    found: dict[str, tuple[Op, ...]] = {}
    for op in OPS:
        if op.on(TARGETS[name]):
            for mnemonic in (op.names[TARGETS[name].level], *op.aliases):
                found[mnemonic] = (*found.get(mnemonic, ()), op)
    return found


def find(target: Target, family: str, opcode: int) -> Op | None:
    """Return the operation that has `opcode` in the encoding of `family`, or None if `target` has no such operation."""
    return _by_opcode(target.name).get((_KEYS.get(family, family), opcode))


def named(target: Target, mnemonic: str) -> tuple[Op, ...]:
    """Return the operations of `target` whose mnemonic, without an encoding suffix such as _e64, is `mnemonic`.

    Most mnemonics belong to one operation."""
    return _by_name(target.name).get(mnemonic, ())


def mnemonics(target: Target) -> Collection[str]:
    """Return the mnemonics of all operations of `target`, without encoding suffixes."""
    return _by_name(target.name).keys()
