"""The kernel of `img.s`: a 2D kernel that samples one image into another and reads its channel type and order."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.host.amdcl2.program import Addressing, ChannelOrder, ChannelType, Filter, Image, Program, Sampler, load
from softcard.image.amdcl2.arguments import Argument, Kind
from softcard.image.amdcl2.build import Described, KernelNeeds, pointer
from tests.host.amdcl2 import image_model as model
from tests.host.amdcl2.rig import DEVICES, kernel, program, vector, vectors

POINTERS = {
    64: """
    s_load_dwordx4 s[12:15], s[6:7], {o:12}
    s_load_dwordx4 s[16:19], s[6:7], {o:16}
    s_waitcnt lgkmcnt(0)
    s_mov_b32 s20, s18
    s_mov_b32 s21, s19
    s_mov_b32 s18, s16
    s_mov_b32 s19, s17
    """,
    32: """
    s_load_dwordx4 s[12:15], s[6:7], {o:6}
    s_load_dwordx2 s[18:19], s[6:7], {o:10}
    s_load_dword s20, s[6:7], {o:12}
    s_waitcnt lgkmcnt(0)
    s_mov_b32 s21, 0
    """,
}
"""Leaves in in s[12:13], out in s[14:15], smp in s[18:19] and info in s[20:21].

Images and samplers take 8 bytes in 32-bit programs, too: in at 24, out at 32, smp at 40, then info at 48.
"""
BODY = """
    s_load_dword s22, s[4:5], {o:1}
    s_load_dwordx2 s[24:25], s[12:13], {o:8}
    s_load_dwordx8 s[32:39], s[12:13], 0x0
    s_load_dwordx8 s[40:47], s[14:15], 0x0
    s_load_dwordx4 s[48:51], s[18:19], 0x0
    s_waitcnt lgkmcnt(0)
    s_lshr_b32 s23, s22, 16
    s_and_b32 s22, s22, 0xffff
    s_mul_i32 s22, s22, {gid}
    s_mul_i32 s23, s23, {gidy}
    {add} v2, vcc, s22, v0
    {add} v3, vcc, s23, v1
    v_cvt_f32_u32 v4, v2
    v_cvt_f32_u32 v5, v3
    v_add_f32 v4, 0.5, v4
    v_add_f32 v5, 0.5, v5
    image_sample v[6:9], v[4:5], s[32:39], s[48:51] dmask:0xf unorm
    s_waitcnt vmcnt(0)
    image_store v[6:9], v[2:3], s[40:47] dmask:0xf unorm
    s_and_b32 s24, s24, 0xf
    s_and_b32 s25, s25, 0x1f
    v_mov_b32 v10, s24
    v_mov_b32 v11, s25
"""
STORES = {
    64: "v_mov_b32 v12, s20\n v_mov_b32 v13, s21\n flat_store_dwordx2 v[12:13], v[10:11]\n s_endpgm",
    32: "s_mov_b32 s28, 0\n s_mov_b32 s29, 0\n s_mov_b32 s30, -1\n s_mov_b32 s31, 0x8027fac\n"
    "buffer_store_dwordx2 v[10:11], off, s[28:31], s20\n s_endpgm",
}
ARGUMENTS = [
    Argument("in", "image2d_t", Kind.IMAGE, access="read_only"),
    Argument("out", "image2d_t", Kind.IMAGE, access="write_only"),
    Argument("smp", "sampler_t", Kind.SAMPLER),
    pointer("info", "uint*"),
]
NEEDS = KernelNeeds("xy", sgprs=64, vgprs=16)


every_engine = pytest.mark.parametrize("engine", ["reference", "jit"])


@every_engine
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("device", DEVICES)
def test_samples_one_image_into_another(device: str, bits: int, engine: str) -> None:
    text = POINTERS[bits] + BODY + STORES[bits]
    described = Described(required_work_group_size=(8, 8, 1))
    source = kernel(device, "img", text, ARGUMENTS, bits=bits, needs=NEEDS, described=described)
    check(program(device, source, bits=bits, engine=engine))


@every_engine
@pytest.mark.parametrize("name", vectors("img"))
def test_img(name: str, engine: str) -> None:
    check(load(vector(name), engine))


def check(found: Program) -> None:
    """The kernel does what it should."""
    texels = np.random.default_rng(4).integers(0, 255, (16, 24, 4), np.uint8)
    given = Image(texels, ChannelOrder.CL_BGRA, ChannelType.CL_UNORM_INT8)
    result = np.zeros((16, 24, 4), np.float32)
    info = np.zeros(2, np.uint32)
    sampler = Sampler(False, Addressing.CLAMP_TO_EDGE, Filter.LINEAR)
    out = Image(result, ChannelOrder.CL_RGBA, ChannelType.CL_FLOAT)
    found.kernel("img").run((24, 16), None, [given, out, sampler, info])
    assert info.tolist() == [ChannelType.CL_UNORM_INT8, ChannelOrder.CL_BGRA]
    expected = [[model.read("CL_BGRA", "CL_UNORM_INT8", texel) for texel in row] for row in texels]
    np.testing.assert_allclose(result, expected, rtol=1e-6)
