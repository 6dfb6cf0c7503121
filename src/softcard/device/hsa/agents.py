"""The available HSA agents, one for each processor.

The processors are those in the table of the ROCm Code Object specification, and the later processors of GFX9.
The table lists only the names of products. The numbers of compute units and waves and the memory sizes are
those of a processor's largest product in the table. They come from AMD's public data sheets and the kernel
driver's tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from softcard.core.errors import BeyondModel, WireError, close_to
from softcard.core.register import Field, Register
from softcard.engine.gcn.memory import Mtype
from softcard.isa.gcn.target import GFX7, GFX8, GFX9, Target, target

UNALIGNED: Final = 3
"""The alignment mode SH_MEM_ALIGNMENT_MODE_UNALIGNED."""
SIMDS_PER_CU: Final = 4
WAVES_PER_SIMD: Final = 10
CDNA_WAVES_PER_SIMD: Final = 8
"""The maximum number of waves per SIMD, from gfx90a on."""
LDS_BYTES: Final = 65536
"""The size in bytes of a compute unit's LDS, which is also the maximum for one work-group."""
GFX950_LDS_BYTES: Final = 163840
WORKGROUP_LIMIT: Final = 1024


class DoorbellType(IntEnum):
    """The units of the value that is written to a doorbell.

    0 means dwords, modulo twice the ring size. 1 means packets, as a 32-bit number. 2 means packets, as a 64-bit
    number."""

    DWORDS_32 = 0
    PACKETS_32 = 1
    PACKETS_64 = 2


@dataclass(frozen=True, slots=True)
class Agent:
    """The properties of one kernel agent.

    - `double_rate`: the speed of binary64 relative to binary32.
    - `is_apu`: True if the agent shares the host's memory.
    - `xnack` and `sramecc`: the settings of these features, which code objects may require.
    - `xccs`: the number of accelerator dies whose compute units the agent has (SPX mode); work-groups are
      distributed to the dies round robin."""

    name: str
    products: str
    compute_units: int
    double_rate: str
    is_apu: bool = False
    xnack: bool = False
    sramecc: bool = False
    pcie_atomics: bool = False
    note: str = ""
    waves_per_cu: int = SIMDS_PER_CU * WAVES_PER_SIMD
    lds_bytes: int = LDS_BYTES
    workgroup_limit: int = WORKGROUP_LIMIT
    xccs: int = 1

    @property
    def target(self) -> Target:
        """The agent's instruction set."""
        return target(self.name)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of features that code must fit: "on" or "off" by name; empty if any code fits.

        Only agents with matrix instructions require code with their settings.
        """
        if not self.target.matrix:
            return {}
        return {"xnack": "on" if self.xnack else "off", "sramecc": "on" if self.sramecc else "off"}

    @property
    def isa(self) -> str:
        """The name of the agent's ISA, such as ``AMD:AMDGPU:8:0:3``; the stepping is decimal."""
        version = self.name.removeprefix("gfx")
        return f"AMD:AMDGPU:{version[:-2]}:{version[-2]}:{int(version[-1], 16)}"

    @property
    def max_waves(self) -> int:
        """The maximum number of waves that the agent can execute at a time."""
        return self.compute_units * self.waves_per_cu

    def resident_groups(self, waves: int, lds_bytes: int) -> int:
        """Return the number of work-groups that the agent can execute at a time, as their waves and LDS permit."""
        of_waves = self.waves_per_cu // max(waves, 1)
        return self.compute_units * max(min(of_waves, self.lds_bytes // max(lds_bytes, 1)), 0)

    @property
    def doorbell_type(self) -> DoorbellType:
        """The encoding of the agent's doorbell values."""
        return {GFX7: DoorbellType.DWORDS_32, GFX8: DoorbellType.PACKETS_32, GFX9: DoorbellType.PACKETS_64}[
            self.target.level
        ]

    @property
    def is_legacy(self) -> bool:
        """True if the doorbells are of the legacy kind (GFX7 and GFX8)."""
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
        Agent("gfx902", "", 11, "1/16", is_apu=True, note="not in the document's table"),
        Agent("gfx904", "", 20, "1/16", pcie_atomics=True, note="not in the document's table"),
        Agent("gfx906", "", 64, "1/2", pcie_atomics=True, note="not in the document's table"),
        Agent("gfx908", "", 120, "1/2", sramecc=True, pcie_atomics=True, note="not in the document's table"),
        Agent("gfx909", "", 3, "1/16", is_apu=True, note="not in the document's table"),
        Agent("gfx90a", "", 110, "1", sramecc=True, pcie_atomics=True, waves_per_cu=SIMDS_PER_CU * CDNA_WAVES_PER_SIMD,
              note="not in the document's table"),
        Agent("gfx90c", "", 8, "1/16", is_apu=True, note="not in the document's table"),
        Agent("gfx942", "", 304, "1/2", sramecc=True, pcie_atomics=True, xccs=8,
              waves_per_cu=SIMDS_PER_CU * CDNA_WAVES_PER_SIMD, note="not in the document's table"),
        Agent("gfx950", "", 256, "1/2", sramecc=True, pcie_atomics=True, xccs=8, lds_bytes=GFX950_LDS_BYTES,
              waves_per_cu=SIMDS_PER_CU * CDNA_WAVES_PER_SIMD, note="not in the document's table"),
    )
}  # fmt: skip
"""All agents by name."""


def agent(name: str) -> Agent:
    """Return the agent called `name`; raise `WireError` for an unknown name."""
    try:
        return AGENTS[name]
    except KeyError:
        raise WireError(
            f"unknown agent {name!r}, expected one of {', '.join(AGENTS)}{close_to(name, AGENTS)}"
        ) from None


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
"""The register SH_MEM_CONFIG by generation.

GFX9 has no default MTYPE, since page table entries contain it.
"""


def sh_mem_config(agent: Agent, small: bool = False) -> int:
    """Return the value of the register SH_MEM_CONFIG for `agent`; `small` selects the small memory model.

    The value allows unaligned accesses and, in the small model, selects 32-bit pointers. If the register has a
    default memory type, it is NC. On GFX8 the value also selects host addresses (HSA) on APUs and device
    addresses (GPUVM) otherwise. APE1 is the range of fine-grained memory."""
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
    """Return an error message if a kernel's is_ptr64 contradicts SH_MEM_CONFIG, and "" otherwise.

    `small` is True for the small memory model, which has 32-bit pointers.
    """
    if is_ptr64 is not small:
        return ""
    register = SH_MEM_CONFIG[agent.target.level]
    config = register.explain(sh_mem_config(agent, small))
    pointers = "32 bits in the small" if small else "64 bits in the large"
    return f"the kernel's is_ptr64 is {int(is_ptr64)}, but pointers have {pointers} machine model: {config}"


@dataclass(frozen=True, slots=True)
class PcieAtomic:
    """The instruction and the PCIe transaction that implement an atomic operation of system scope."""

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
"""The atomic operations that PCIe Gen3 supports."""
CAS_LOOPS: Final = frozenset({"max", "min", "and", "or", "xor", "wrapinc", "wrapdec"})
"""The atomic operations that need a compare-and-swap loop over PCIe."""


def has_pcie_atomics(agent: Agent, enabled: bool | None = None) -> bool:
    """Return True if PCIe atomics are available.

    `enabled` is the configuration of the host. If it is None, the agent table decides."""
    return agent.pcie_atomics if enabled is None else enabled


def pcie_atomic(agent: Agent, operation: str, enabled: bool | None = None) -> PcieAtomic:
    """Return the implementation of an atomic `operation` of system scope on host memory over PCIe.

    `enabled` is the configuration of the host. If it is None, the agent table decides. Raise `BeyondModel` if the
    platform has no PCIe atomics, and `WireError` for an unknown operation."""
    if operation not in PCIE_ATOMICS and operation not in CAS_LOOPS:
        raise WireError(
            f"unknown atomic operation {operation!r}, expected one of {', '.join([*PCIE_ATOMICS, *sorted(CAS_LOOPS)])}"
        )
    if not has_pcie_atomics(agent, enabled) and operation not in ("load", "store"):
        raise BeyondModel(f"{agent.name} has no PCIe atomics: {operation} on host memory is not atomic there")
    return PCIE_ATOMICS.get(operation, PCIE_ATOMICS["cas"])
