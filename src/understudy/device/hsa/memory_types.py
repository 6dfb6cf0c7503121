"""Which kinds of memory an agent sees, and what read-modify-writes become that cross PCIe.

Clause "PCIe Gen3 Atomic Operations" of the document. An APU has no PCIe between itself and the host's memory. Elsewhere
memory of the host that caches pass by is reached by FetchAdd, Swap and CAS transactions, where the platform has them;
all other operations take a loop of compare-and-swap.
"""

from __future__ import annotations

from typing import Final

from understudy.core.errors import AccessFault, WireError
from understudy.core.rule import Rule
from understudy.device.hsa import rules
from understudy.device.hsa.agents import CAS_LOOPS, PCIE_ATOMICS, Agent, has_pcie_atomics
from understudy.device.hsa.atomics import compiled
from understudy.engine.gcn.jit.layout import ATOMICS
from understudy.engine.gcn.memory_type import COARSE, MemoryType, Mtype

KINDS: Final = {
    "add": "add", "sub": "sub", "swap": "swap", "cmpswap": "cas", "smax": "max", "umax": "max", "smin": "min",
    "umin": "min", "and": "and", "or": "or", "xor": "xor", "inc": "wrapinc", "dec": "wrapdec",
}  # fmt: skip
"""The document's names of the read-modify-writes of instructions; floating-point ones have none."""


def obstacle(kind: str) -> tuple[str, Rule] | None:
    """Why PCIe cannot carry a read-modify-write of an instruction, and the rule; None where it can."""
    operation = KINDS.get(kind, kind)
    if operation in CAS_LOOPS or operation not in PCIE_ATOMICS:
        return f"{operation} takes a loop of compare-and-swap", rules.PCIE_LOOPS
    if PCIE_ATOMICS[operation].negated:
        return f"{operation} is an addition of the negated value", rules.PCIE_SEQUENCES
    return None


class PcieCompleter:
    """The root complex of a host: does atomic operations that come over PCIe."""

    def __init__(self, agent: Agent, enabled: bool | None) -> None:
        self._agent = agent
        self._supported = has_pcie_atomics(agent, enabled)

    def check(self, kind: str, bits: int, address: int) -> None:
        """`AccessFault` where the platform has no PCIe atomics, or PCIe not this one."""
        text = f"atomic {KINDS.get(kind, kind)} of {bits // 8} bytes at {address:#x}: it is host memory behind PCIe, "
        if not self._supported:
            text += f"and {self._agent.name} has no PCIe atomics here"
            raise AccessFault(text, address=address, access="atomic", rule=rules.PCIE_OPTION)
        found = obstacle(kind)
        if found is not None:
            text += f"which has FetchAdd, Swap and CAS: {found[0]}"
            raise AccessFault(text, address=address, access="atomic", rule=found[1])

    def update(self, kind: str, bits: int, host: int, value: int, compare: int) -> int:
        """FetchAdd, Swap or CAS of 32 or 64 bits."""
        mask = (1 << bits) - 1
        return compiled(bits).change(ATOMICS.index(kind), host, value & mask, compare & mask)


class MemoryTypes:
    """The kinds of memory of one device. `fine` is that of queues, signals and kernel arguments."""

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
        """The kind that is meant: by default coarse-grained (NC) memory of the device.

        With `host` it is memory of the host, fine-grained by default: CC on an APU, elsewhere UC. Where it is not
        cached (CC or UC), read-modify-writes of waves cross PCIe. `WireError` for what is no memory type.
        """
        try:
            return self._known[Mtype[mtype.upper()] if isinstance(mtype, str) else mtype, host]
        except KeyError:
            names = ", ".join(each.name for each in Mtype)
            raise WireError(f"no memory type {mtype!r}, expected one of {names}") from None
