"""The host-target interface of bare-metal tests, as riscv-tests and riscv-pk use it: what stores to tohost mean.

Bits 63 to 56 are a device, 55 to 48 a command of it, the others its payload. Device 0 does calls, or ends the program;
device 1 is a console. What the host says to that, it puts into fromhost; tohost is 0 then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from understudy.core.errors import AccessFault, BeyondModel

if TYPE_CHECKING:
    from understudy.host.rv64.calls import Calls
    from understudy.host.rv64.memory import ProgramMemory

CALLS, CONSOLE = 0, 1
PUT: Final = 1
"""The console's command to show a byte."""
CALL_WORDS: Final = 8
"""Number and arguments of a call; the first word is its result then."""
STANDARD_OUTPUT: Final = 1


class Ended(Exception):
    """The program said that it is done; `status` is its word's upper bits, 0 for a test that passed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class HostTarget:
    """Does what a program asks for by tohost; `answers` is the address of fromhost, None where there is none."""

    def __init__(self, memory: ProgramMemory, calls: Calls, answers: int | None) -> None:
        self._memory = memory
        self._calls = calls
        self._answers = answers

    def told(self, word: int) -> None:
        """The program stored this to tohost. `Ended`, or `BeyondModel` for what no host of ours does."""
        device, command, payload = word >> 56, word >> 48 & 0xFF, word & (1 << 48) - 1
        if (device, command) == (CALLS, 0):
            if payload & 1:
                raise Ended(payload >> 1)
            self._call(word, payload)
            answer = 1
        elif (device, command) == (CONSOLE, PUT):
            self._calls.put(STANDARD_OUTPUT, bytes([payload & 0xFF]))
            answer = word & ~0xFFFF_FFFF_FFFF | 0x100 | payload & 0xFF
        else:
            raise BeyondModel(
                f"tohost = {word:#x}: command {command} of device {device} of the host's is not modelled, "
                "there are an end (an odd word), calls (the address of 8 words) and bytes for the console (device 1, 1)"
            )
        memory = self._memory
        memory.clear_mailbox()
        if self._answers is not None:
            memory.write(self._answers, answer.to_bytes(8, "little"))

    def _call(self, word: int, at: int) -> None:
        try:
            number, *arguments = (self._memory.load(at + 8 * k, 8) for k in range(CALL_WORDS))
        except AccessFault as error:
            raise BeyondModel(
                f"tohost = {word:#x} is neither odd, an end, nor the address of a call: {error}"
            ) from None
        result = self._calls.call(number, *arguments[:3])
        self._memory.write(at, result.to_bytes(8, "little"))
