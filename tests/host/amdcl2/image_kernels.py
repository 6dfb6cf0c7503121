"""Kernels that do one image instruction for each work-item: load, store, sample, through an image or a 1D buffer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from softcard.engine.gcn.api import Engine
from softcard.host.amdcl2.program import Image, ImageKind, Program, Sampler
from softcard.image.amdcl2.arguments import IMAGE_TYPES, Argument, Kind
from softcard.image.amdcl2.build import pointer
from tests.host.amdcl2.rig import kernel, program

FRAME = """
    s_load_dwordx4 s[12:15], s[6:7], {o:12}      ; image, sampler
    s_load_dwordx4 s[16:19], s[6:7], {o:16}      ; coordinates, colours
    s_waitcnt lgkmcnt(0)
    s_load_dwordx8 s[32:39], s[12:13], 0x0
    s_load_dwordx4 s[48:51], s[14:15], 0x0
    v_lshlrev_b32 v1, 4, v0
    v_mov_b32 v3, s17
    {add} v2, vcc, s16, v1
    {addc} v3, vcc, 0, v3, vcc
    flat_load_dwordx4 v[4:7], v[2:3]
    v_mov_b32 v3, s19
    {add} v2, vcc, s18, v1
    {addc} v3, vcc, 0, v3, vcc
    flat_load_dwordx4 v[8:11], v[2:3]
    s_waitcnt vmcnt(0) & lgkmcnt(0)
    WORK
    s_waitcnt vmcnt(0)
    flat_store_dwordx4 v[2:3], v[8:11]
    s_endpgm
"""
OPERATIONS = {
    "load": "image_load v[8:11], v[4:7], s[32:39] dmask:0xf unorm",
    "store": "image_store v[8:11], v[4:7], s[32:39] dmask:0xf unorm",
    "sample": "image_sample_lz v[8:11], v[4:7], s[32:39], s[48:51] dmask:0xf",
    "load_buffer": "buffer_load_format_xyzw v[8:11], v4, s[32:35], 0 idxen",
    "store_buffer": "buffer_store_format_xyzw v[8:11], v4, s[32:35], 0 idxen",
}
LANES = 64


@cache
def image_program(device: str, operation: str, kind: ImageKind) -> Program:
    """The program for an operation; arrays of images need their bit in the instruction."""
    text = FRAME.replace("WORK", OPERATIONS[operation] + (" da" if kind.is_array else ""))
    type_name = next(name for name, each in IMAGE_TYPES.items() if each is kind)
    arguments = [
        Argument("image", type_name, Kind.IMAGE, access="read_write"),
        Argument("sampler", "sampler_t", Kind.SAMPLER),
        pointer("coordinates", "float4*"),
        pointer("colours", "float4*"),
    ]
    return program(device, kernel(device, "work", text.replace(" & ", " "), arguments))


def work(
    device: str,
    operation: str,
    image: Image,
    coordinates: Any,
    colours: np.ndarray,
    sampler: Sampler | None = None,
    engine: Engine | None = None,
) -> np.ndarray:
    """Do an operation at up to 64 coordinates; the colours (64 rows of 4) change where it loads."""
    kind = image.texels.kind
    if kind is ImageKind.BUFFER_1D:
        operation += "_buffer"
    found = image_program(device, operation, kind)
    if engine is not None:
        found.engine = engine
    given = np.asarray(coordinates)
    rows = np.zeros((LANES, 4), given.dtype)
    rows[: len(given), : given.shape[1]] = given
    found.kernel("work").run(len(given), LANES, [image, sampler or Sampler(), rows, colours])
    return colours
