"""Read-modify-writes on memory of the host behind PCIe, on both engines."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import AccessFault, SoftcardError, WireError
from softcard.device.hsa.agents import SH_MEM_CONFIG, sh_mem_config
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.exceptions import QueueError
from softcard.device.hsa.memory.atomics import Word
from softcard.device.hsa.memory.device_memory import MemoryTypes
from softcard.engine.gcn.memory import COARSE, Mtype
from tests.device.hsa.rig import Bench, dispatch

engines = pytest.mark.parametrize("engine", ["jit", "reference"])
LOOPS = ["smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec"]


def kernel(*lines: str) -> str:
    """v[0:1]: the kernarg address; v2: 5, v3: 0; v4: 3, v5: 0."""
    head = ["v_mov_b32 v0, s0", "v_mov_b32 v1, s1", "v_mov_b32 v2, 5", "v_mov_b32 v3, 0", "v_mov_b32 v4, 3"]
    return "\n".join([*head, "v_mov_b32 v5, 0", *lines, "s_endpgm"])


def ran(rig: Bench, text: str, place: int, **fields: Any) -> SoftcardError | None:
    """The error that a kernel meets, if it meets one."""
    rig.queue.submit(dispatch(rig.kernel(text, vgprs=12), place, **fields))
    return rig.queue.error


def placed(rig: Bench, **kind: Any) -> tuple[int, np.ndarray[Any, Any]]:
    """Memory of a kind: its address, and what the host sees."""
    address = rig.device.allocate(64, **kind)
    words = rig.device.array(address, 16, np.uint32)
    words[0] = 3
    return address, words


@engines
@pytest.mark.parametrize("agent", ["gfx803", "gfx900"])
def test_what_pcie_has_works(agent: str, engine: str) -> None:
    rig = Bench(agent, engine=engine)
    for line, after in (
        ("flat_atomic_add v6, v[0:1], v2 glc", 8),
        ("flat_atomic_swap v6, v[0:1], v2 glc", 5),
        ("flat_atomic_cmpswap v6, v[0:1], v[2:3] glc", 3),  # compares with v3, which is 0
        ("flat_atomic_cmpswap v6, v[0:1], v[3:4] glc", 0),
    ):
        place, words = placed(rig, host=True)
        text = kernel(line, "s_waitcnt vmcnt(0) lgkmcnt(0)", "v_add_u32 v0, vcc, 4, v0" if agent == "gfx803"
                      else "v_add_u32 v0, 4, v0", "flat_store_dword v[0:1], v6")  # fmt: skip
        assert ran(rig, text, place) is None
        assert words[:2].tolist() == [after, 3]


@engines
def test_both_widths_work(engine: str) -> None:
    rig = Bench(engine=engine)
    place, words = placed(rig, host=True)
    assert ran(rig, kernel("flat_atomic_add_x2 v[0:1], v[2:3]"), place, workgroup_size_x=64, grid_size_x=640) is None
    assert words[:2].view(np.uint64)[0] == 3 + 5 * 640
    assert ran(rig, kernel("global_atomic_swap_x2 v[0:1], v[2:3], off"), place) is None
    assert ran(rig, kernel("flat_atomic_cmpswap_x2 v[0:1], v[4:7]"), place) is None
    assert words[:2].tolist() == [5, 0]


@engines
@pytest.mark.parametrize("kind", LOOPS)
def test_pcie_loops(kind: str, engine: str) -> None:
    rig = Bench(engine=engine)
    place, words = placed(rig, host=True)
    error = ran(rig, kernel(f"flat_atomic_{kind} v[0:1], v2"), place)
    assert isinstance(error, AccessFault)
    name = {"inc": "wrapinc", "dec": "wrapdec"}.get(kind, kind.lstrip("su") if kind[-3:] in ("min", "max") else kind)
    assert str(error).startswith(
        f"atomic {name} of 4 bytes at {place:#x}: the address is in host memory, accessed over PCIe, which "
    )
    assert f"FetchAdd, Swap and CAS: {name} needs a compare-and-swap loop, at lane 0" in str(error)
    assert f"flat_atomic_{kind} v[0:1], v2" in str(error)
    assert "[hsa/pcie-loops: PCIe Gen3 Atomic Operations]" in str(error)
    assert rig.errors[0][0] == QueueError.MEMORY_APERTURE_VIOLATION
    assert words[0] == 3


@engines
def test_pcie_sequences(engine: str) -> None:
    """sub is an addition of the negated value."""
    rig = Bench(engine=engine)
    place, words = placed(rig, host=True)
    subtract = kernel("v_sub_u32 v2, 0, v2", "flat_atomic_add v[0:1], v2")
    assert ran(rig, subtract, place) is None
    assert words.view(np.int32)[0] == -2
    error = ran(rig, kernel("flat_atomic_sub v[0:1], v2"), place)
    assert "sub has to be written as an addition of the negated value" in str(error)
    assert "[hsa/pcie-sequences: " in str(error)


@engines
@pytest.mark.parametrize("line", ["flat_atomic_add v[0:1], v2", "flat_atomic_cmpswap v[0:1], v[2:3]"])
def test_pcie_option(line: str, engine: str) -> None:
    """Without PCIe atomics there are none, but loads and stores go on."""
    rig = Bench("gfx804", engine=engine)
    place, words = placed(rig, host=True)
    assert ran(rig, kernel("flat_store_dword v[0:1], v2"), place) is None
    assert words[0] == 5
    error = ran(rig, kernel(line), place)
    assert "the address is in host memory, accessed over PCIe, and the platform has no PCIe atomics for gfx804" in str(
        error
    )
    assert "[hsa/pcie-option: " in str(error)
    for agent, setting, works in (("gfx804", True, True), ("gfx803", False, False)):
        rig = Bench(agent, engine=engine, pcie_atomics=setting)
        assert (ran(rig, kernel(line), placed(rig, host=True)[0]) is None) is works


@engines
@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        ("gfx801", {"host": True}),  # an APU shares the host's memory
        ("gfx900", {"host": True, "mtype": "nc"}),  # done in the second-level cache
        ("gfx900", {"mtype": Mtype.UC}),  # the device's own
        ("gfx900", {}),
    ],
)
def test_other_memory_has_them_all(agent: str, kind: dict[str, Any], engine: str) -> None:
    rig = Bench(agent, engine=engine)
    place, words = placed(rig, **kind)
    assert ran(rig, kernel("flat_atomic_umax v[0:1], v2"), place) is None
    assert words[0] == 5


@engines
def test_a_mapped_array_is_memory_of_the_host_where_it_is_said(engine: str) -> None:
    rig = Bench(engine=engine)
    array = np.full(1024, 3, np.uint32)
    assert ran(rig, kernel("flat_atomic_or v[0:1], v2"), rig.device.map(array)) is None
    assert array[0] == 7
    error = ran(rig, kernel("s_nop 0", "flat_atomic_or v[0:1], v2"), rig.device.map(array, host=True))
    assert "or needs a compare-and-swap loop" in str(error)


@engines
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("s_atomic_umax s4, s[0:1], 0x0", "atomic max of 4 bytes"),
        ("buffer_atomic_and v2, off, s[4:7], 0", "atomic and of 4 bytes"),
        ("global_atomic_dec v[0:1], v2, off", "atomic wrapdec of 4 bytes"),
    ],
)
def test_every_encoding_obeys(line: str, message: str, engine: str) -> None:
    rig = Bench(engine=engine)
    place, _ = placed(rig, host=True)
    buffer = ("s_mov_b32 s4, s0", "s_mov_b32 s5, s1", "s_mov_b32 s6, -1", "s_mov_b32 s7, 0")
    assert message in str(ran(rig, kernel(*buffer, line), place))


@pytest.mark.slow
def test_host_and_waves_at_the_same_time() -> None:
    rig = Bench(execution="threaded")
    place, words = placed(rig, host=True)
    code, word = rig.kernel(kernel("flat_atomic_add v[0:1], v2")), Word(rig.device.memory, place, 32)

    def host() -> None:
        for _ in range(3000):
            word.rmw("add", 1)

    other = threading.Thread(target=host)
    other.start()
    for _ in range(30):
        rig.queue.submit(dispatch(code, place, workgroup_size_x=64, grid_size_x=128))
    other.join()
    assert rig.device.wait_idle(20)
    assert words[0] == 3 + 3000 + 30 * 128 * 5


def test_ordinary_memory_costs_nothing_more() -> None:
    """Only memory behind PCIe sends stores the long way; loads go straight to it as well."""
    device = HsaDevice()
    for kind, quick in (({}, True), ({"mtype": "uc"}, True), ({"host": True}, False)):
        _, _, size, stores = device.memory.row(device.allocate(4096, **kind))  # type: ignore[arg-type]
        assert size >= 4096
        assert bool(stores) is quick


@pytest.mark.parametrize(
    ("agent", "fine"), [("gfx700", Mtype.CC), ("gfx701", Mtype.UC), ("gfx801", Mtype.CC), ("gfx900", Mtype.UC)]
)
def test_kinds_of_memory(agent: str, fine: Mtype) -> None:
    device = HsaDevice(agent)
    types = MemoryTypes(device.agent)
    assert device.fine_mtype is fine
    assert types.of() is COARSE
    assert types.of(host=True).mtype is fine
    assert (types.of(host=True).completer is None) is device.agent.is_apu
    assert types.of("NC_NV").mtype is Mtype.NC_NV
    if agent < "gfx900":
        register = SH_MEM_CONFIG[device.agent.target.level]
        assert register.get(sh_mem_config(device.agent), "APE1_MTYPE") == fine
    queue = device.create_queue(64)
    for address in (queue.address, queue.ring_address, queue.doorbell.address, device.create_signal().address):
        found = device.memory.find(address)
        assert found is not None
        assert found.type.mtype is fine  # type: ignore[union-attr]
    with pytest.raises(WireError, match="unknown memory type 'wc', expected one of NC_NV, NC, CC, UC"):
        device.allocate(64, mtype="wc")
    with pytest.raises(WireError, match="unknown memory type 7"):
        device.map(np.zeros(4), mtype=7)  # type: ignore[arg-type]


# ---- the loop that stands for what PCIe has not

LOOP = """
flat_load_dword v6, v[0:1] glc
s_waitcnt vmcnt(0) lgkmcnt(0)
again:
v_max_u32 v8, v6, v2
v_mov_b32 v9, v6
flat_atomic_cmpswap v6, v[0:1], v[8:9] glc
s_waitcnt vmcnt(0) lgkmcnt(0)
v_cmp_ne_u32 vcc, v6, v9
s_cbranch_vccnz again
"""


@engines
@pytest.mark.parametrize("before", [1, 9])
def test_a_loop_does_what_pcie_cannot(before: int, engine: str) -> None:
    rig = Bench(engine=engine)
    place, words = placed(rig, host=True)
    words[0] = before
    assert ran(rig, kernel(*LOOP.strip().splitlines()), place) is None
    assert words[0] == max(before, 5)
