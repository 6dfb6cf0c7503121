"""The AMD OpenCL 2.0 part of `understudy demo`: a program for three cards, written, read again and run."""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from understudy.host.amdcl2.program import Program
from understudy.image.amdcl2.build import build_kernel, pointer, vector
from understudy.image.amdcl2.code_object import Features, KernelNeeds
from understudy.image.amdcl2.container import read_container
from understudy.image.amdcl2.generations import ISA_VERSIONS, target_of
from understudy.image.amdcl2.writer import ProgramSource, write_container
from understudy.isa.gcn.asm.assembler import assemble

CARDS: Final = (("bonaire", 180005), ("tonga", 200406), ("gfx900", 252700))
"""A card of each generation, with a driver of each generation of containers."""
WORDS: Final = {
    7: {"add": "v_add_i32", "addc": "v_addc_u32", "group": "s8", "scale": 1},
    8: {"add": "v_add_u32", "addc": "v_addc_u32", "group": "s8", "scale": 4},
    9: {"add": "v_add_co_u32", "addc": "v_addc_co_u32", "group": "s10", "scale": 4},
}
"""What differs between generations: names of instructions, the work-group's register, units of scalar offsets."""
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
MEGA: Final = 1e6


def saxpy(device: str, driver: int) -> bytes:
    """A program that computes y = a * x + y, in a container for a card as a driver would have written it."""
    version = ISA_VERSIONS[device]
    words = WORDS[version[0]]
    scale = int(str(words["scale"]))
    places = {"local": 1 * scale, "pointers": 12 * scale, "factor": 16 * scale}
    code = assemble(target_of(version), SAXPY.format(**words, **places))
    arguments = [pointer("x", "float*"), pointer("y", "float*"), vector("a", "float")]
    features, needs = Features(usesetup=True, useargs=True), KernelNeeds(sgprs=24, vgprs=8)
    kernel = build_kernel(device, driver, 64, "saxpy", code, arguments, features, needs)
    return write_container(ProgramSource(device, driver, 64, (kernel,)))


def lines(n: int) -> tuple[list[str], bool]:
    """What happened on each card with `n` elements, and whether all results are right."""
    found, all_good = [], True
    for device, driver in CARDS:
        data = saxpy(device, driver)
        program = Program(read_container(data))
        x = np.arange(n, dtype=np.float32)
        y = np.ones(n, np.float32)
        expected = np.float32(0.5) * x + y
        program.kernel("saxpy").run(64, 64, [x[:64].copy(), y[:64].copy(), 0.5])  # translates the code
        start = time.perf_counter()
        result = program.kernel("saxpy").run(n, 256, [x, y, 0.5])
        seconds = time.perf_counter() - start
        good = bool((y == expected).all())
        all_good = all_good and good
        speed = result.statistics.instructions / seconds / MEGA
        text = f"{device:8} driver {driver}, {len(data):5} bytes: {n:,} elements, {speed:,.0f} M wave instructions/s"
        found.append(f"{text}, {'OK' if good else 'WRONG'}")
    return found, all_good
