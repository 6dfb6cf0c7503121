"""What waves tell the device about: hints and traps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.core.errors import GuestFault
from understudy.core.telemetry import Telemetry
from understudy.device.hsa import rules
from understudy.device.hsa.agent_state import AgentState
from understudy.device.hsa.events import Trapped
from understudy.device.hsa.launch.plan import read_plan
from understudy.device.hsa.queues import Queue
from understudy.device.hsa.records import QueueProperties
from understudy.engine.gcn.memory import GpuMemory
from understudy.isa.gcn.state import EXEC, M0, Wave

MSG_INTERRUPT: Final = 1
"""Message id of s_sendmsg."""
TRAP_DOCUMENT: Final = 1
TRAP_DEBUGGER: Final = 3
"""Later compilers' debugtrap, which goes on where no debugger listens; 1 is the document's, 2 their trap."""
TRAPS: Final = {TRAP_DOCUMENT: "debug exception", 2: "trap, with which code gives up", TRAP_DEBUGGER: "debug trap"}
"""What s_trap numbers mean: the document's, and LLVM's "Trap Handler ABI"; others mean nothing."""


class WaveCalls:
    """Hears of the hints and traps of one device's waves. `ticks` is its clock."""

    def __init__(self, memory: GpuMemory, state: AgentState, ticks: memoryview, telemetry: Telemetry) -> None:
        self.trap_handler: Callable[[Trapped], bool] | None = None
        """See `HsaDevice`."""
        self._memory = memory
        self._state = state
        self._ticks = ticks
        self._telemetry = telemetry

    @staticmethod
    def hint_of(queue: Queue) -> Callable[[Wave, str, int], None]:
        """Takes waves' hints; of interest is s_sendmsg of an interrupt, which sends the low bits of M0."""

        def hint(wave: Wave, what: str, number: int) -> None:
            if what == "sendmsg" and number & 0xF == MSG_INTERRUPT:
                queue.device.interrupt(int(wave.sgpr[M0]) & 0xFF)

        return hint

    def trap_of(self, queue: Queue) -> Callable[[Wave, int], bool]:
        """Decides about waves' traps: whether they go on."""

        def trap(wave: Wave, number: int) -> bool:
            index = queue.load_read_index()  # of the packet that runs: launches are used again for later ones
            lanes = wave.s64(EXEC)
            lane = (lanes & -lanes).bit_length() - 1 if lanes else 0
            argument = int(wave.vgpr[0, lane])
            if not self._is_present(queue, index):
                resumed = True  # without TRAP_PRESENT the instruction does nothing
            elif self.trap_handler is not None:
                resumed = bool(self.trap_handler(Trapped(self._ticks[0], queue.number, index, number, argument, False)))
            else:
                resumed = number == TRAP_DEBUGGER
            self._telemetry.emit(lambda time: Trapped(time, queue.number, index, number, argument, resumed))
            if not resumed:
                what = TRAPS.get(number, "no trap of any compiler")
                text = f"s_trap {number}: {what}, v0 {argument:#x}"
                raise GuestFault(text, rule=rules.DEBUGTRAP if number == TRAP_DOCUMENT else None)
            return True

        return trap

    def _is_present(self, queue: Queue, index: int) -> bool:
        """Whether waves of a packet have a trap handler: by their kernel, their queue or the driver."""
        if self._state.has_trap_handler or queue.properties & QueueProperties.ENABLE_TRAP_HANDLER:
            return True
        kernel_object = int.from_bytes(queue.packet(index)[32:40], "little")
        return bool(read_plan(self._memory, kernel_object).facts.compute_pgm_rsrc2.enable_trap_handler)
