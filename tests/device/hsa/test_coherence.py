"""coherence="strict": a kernel's missing elements are told, with both places."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.core.errors import WireError
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.events import Incoherent
from softcard.host.hsa.gpu import Gpu, demo_code
from tests.device.hsa.rig import Bench, dispatch

# Work-group 0 stores data, then a flag; work-group 1 has the data cached, waits for the flag, and reads the data.
MESSAGE = """
s_load_dwordx2 s[8:9], s[0:1], 0x0
v_mov_b32_e32 v5, 1
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v0, s8
v_mov_b32_e32 v1, s9
s_cmp_eq_u32 s2, 1
s_cbranch_scc1 receiver
global_store_dword v[0:1], v5, off
{release}
global_store_dword v[0:1], v5, off offset:1024
s_waitcnt vmcnt(0)
s_endpgm
receiver:
global_load_dword v2, v[0:1], off
s_waitcnt vmcnt(0)
again:
global_load_dword v3, v[0:1], off offset:1024 glc
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s10, v3
s_cmp_eq_u32 s10, 0
s_cbranch_scc1 again
{acquire}
global_load_dword v2, v[0:1], off
s_waitcnt vmcnt(0)
global_store_dword v[0:1], v2, off offset:2048
s_endpgm
"""


def received(seed: int, release: str, acquire: str) -> tuple[int, Bench]:
    """What the receiver read."""
    rig = Bench(coherence="strict", seed=seed, listen=True)
    place, words = rig.words(1024)
    kernarg, pointer = rig.words(2)
    pointer[:] = place & 0xFFFF_FFFF, place >> 32
    text = MESSAGE.format(release=release, acquire=acquire)
    kernel = rig.kernel(text, rsrc2=1 << 7)
    rig.queue.submit(dispatch(kernel, kernarg, grid_size_x=2, workgroup_size_x=1))
    assert not rig.errors
    return int(words[512]), rig


def test_the_documents_sequences_are_enough() -> None:
    for seed in range(12):
        value, _ = received(seed, "s_waitcnt vmcnt(0)", "buffer_wbinvl1_vol")
        assert value == 1


@pytest.mark.parametrize(("release", "acquire"), [("s_nop 0", "buffer_wbinvl1_vol"), ("s_waitcnt vmcnt(0)", "s_nop 0")])
def test_a_missing_element_shows_and_is_reported(release: str, acquire: str) -> None:
    for seed in range(60):
        value, rig = received(seed, release, acquire)
        if value == 0:
            break
    else:
        raise AssertionError("the old value was never read")
    finding = next(each for each in rig.device.findings if each.store is not None and "v2" in each.load.insn)
    assert "global_load_dword v2" in str(finding)
    assert "global_store_dword" in str(finding)
    assert finding in [event.finding for event in rig.reported(Incoherent)]


def test_a_right_kernel_gives_what_it_gives_otherwise() -> None:
    with Gpu.open("gfx900", coherence="strict") as gpu:
        x, y = np.arange(200, dtype=np.float32), np.ones(200, np.float32)
        gpu.run(demo_code("gfx900"), "saxpy", grid=200, group=64, args=[2.0, x, y])
        assert (y == 2 * x + 1).all()
        assert gpu.device.findings == []


def test_coherence_is_one_of_two() -> None:
    with pytest.raises(WireError, match="coherence is 'weak', expected one of coherent, strict"):
        HsaDevice(coherence="weak")
