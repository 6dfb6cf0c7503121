"""All operations of GFX7, GFX8 and GFX9, gathered from the files of their families, and how to find one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from typing import Final

from understudy.core.errors import ModelBug
from understudy.isa.gcn.insn import Op
from understudy.isa.gcn.operations import (
    buffer,
    ds,
    flat,
    graphics,
    image,
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
from understudy.isa.gcn.target import GFX7, GFX8, GFX9, TARGETS, Target

OPS: Final[tuple[Op, ...]] = tuple(
    chain(
        sop.OPS, sopk.OPS, sopp.OPS, smem.OPS,
        vop1.OPS, vop2.OPS, vopc.OPS, vop3.OPS, vop3p.OPS,
        ds.OPS, flat.OPS, buffer.OPS, image.OPS, graphics.OPS,
    )
)  # fmt: skip
"""Every operation, family by family."""

PROMOTED: Final[Mapping[int, Mapping[str, int]]] = {
    GFX7: {"vopc": 0, "vop2": 0x100, "vop1": 0x180},
    GFX8: {"vopc": 0, "vop2": 0x100, "vop1": 0x140},
    GFX9: {"vopc": 0, "vop2": 0x100, "vop1": 0x140},
}
"""What is added to the opcode of a 32-bit vector operation in its VOP3 form."""
NOT_PROMOTED: Final = frozenset(
    {"v_madmk_f32", "v_madak_f32", "v_madmk_f16", "v_madak_f16", "v_swap_b32", "v_readfirstlane_b32"}
)
"""32-bit vector operations without a VOP3 form."""
_EXTENDED: Final = ("vop1", "vop2", "vopc")
_PLAIN: Final = NOT_PROMOTED | {"v_nop", "v_clrexcp", "v_movreld_b32", "v_movrels_b32", "v_movrelsd_b32"}
_NO_SDWA9: Final = frozenset({"v_mac_f32", "v_mac_f16", "v_fmac_f32"})

Key = tuple[str, int]
"""Family of an encoding and opcode in it."""


def is_promoted(op: Op) -> bool:
    """Whether a 32-bit vector operation also has a VOP3 form."""
    return op.family in _EXTENDED and op.name not in NOT_PROMOTED


def has_sdwa(op: Op, target: Target) -> bool:
    """Whether a 32-bit vector operation has a form with sub-dword selection."""
    if target.level == GFX7 or op.family not in _EXTENDED or op.name in _PLAIN or "64" in op.name:
        return False
    return not (target.level == GFX9 and op.name in _NO_SDWA9)


def has_dpp(op: Op, target: Target) -> bool:
    """Whether a 32-bit vector operation has a form that reads other lanes."""
    return target.level != GFX7 and op.family in _EXTENDED[:2] and op.name not in _PLAIN and "64" not in op.name


def opcode_table(operations: Iterable[Op], target: Target) -> dict[Key, Op]:
    """Operations of one processor by family and opcode, VOP3 forms included; a `ModelBug` where two share one."""
    table: dict[Key, Op] = {}
    for op in operations:
        if not op.on(target):
            continue
        code = op.opcodes[target.level]
        keys = [(op.family, code)]
        if is_promoted(op):
            keys.append(("vop3", PROMOTED[target.level][op.family] + code))
        for key in keys:
            if key in table:
                raise ModelBug(f"{target}: {op.name} and {table[key].name} are both {key[0]} {key[1]:#x}")
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
            mnemonic = op.names[TARGETS[name].level]
            found[mnemonic] = (*found.get(mnemonic, ()), op)
    return found


def find(target: Target, family: str, opcode: int) -> Op | None:
    """The operation with that opcode in the encoding of a family, None where `target` has none."""
    return _by_opcode(target.name).get((family, opcode))


def named(target: Target, mnemonic: str) -> tuple[Op, ...]:
    """The operations of `target` with that mnemonic, the suffix of a form taken off: usually one."""
    return _by_name(target.name).get(mnemonic, ())
