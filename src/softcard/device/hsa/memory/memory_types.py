"""The kinds of memory that an agent accesses, and the implementation of read-modify-writes across PCIe.

See the clause "PCIe Gen3 Atomic Operations" of the ROCm Code Object specification. An APU accesses the host's memory
without PCIe. Other agents access uncached memory of the host by FetchAdd, Swap and CAS transactions, if the platform
has them; all other operations need a loop of compare-and-swap.
"""

from __future__ import annotations

from typing import Final

from softcard.core.errors import AccessFault, WireError
from softcard.core.rule import Rule
from softcard.device.hsa import rules
from softcard.device.hsa.agents import CAS_LOOPS, PCIE_ATOMICS, Agent, has_pcie_atomics
from softcard.device.hsa.memory.atomics import compiled
from softcard.engine.gcn.jit.layout import ATOMICS
from softcard.engine.gcn.memory import COARSE, MemoryType, Mtype

KINDS: Final = {
    "add": "add", "sub": "sub", "swap": "swap", "cmpswap": "cas", "smax": "max", "umax": "max", "smin": "min",
    "umin": "min", "and": "and", "or": "or", "xor": "xor", "inc": "wrapinc", "dec": "wrapdec",
}  # fmt: skip
"""The names of read-modify-write operations in the ROCm Code Object specification.

The keys are the operation's names in instructions. Floating-point operations are missing because the specification does
not name them.
"""


def obstacle(kind: str) -> tuple[str, Rule] | None:
    """Return the reason why PCIe cannot carry a read-modify-write of kind `kind`, and the rule that forbids it.

    Return None if PCIe can carry it."""
    operation = KINDS.get(kind, kind)
    if operation in CAS_LOOPS or operation not in PCIE_ATOMICS:
        return f"{operation} needs a compare-and-swap loop", rules.PCIE_LOOPS
    if PCIE_ATOMICS[operation].negated:
        return f"{operation} has to be written as an addition of the negated value", rules.PCIE_SEQUENCES
    return None


class PcieCompleter:
    """The root complex of a host, which executes atomic operations that arrive over PCIe."""

    def __init__(self, agent: Agent, enabled: bool | None) -> None:
        self._agent = agent
        self._supported = has_pcie_atomics(agent, enabled)

    def check(self, kind: str, bits: int, address: int) -> None:
        """Raise `AccessFault` if the platform lacks PCIe atomics, or if PCIe does not support the operation `kind`.

        `bits` is the width of the operation."""
        text = (
            f"atomic {KINDS.get(kind, kind)} of {bits // 8} bytes at {address:#x}: the address is in host memory, "
            "accessed over PCIe, "
        )
        if not self._supported:
            text += f"and the platform has no PCIe atomics for {self._agent.name}"
            raise AccessFault(text, address=address, access="atomic", rule=rules.PCIE_OPTION)
        found = obstacle(kind)
        if found is not None:
            text += f"which supports only FetchAdd, Swap and CAS: {found[0]}"
            raise AccessFault(text, address=address, access="atomic", rule=found[1])

    def update(self, kind: str, bits: int, host: int, value: int, compare: int) -> int:
        """Execute FetchAdd, Swap or CAS of 32 or 64 bits at address `host` of this process.

        Return the previous value.
        """
        mask = (1 << bits) - 1
        return compiled(bits).change(ATOMICS.index(kind), host, value & mask, compare & mask)


class MemoryTypes:
    """The kinds of memory that one device can allocate.

    `fine` is the fine-grained kind, used for queues, signals and kernel arguments: CC on an APU, UC on other agents.
    """

    def __init__(self, agent: Agent, pcie_atomics: bool | None = None) -> None:
        completer = None if agent.is_apu else PcieCompleter(agent, pcie_atomics)
        self._known: dict[tuple[Mtype | str | None, bool], MemoryType] = {}
        for mtype in Mtype:
            mine = COARSE if mtype is COARSE.mtype else MemoryType(mtype)
            self._known[mtype, False] = mine
            self._known[mtype, True] = mine if mtype.is_cached else MemoryType(mtype, completer)
        fine = Mtype.CC if agent.is_apu else Mtype.UC
        self.fine = self._known[fine, False]
        self._known[None, False], self._known[None, True] = COARSE, self._known[fine, True]

    def of(self, mtype: Mtype | str | None = None, host: bool = False) -> MemoryType:
        """Return the kind of memory for an allocation.

        The default is coarse-grained (NC) memory of the device. With `host` it is memory of the host, which is
        fine-grained by default: CC on an APU, UC on other agents. A read-modify-write of a wave goes over PCIe if it
        accesses host memory that is not cached (CC or UC). Raise `WireError` for an unknown memory type."""
        try:
            return self._known[Mtype[mtype.upper()] if isinstance(mtype, str) else mtype, host]
        except KeyError:
            names = ", ".join(each.name for each in Mtype)
            raise WireError(f"unknown memory type {mtype!r}, expected one of {names}") from None
