"""A demo program for AMD OpenCL 2.0, for any card and driver version, as AMD's driver would write it to a file."""

from __future__ import annotations

from typing import Final

from softcard.image.amdcl2.build import Features, KernelNeeds, build_kernel, pointer, vector
from softcard.image.amdcl2.generations import ISA_VERSIONS, target_of
from softcard.image.amdcl2.writer import ProgramSource, write_container
from softcard.isa.gcn.asm.assembler import assemble

WORDS: Final = {
    7: {"add": "v_add_i32", "addc": "v_addc_u32", "group": "s8", "scale": 1},
    8: {"add": "v_add_u32", "addc": "v_addc_u32", "group": "s8", "scale": 4},
    9: {"add": "v_add_co_u32", "addc": "v_addc_co_u32", "group": "s10", "scale": 4},
}
"""Differences between generations, by generation.

`add` and `addc` are instruction names, `group` is the register that contains the work-group's number, and `scale` is
the unit of scalar memory offsets.
"""
SAXPY: Final = """
    s_load_dword s12, s[4:5], {local}            ; local size, from the setup buffer
    s_load_dwordx4 s[16:19], s[6:7], {pointers}  ; x, y
    s_load_dword s20, s[6:7], {factor}
    s_waitcnt lgkmcnt(0)
    s_and_b32 s12, s12, 0xffff
    s_mul_i32 s12, s12, {group}
    {add} v0, vcc, s12, v0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v3, s17
    {add} v2, vcc, s16, v1
    {addc} v3, vcc, 0, v3, vcc
    v_mov_b32 v5, s19
    {add} v4, vcc, s18, v1
    {addc} v5, vcc, 0, v5, vcc
    flat_load_dword v6, v[2:3]
    flat_load_dword v7, v[4:5]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_mul_f32 v6, s20, v6
    v_add_f32 v7, v6, v7
    flat_store_dword v[4:5], v7
    s_endpgm
"""


def demo_program(device: str, driver: int) -> bytes:
    """Return the demo program's container for a card, such as "tonga", and a driver version.

    The driver version is a number such as 200406 for 2004.06. The program's kernel saxpy(x, y, a) computes y = a * x +
    y.
    """
    version = ISA_VERSIONS[device]
    words = WORDS[version[0]]
    scale = int(str(words["scale"]))
    places = {"local": 1 * scale, "pointers": 12 * scale, "factor": 16 * scale}
    code = assemble(target_of(version), SAXPY.format(**words, **places))
    arguments = [pointer("x", "float*"), pointer("y", "float*"), vector("a", "float")]
    features, needs = Features(usesetup=True, useargs=True), KernelNeeds(sgprs=24, vgprs=8)
    kernel = build_kernel(device, driver, 64, "saxpy", code, arguments, features, needs)
    return write_container(ProgramSource(device, driver, 64, (kernel,)))
