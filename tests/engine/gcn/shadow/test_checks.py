"""Checks `init` and `fidelity` on kernels as compilers make them, through the host's interface."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.errors import BeyondModel
from softcard.core.findings import Level
from softcard.host.hsa.compile import compilers
from softcard.hsa import Executable, Gpu, Local, Result
from softcard.refsi import RefSi

SOURCE = """
kernel void decides(global float* out, global const float* in, uint n) {
  local float t[64];
  uint i = get_local_id(0);
  if (i < n) t[i] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (t[i] > 0.5f) out[get_global_id(0)] = 1.0f;
}
kernel void copies(global float* out, uint n) {
  local float t[64];
  uint i = get_local_id(0);
  if (i < n) t[i] = i;
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_global_id(0)] = t[i];
}
kernel void private_array(global uint* out, uint n, uint k) {
  volatile uint t[16];
  for (uint i = 0; i < n; i++) t[i] = i;
  if (t[(k + get_global_id(0)) & 15] == 3) out[get_global_id(0)] = 1;
}
kernel void rough(global uint* out, global const float* in) {
  uint i = get_global_id(0);
  out[i] = in[(uint)(native_rsqrt(in[i]) * 4.0f) & 63];
}
kernel void divides(global uint* out, global const float* in) {
  uint i = get_global_id(0);
  out[i] = in[(uint)(in[i] / 3.0f) & 63];
}
kernel void takes(local uint* c, global uint* out) {
  out[atomic_xchg(c, 3u) & 63] = 1;
}
kernel void some_lanes(global float* out, global const float* in, uint n) {
  uint i = get_local_id(0);
  float r;
  if (i < n) r = in[i];
  for (uint k = 0; k < 4; k++) r = r > 0.5f ? in[(uint)(r * k) & 63] : r;
  out[(uint)(r * 60.0f) & 63] = 1.0f;
}
struct padded { int a; char b; };
kernel void padding(global struct padded* out) {
  struct padded made;
  made.a = get_global_id(0);
  made.b = 1;
  out[get_global_id(0)] = made;
}
"""
X = np.linspace(0.1, 1.0, 256, dtype=np.float32)
TARGETS = ("gfx700", "gfx803", "gfx900")
ENGINES = ("jit", "reference")
pytestmark = pytest.mark.oracle


def opened(target: str, engine: str, check: str = "init,fidelity") -> tuple[Gpu, Executable]:
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    gpu = Gpu.open(target, check=check, engine=engine)
    return gpu, gpu.compile(SOURCE, options=["-g"])


def reported(result: Result) -> list[tuple[str, int]]:
    return [(each.name, each.count) for each in result.findings]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("engine", ENGINES)
def test_found(target: str, engine: str) -> None:
    """What decides and what the host gets is told of, with origin and line; the corrected launch is not."""
    gpu, code = opened(target, engine)
    with gpu:
        y, z = np.zeros(256, np.float32), np.zeros(256, np.uint32)
        assert reported(gpu.run(code, "decides", 256, 64, [y, X, 64])) == []
        (found,) = gpu.run(code, "decides", 256, 64, [y, X, 48]).findings
        assert (found.name, found.count, found.level) == ("init/undefined-exec", 64, Level.ERROR)
        assert found.lanes == tuple(range(48, 64))
        assert "offset 0xc0 of LDS, which are uninitialised" in found.message
        assert found.source.endswith(":7")
        assert found.kernel == "decides"
        assert found.registers is not None  # the exact ones of the first use
        assert (found.registers.pc, found.registers.instruction) == (found.pc, found.insn)
        assert reported(gpu.run(code, "copies", 256, 64, [y, 64])) == []
        (found,) = gpu.run(code, "copies", 256, 64, [y, 48]).findings
        assert (found.name, found.count) == ("init/undefined-result", 64)
        assert "the first is element 48" in found.message
        assert found.registers is not None
        assert (found.registers.pc, found.registers.lane) == (found.pc, found.lanes[0])
        assert reported(gpu.run(code, "private_array", 64, 64, [z, 16, 5])) == []
        ((name, count),) = reported(gpu.run(code, "private_array", 64, 64, [z, 8, 5]))
        assert (name, count) == ("init/undefined-exec", 32)


@pytest.mark.parametrize("engine", ENGINES)
def test_origins_say_no_more_than_is_known(engine: str) -> None:
    """What an atomic found in memory is no register's; a register that is written is told of as not always written."""
    gpu, code = opened("gfx900", engine)
    with gpu:
        (found,) = gpu.run(code, "takes", 64, 64, [Local(256), np.zeros(64, np.uint32)]).findings
        assert "it comes from memory that ds_wrxchg_rtn_b32" in found.message
        reports_of = gpu.run(code, "some_lanes", 64, 64, [np.zeros(64, np.float32), X, 20]).findings
        texts = [each.message for each in reports_of if each.kind == "undefined-address"]
        assert texts
        assert not any("nothing has written" in each for each in texts)
        assert any(each.endswith("which some lane has not written on its path to here") for each in texts)


@pytest.mark.parametrize("check", ["init", "memory,init", "all"])
@pytest.mark.parametrize("engine", ENGINES)
def test_private_memory_of_several_waves(engine: str, check: str) -> None:
    """Which lie apart where their bounds are looked after. Each begins as nobody's, also where another wave had it."""
    gpu, code = opened("gfx900", engine, check)
    with gpu:
        z = gpu.zeros(1024, np.uint32)
        for _ in range(2):
            assert reported(gpu.run(code, "private_array", 1024, 256, [z, 16, 5])) == []
        for times in (1, 2):
            found = reported(gpu.run(code, "private_array", 1024, 256, [z, 8, 5]))
            assert found == [("init/undefined-exec", 512 * times)]
        gpu.free(z)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("engine", ENGINES)
def test_approximate(target: str, engine: str) -> None:
    """An approximate root is an index; a division's steps make its quotient exact."""
    gpu, code = opened(target, engine)
    with gpu:
        y = np.zeros(256, np.uint32)
        (found,) = gpu.run(code, "rough", 256, 64, [y, X]).findings
        assert (found.name, found.level) == ("fidelity/approximate-address", Level.WARNING)
        assert "v_rsq_f32" in found.message
        assert reported(gpu.run(code, "divides", 256, 64, [y, X])) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_padding(engine: str) -> None:
    """What lies between the fields of a structure is nobody's; as plain bytes it would be something."""
    gpu, code = opened("gfx900", engine)
    with gpu:
        kind = np.dtype({"names": ["a", "b"], "formats": ["<i4", "i1"], "offsets": [0, 4], "itemsize": 8})
        out = np.zeros(64, kind)
        assert reported(gpu.run(code, "padding", 64, 64, [out])) == []
        assert out["a"].tolist() == list(range(64))


@pytest.mark.parametrize("engine", ENGINES)
def test_fresh_memory(engine: str) -> None:
    """What the host has allocated is undefined until somebody writes it."""
    gpu, code = opened("gfx900", engine, "init")
    with gpu:
        place, y = gpu.device.allocate(1024), np.zeros(256, np.float32)
        kernel = code.kernel("decides")
        (found,) = gpu.run(code, kernel.name, 256, 64, [y, place, 64]).findings
        assert found.name == "init/undefined-exec"
        assert f"4 bytes at {place:#x}, which are uninitialised" in found.message
        gpu.device.memory.write(place, X.tobytes())
        assert reported(gpu.run(code, kernel.name, 256, 64, [y, place, 64])) == []


def test_refused() -> None:
    """What knows no marks says so."""
    with pytest.raises(
        BeyondModel, match="check 'init' cannot be used with coherence 'strict': set only one of the two"
    ):
        Gpu.open("gfx900", check="init", coherence="strict")
    with pytest.raises(BeyondModel, match="count_instructions with check='init' "):
        Gpu.open("gfx900", check="init", count_instructions=True)
    with pytest.raises(
        BeyondModel, match="the device does not support check 'fidelity', expected only some of memory, "
    ):
        RefSi.open(check="fidelity")


def test_counted_on_the_reference_engine() -> None:
    """Instructions are counted and marks travel."""
    if not compilers():
        pytest.skip("no compiler for OpenCL C is installed")
    with Gpu.open("gfx900", check="init", count_instructions=True, engine="reference") as gpu:
        result = gpu.run(gpu.compile(SOURCE), "copies", 64, 64, [np.zeros(64, np.float32), 48])
        assert reported(result) == [("init/undefined-result", 16)]
        assert sum(gpu.device.instruction_counts().values()) == result.instructions
