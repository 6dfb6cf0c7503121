"""The host API on a device in the small machine model: code objects of our writer, pointers of 4 bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from softcard.core.errors import RuleError, WireError
from softcard.core.event import Event
from softcard.device.hsa.events import Lint
from softcard.device.hsa.rules import IS_PTR64
from softcard.host.hsa.gpu import Gpu, Local, demo_code
from softcard.image.hsa.metadata import Argument, KernelMetadata
from softcard.image.hsa.records import CodeProperties, KernelCode, Rsrc1, Rsrc2
from softcard.image.hsa.writer import KernelSource, write_code_object
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.target import target
from tests.image.hsa.elves import record

VECTORS = Path(__file__).parents[2] / "vectors" / "hsa-inspect"
ADD = {"gfx700": "v_add_i32 {0}, vcc,", "gfx803": "v_add_u32 {0}, vcc,", "gfx900": "v_add_u32 {0},"}
every_agent = pytest.mark.parametrize("agent", ADD)
every_engine = pytest.mark.parametrize("engine", ["reference", "jit"])
ARGUMENTS = (
    Argument("in", 0, 4, "global_buffer", "int*", "global"),
    Argument("out", 4, 4, "global_buffer", "int*", "global"),
    Argument("room", 8, 4, "dynamic_shared_pointer", "int*", "local", pointee_align=4),
    Argument("plus", 12, 4, "by_value", "size_t"),
    Argument("", 16, 4, "hidden_global_offset_x"),
    Argument("", 20, 4, "hidden_private_base"),
    Argument("", 24, 4, "hidden_shared_base"),
)
TEXT = """
    ; out[i] = in[i] + plus, by way of the group segment
    s_load_dword s4, s[0:1], {0}
    s_load_dword s5, s[0:1], {1}
    s_load_dword s6, s[0:1], {2}
    s_load_dword s7, s[0:1], {3}
    s_load_dword s8, s[0:1], {6}            ; aperture of the group segment
    s_mov_b32 m0, -1
    v_lshlrev_b32 v0, 2, v0
    v_mov_b32 v2, -1
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v1, s4
    add v1, v1, v0
    flat_load_dword v3, v[1:2]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    add v3, s7, v3
    v_mov_b32 v4, s6
    add v4, v4, v0
    ds_write_b32 v4, v3
    s_waitcnt lgkmcnt(0)
    add v1, s8, v4
    flat_load_dword v3, v[1:2]
    v_mov_b32 v1, s5
    add v1, v1, v0
    s_waitcnt vmcnt(0) lgkmcnt(0)
    flat_store_dword v[1:2], v3
    s_endpgm
"""


def code(agent: str, version: str = "V2", ptr64: int = 0, described: bool = True) -> bytes:
    """A code object with one kernel, of which V2 says what its arguments are."""
    text = TEXT.format(*(hex(n if agent == "gfx700" else 4 * n) for n in range(7)))
    for register in (1, 3, 4):
        text = text.replace(f"add v{register},", ADD[agent].format(f"v{register}"))
    header = record(
        KernelCode,
        amd_kernel_code_version_major=1,
        amd_kernel_code_version_minor=1,
        amd_machine_kind=1,
        amd_machine_version_major=int(agent[3]),
        wavefront_size=6,
        kernarg_segment_alignment=4,
        compute_pgm_rsrc1=Rsrc1.parse((0x00AC0001).to_bytes(4, "little")),
        compute_pgm_rsrc2=record(Rsrc2, user_sgpr_count=2),
        kernarg_segment_byte_size=28,
        kernel_code_properties=record(CodeProperties, enable_sgpr_kernarg_segment_ptr=1, is_ptr64=ptr64),
    )
    metadata = KernelMetadata("k", "", ARGUMENTS, kernarg_size=28, kernarg_align=4)
    source = KernelSource("k", assemble(target(agent), text), header, metadata if described else None)
    return write_code_object(version, agent, [source])


@every_agent
@every_engine
def test_a_kernel_runs(agent: str, engine: str) -> None:
    values, foreign = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    with Gpu.open(agent, machine_model="small", engine=engine, threads=1) as gpu:
        given, got = gpu.array(values), gpu.zeros(64, np.int32)
        assert max(gpu.address(given), gpu.address(got)) < 1 << 32
        gpu.run(code(agent), "k", 64, args=[given, got, Local(256), 7])
        assert np.array_equal(got, values + 7)
        gpu.run(code(agent), "k", 64, args=[values, foreign, Local(256), -1])
        assert np.array_equal(foreign, values - 1)


@every_agent
def test_a_kernel_without_metadata(agent: str) -> None:
    """Pointers take 4 bytes by hand, too."""
    values, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    with Gpu.open(agent, machine_model="small", threads=1) as gpu:
        base = np.uint32(gpu.device.apertures.shared_base)
        args = [values, out, np.uint32(0), np.uint32(5), np.uint32(0), np.uint32(0), base]
        gpu.run(code(agent, "V1"), "k", 64, args=args, group_bytes=256)
    assert np.array_equal(out, values + 5)


def test_what_a_kernarg_segment_holds() -> None:
    with Gpu.open("gfx803", machine_model="small", threads=1) as gpu:
        kernel, array = gpu.load(code("gfx803")).kernel("k"), gpu.zeros(64)
        made = gpu.pack(kernel, 64, args=[array, None, Local(16), 3])
        words = np.frombuffer(made.kernarg, "<u4")
        assert words.tolist() == [gpu.address(array), 0, 0, 3, 0, 0x8001_0000, 0x8000_0000]
        with pytest.raises(WireError, match="address 0x100000000 does not fit 32 bits, at argument 1 \\(out\\)"):
            gpu.pack(kernel, 64, args=[array, 1 << 32, Local(16), 3])


def test_code_of_the_other_model() -> None:
    """Refused when it is loaded; code with kernel descriptors is of the large model."""
    with Gpu.open("gfx900", machine_model="small") as small:
        for data in (code("gfx900", ptr64=1), demo_code("gfx900"), (VECTORS / "v4.co").read_bytes()):
            with pytest.raises(RuleError, match=r"the kernel's is_ptr64 is 1, but pointers have 32 bits") as caught:
                small.load(data)
            assert caught.value.rule is IS_PTR64
            assert caught.value.path[0].kind == "kernel"


@every_agent
def test_hand_written_code_in_the_large_model(agent: str) -> None:
    """is_ptr64 is 0 where the text does not say: a lint; pointers among values without metadata take 8 bytes."""
    events: list[Event] = []
    with Gpu.open(agent, threads=1) as gpu:
        gpu.device.probes.subscribe(events.append)
        kernel = gpu.load(code(agent, "V1")).kernel("k")
        array = gpu.zeros(4)
        made = gpu.pack(kernel, 64, args=[array, np.uint32(7), None])
        assert made.kernarg == struct.pack("<QIIQI", gpu.address(array), 7, 0, 0, 0)
    lint = next(event for event in events if isinstance(event, Lint))
    assert (lint.check, lint.rule) == ("is-ptr64", IS_PTR64)
    assert lint.message.startswith(
        "kernel k: the kernel's is_ptr64 is 0, but pointers have 64 bits in the large machine"
    )
