"""The table of agents, SH_MEM_CONFIG, PCIe atomics."""

from __future__ import annotations

import pytest

from softcard.core.errors import BeyondModel, WireError
from softcard.device.hsa.agents import AGENTS, SH_MEM_CONFIG, DoorbellType, agent, pcie_atomic, sh_mem_config
from softcard.device.hsa.device import HsaDevice

every_agent = pytest.mark.parametrize("name", AGENTS)


def test_isa_table() -> None:
    assert list(AGENTS) == [
        "gfx700", "gfx701", "gfx800", "gfx801", "gfx802", "gfx803", "gfx804", "gfx900", "gfx901", "gfx902",
        "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c", "gfx942", "gfx950",
    ]  # fmt: skip
    assert AGENTS["gfx701"].double_rate == "1/2"
    assert {name for name, each in AGENTS.items() if each.xnack} == {"gfx801", "gfx901"}
    with pytest.raises(WireError, match="unknown agent 'gfx1010', expected one of gfx700"):
        agent("gfx1010")


@every_agent
def test_isa_name(name: str) -> None:
    major, minor, stepping = name.removeprefix("gfx")
    assert agent(name).isa == f"AMD:AMDGPU:{major}:{minor}:{int(stepping, 16)}"


@every_agent
def test_limits(name: str) -> None:
    found = agent(name)
    waves = 32 if name in ("gfx90a", "gfx942", "gfx950") else 40
    assert found.waves_per_cu == waves
    assert found.max_waves == found.compute_units * waves
    assert found.lds_bytes == (163840 if name == "gfx950" else 65536)
    assert found.xccs == (8 if name in ("gfx942", "gfx950") else 1)
    level = {"7": DoorbellType.DWORDS_32, "8": DoorbellType.PACKETS_32, "9": DoorbellType.PACKETS_64}[name[3]]
    assert found.doorbell_type is level


@every_agent
def test_default_mtype(name: str) -> None:
    register = SH_MEM_CONFIG[agent(name).target.level]
    if name < "gfx900":
        assert register.get(sh_mem_config(agent(name)), "DEFAULT_MTYPE") == 1
        assert "DEFAULT_MTYPE=1 (NC)" in register.explain(sh_mem_config(agent(name)))


@every_agent
def test_alignment_mode(name: str) -> None:
    register = SH_MEM_CONFIG[agent(name).target.level]
    assert register.get(sh_mem_config(agent(name)), "ALIGNMENT_MODE") == 3


@every_agent
def test_ptr32(name: str) -> None:
    register = SH_MEM_CONFIG[agent(name).target.level]
    field = "PTR32" if name < "gfx800" else "ADDRESS_MODE"
    large, small = HsaDevice(name), HsaDevice(name, machine_model="small")
    assert [register.get(device.sh_mem_config, field) & 1 for device in (large, small)] == [0, 1]


def test_address_modes() -> None:
    """GFX8 has four of them, by whose addresses they are, too."""
    texts = {
        name: [SH_MEM_CONFIG[agent(name).target.level].explain(sh_mem_config(agent(name), small)) for small in (0, 1)]
        for name in ("gfx801", "gfx803", "gfx900")
    }
    for name, modes in (("gfx801", ("HSA64", "HSA32")), ("gfx803", ("GPUVM64", "GPUVM32")), ("gfx900", ("64", "32"))):
        assert [f"({mode})" in text for mode, text in zip(modes, texts[name], strict=True)] == [True, True]


def test_pcie_operations() -> None:
    found = agent("gfx803")
    tlps = {pcie_atomic(found, name).tlp for name in ("add", "sub", "swap", "cas")}
    assert tlps == {"FetchAdd", "Swap", "CAS"}


def test_pcie_sequences() -> None:
    found = agent("gfx803")
    assert pcie_atomic(found, "load").tlp == "MRd"
    assert pcie_atomic(found, "store").tlp == "MWr"
    sub = pcie_atomic(found, "sub")
    assert (sub.instruction, sub.negated) == ("flat_atomic_add", True)


@pytest.mark.parametrize("operation", ["max", "min", "and", "or", "xor", "wrapinc", "wrapdec"])
def test_pcie_loops(operation: str) -> None:
    assert pcie_atomic(agent("gfx802"), operation).instruction == "flat_atomic_cmpswap"


def test_pcie_option() -> None:
    with pytest.raises(BeyondModel, match="gfx701 has no PCIe atomics: add on host memory is not atomic there"):
        pcie_atomic(agent("gfx701"), "add")
    assert pcie_atomic(agent("gfx701"), "add", enabled=True).tlp == "FetchAdd"
    assert pcie_atomic(agent("gfx701"), "load").tlp == "MRd"
    with pytest.raises(BeyondModel):
        pcie_atomic(agent("gfx803"), "cas", enabled=False)
    with HsaDevice("gfx701", pcie_atomics=True) as device:
        assert device.pcie_atomic("swap").tlp == "Swap"
    with pytest.raises(WireError, match="unknown atomic operation 'nand'"):
        pcie_atomic(agent("gfx803"), "nand")
