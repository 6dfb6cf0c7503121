"""The agents that can be had: one for each instruction set of the document's table, and gfx906.

The table names products only; compute units, waves and memories are those of the largest product named there, from
AMD's public data sheets and the kernel driver's tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from understudy.core.errors import BeyondModel, WireError
from understudy.core.register import Field, Register
from understudy.engine.gcn.memory_type import Mtype
from understudy.isa.gcn.target import GFX7, GFX8, GFX9, Target, target

UNALIGNED: Final = 3
"""SH_MEM_ALIGNMENT_MODE_UNALIGNED."""
SIMDS_PER_CU: Final = 4
WAVES_PER_SIMD: Final = 10
LDS_BYTES: Final = 65536
"""LDS of a compute unit, and the most that one work-group can have."""
WORKGROUP_LIMIT: Final = 1024


class DoorbellType(IntEnum):
    """What is stored to a doorbell: dwords, wrapped at twice the ring (0), packets in 32 (1) or in 64 bits (2)."""

    DWORDS_32 = 0
    PACKETS_32 = 1
    PACKETS_64 = 2


@dataclass(frozen=True, slots=True)
class Agent:
    """One kernel agent. `double_rate` is the speed of binary64 against binary32; `is_apu` agents share host memory."""

    name: str
    products: str
    compute_units: int
    double_rate: str
    is_apu: bool = False
    xnack: bool = False
    pcie_atomics: bool = False
    note: str = ""
    waves_per_cu: int = SIMDS_PER_CU * WAVES_PER_SIMD
    lds_bytes: int = LDS_BYTES
    workgroup_limit: int = WORKGROUP_LIMIT

    @property
    def target(self) -> Target:
        """Its instruction set."""
        return target(self.name)

    @property
    def isa(self) -> str:
        """The defining string, such as ``AMD:AMDGPU:8:0:3``."""
        return "AMD:AMDGPU:" + ":".join(self.name.removeprefix("gfx"))

    @property
    def max_waves(self) -> int:
        """Waves in flight."""
        return self.compute_units * self.waves_per_cu

    @property
    def doorbell_type(self) -> DoorbellType:
        """How its doorbells count."""
        return {GFX7: DoorbellType.DWORDS_32, GFX8: DoorbellType.PACKETS_32, GFX9: DoorbellType.PACKETS_64}[
            self.target.level
        ]

    @property
    def is_legacy(self) -> bool:
        """Whether its doorbells are legacy ones (GFX7 and GFX8)."""
        return self.target.level < GFX9


AGENTS: Final = {
    agent.name: agent
    for agent in (
        Agent("gfx700", "A10-7400 series APU", 8, "1/16", is_apu=True, note="Legacy, GFX7, 1/16 double FP"),
        Agent("gfx701", "FirePro W8100, W9100, S9150, S9170; Radeon R9 290, R9 290x, R390, R390x", 44, "1/2",
              note="GFX7, 1/2 double FP"),
        Agent("gfx800", "FirePro S7150, S7100, W7100; Radeon R285, R9 380, R9 385; Mobile FirePro M7170", 32, "1/16",
              note="Legacy, GFX8, SPI register limitation, XNACK"),
        Agent("gfx801", "A10-8700 series APU", 8, "1/16", is_apu=True, xnack=True, note="GFX8, XNACK enabled"),
        Agent("gfx802", "FirePro S7150, S7100, W7100; Radeon R285, R9 380, R9 385; Mobile FirePro M7170", 32, "1/16",
              pcie_atomics=True, note="GFX8, SPI register limitation XNACK disabled, PCIe Gen3 atomics"),
        Agent("gfx803", "Radeon R9 Nano, R9 Fury, R9 FuryX, Pro Duo, RX 460, RX 470, RX 480; FirePro S9300x2", 64,
              "1/16", pcie_atomics=True, note="GFX8, XNACK disabled, PCIe Gen3 atomics"),
        Agent("gfx804", "Radeon R9 Nano, R9 Fury, R9 FuryX, Pro Duo, RX 460, RX 470, RX 480; FirePro S9300x2", 64,
              "1/16", note="GFX8, -XNACK Legacy"),
        Agent("gfx900", "", 64, "1/16", pcie_atomics=True, note="GFX9, -XNACK"),
        Agent("gfx901", "", 64, "1/16", xnack=True, pcie_atomics=True, note="GFX9, +XNACK"),
        Agent("gfx906", "", 64, "1/2", pcie_atomics=True, note="not in the document's table"),
    )
}  # fmt: skip
"""All agents by name."""


def agent(name: str) -> Agent:
    """The agent of that name; `WireError` where there is none."""
    try:
        return AGENTS[name]
    except KeyError:
        raise WireError(f"no agent {name!r}: there are {', '.join(AGENTS)}") from None


_MTYPES: Final = {int(mtype): mtype.name for mtype in Mtype}
_ALIGNMENTS: Final = {0: "DWORD", 1: "DWORD_STRICT", 2: "STRICT", 3: "UNALIGNED"}

# Offsets are those of the kernel driver's register headers, in dwords.
SH_MEM_CONFIG: Final = {
    GFX7: Register("SH_MEM_CONFIG", 0x230D, (
        Field("PTR32", 0),
        Field("PRIVATE_ATC", 1),
        Field("ALIGNMENT_MODE", 2, 2, values=_ALIGNMENTS),
        Field("DEFAULT_MTYPE", 4, 3, values=_MTYPES),
        Field("APE1_MTYPE", 7, 3, values=_MTYPES),
    ), width=32),
    GFX8: Register("SH_MEM_CONFIG", 0x230D, (
        Field("ADDRESS_MODE", 0, 2, values={0: "GPUVM64", 1: "GPUVM32", 2: "HSA64", 3: "HSA32"}),
        Field("PRIVATE_ATC", 2),
        Field("ALIGNMENT_MODE", 3, 2, values=_ALIGNMENTS),
        Field("DEFAULT_MTYPE", 5, 3, values=_MTYPES),
        Field("APE1_MTYPE", 8, 3, values=_MTYPES),
    ), width=32),
    GFX9: Register("SH_MEM_CONFIG", 0x230D, (
        Field("ADDRESS_MODE", 0, 1, values={0: "64", 1: "32"}),
        Field("ALIGNMENT_MODE", 3, 2, values=_ALIGNMENTS),
        Field("RETRY_DISABLE", 12),
    ), width=32),
}  # fmt: skip
"""SH_MEM_CONFIG by generation. GFX9 has no default MTYPE: page table entries hold it."""


def sh_mem_config(agent: Agent, small: bool = False) -> int:
    """What SH_MEM_CONFIG holds: NC by default, unaligned accesses allowed, 32-bit pointers in the small model.

    GFX8 also tells whether addresses are the host's (HSA), as those of APUs are, or the device's (GPUVM). APE1 is where
    fine-grained memory lies.
    """
    register = SH_MEM_CONFIG[agent.target.level]
    names = {part.name for part in register.fields}
    fields: dict[str, int | str] = {"ALIGNMENT_MODE": UNALIGNED}
    if "PTR32" in names:
        fields["PTR32"] = int(small)
    else:
        fields["ADDRESS_MODE"] = int(small) | (agent.is_apu and agent.target.level == GFX8) << 1
    if "DEFAULT_MTYPE" in names:
        fields["DEFAULT_MTYPE"] = Mtype.NC
        fields["APE1_MTYPE"] = Mtype.CC if agent.is_apu else Mtype.UC
    if "PRIVATE_ATC" in names:
        fields["PRIVATE_ATC"] = int(agent.is_apu)
    if "RETRY_DISABLE" in names:
        fields["RETRY_DISABLE"] = int(not agent.xnack)
    return register.encode(**fields)


def ptr64_mismatch(agent: Agent, small: bool, is_ptr64: bool) -> str:
    """What is wrong where a kernel's is_ptr64 does not match SH_MEM_CONFIG; "" where it does."""
    if is_ptr64 is not small:
        return ""
    register = SH_MEM_CONFIG[agent.target.level]
    config = register.explain(sh_mem_config(agent, small))
    pointers = "32 bits in the small" if small else "64 bits in the large"
    return f"the kernel's is_ptr64 is {int(is_ptr64)}, pointers have {pointers} machine model: {config}"


@dataclass(frozen=True, slots=True)
class PcieAtomic:
    """How a system scope atomic operation is done over PCIe: the instruction, and the transaction it becomes."""

    instruction: str
    tlp: str
    negated: bool = False


PCIE_ATOMICS: Final = {
    "load": PcieAtomic("flat_load_dword*", "MRd"),
    "store": PcieAtomic("flat_store_dword*", "MWr"),
    "add": PcieAtomic("flat_atomic_add", "FetchAdd"),
    "sub": PcieAtomic("flat_atomic_add", "FetchAdd", negated=True),
    "swap": PcieAtomic("flat_atomic_swap", "Swap"),
    "cas": PcieAtomic("flat_atomic_cmpswap", "CAS"),
}
"""Operations that PCIe Gen3 has."""
CAS_LOOPS: Final = frozenset({"max", "min", "and", "or", "xor", "wrapinc", "wrapdec"})
"""Operations that take a loop of compare-and-swap."""


def has_pcie_atomics(agent: Agent, enabled: bool | None = None) -> bool:
    """Whether agent and host have them: as `enabled` says, or the agent's table."""
    return agent.pcie_atomics if enabled is None else enabled


def pcie_atomic(agent: Agent, operation: str, enabled: bool | None = None) -> PcieAtomic:
    """The sequence for a system scope atomic `operation` on memory behind PCIe.

    `enabled` is the configuration of the host; None: as the agent's table says. A `BeyondModel` where the platform has
    no PCIe atomics, a `WireError` for what is no operation.
    """
    if operation not in PCIE_ATOMICS and operation not in CAS_LOOPS:
        raise WireError(
            f"no atomic operation {operation!r}: there are {', '.join([*PCIE_ATOMICS, *sorted(CAS_LOOPS)])}"
        )
    if not has_pcie_atomics(agent, enabled) and operation not in ("load", "store"):
        raise BeyondModel(f"{agent.name} has no PCIe atomics: {operation} on host memory is not atomic there")
    return PCIE_ATOMICS.get(operation, PCIE_ATOMICS["cas"])
