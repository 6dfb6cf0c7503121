"""Compute queues of PM4 commands (queue type 0 of the driver): rings, and the commands that start kernels.

A queue executes one command after the other: the kernel of a DISPATCH_DIRECT has ended before the next command
begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from softcard.core.errors import RuleError, SoftcardError
from softcard.core.limits import Stopped, Watch
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.launch.registers import ComputeRegisters, DispatchDirect
from softcard.device.hsa.pm4 import DWORD, Command, Commands, check_size, next_command
from softcard.device.kfd.address_space import AddressSpace
from softcard.device.kfd.ioctls import boot_nanoseconds

CONTEXT_BITS: Final = 32
"""The number of valid bits of the event number in an interrupt of RELEASE_MEM."""


class ComputeQueue:
    """One PM4 queue of an agent.

    `position` is the start of the next command, and `limit` is the end of the submitted commands. Both are in dwords
    since the queue was created. `error` is the error that stopped the queue. `interrupt` is called with the number of
    an event and its number of valid bits."""

    def __init__(
        self, number: int, device: HsaDevice, space: AddressSpace, ring: int, size: int, read_pointer: int,
        interrupt: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        self.number = number
        self.position = 0
        self.limit = 0
        self.error: SoftcardError | None = None
        self.is_active = True
        self.commands = 0
        """The number of executed commands, which identifies a command in traces."""
        self._device = device
        self._space = space
        self._ring = ring
        self._dwords = size // DWORD
        self._read_pointer = read_pointer
        self._registers = ComputeRegisters()
        self._executor = Commands(
            space, device.flush_caches, lambda event: interrupt(event, CONTEXT_BITS), boot_nanoseconds,
            {Command.DISPATCH_DIRECT: self._dispatch, Command.SET_SH_REG: self._set_registers},
        )  # fmt: skip
        self._watch = Watch(device.settings.time_limit_seconds)

    def ring(self, value: int) -> None:
        """Handle a store of `value` to the queue's doorbell: the end of the commands submitted so far, in dwords."""
        self.limit = self.end_of(value)

    def end_of(self, value: int) -> int:
        """Return the end of the commands that the doorbell value `value` announces."""
        return min(value, self.position + self._dwords) if value > self.position else self.limit

    @property
    def has_work(self) -> bool:
        """True if submitted commands remain, whether they can run or have to wait."""
        is_left = self.position < self.limit or self._executor.buffer is not None
        return self.error is None and self.is_active and is_left

    def stop(self, why: str) -> None:
        """End the running kernel because of `why`; no further command begins."""
        self._watch.stopped = why

    def work(self) -> int:
        """Execute commands until one has to wait; return the number of executed commands."""
        done = 0
        while self.has_work and not self._watch.stopped:
            try:
                if not self._one():
                    break
            except Stopped as stopped:
                self.error = stopped
                break
            except SoftcardError as error:
                self.error = error.at("dword of the ring", f"{self.position:#x}").at("PM4 queue", self.number)
                raise
            self.commands += 1
            done += 1
        return done

    def _one(self) -> bool:
        """Execute the next command of the indirect buffer or of the ring; return False if it has to wait."""
        if self._executor.buffer is not None:
            return self._executor.execute_next()
        opcode, body = next_command(self._words, self.limit - self.position)
        if not self._executor.execute(opcode, body):
            return False
        self.position += 1 + len(body)
        shown = self.position % self._dwords
        self._space.store(self._read_pointer, memoryview(bytearray(shown.to_bytes(DWORD, "little"))))
        return True

    def _words(self, count: int) -> Sequence[int]:
        """Return `count` dwords of the ring from the next command on; the ring wraps around."""
        start = self.position % self._dwords
        first = min(count, self._dwords - start)
        data = self._space.load(self._ring + DWORD * start, DWORD * first)
        if first < count:
            data += self._space.load(self._ring, DWORD * (count - first))
        found: list[int] = np.frombuffer(data, "<u4").tolist()
        return found

    # ---- commands by opcode --------------------------------------------------------------------------------------

    def _set_registers(self, body: list[int]) -> bool:
        if len(body) < 2:
            raise RuleError(f"SET_SH_REG has {len(body)} dwords after its header, expected 2 or more")
        self._registers.store(body[0] & 0xFFFF, body[1:])
        return True

    def _dispatch(self, body: list[int]) -> bool:
        check_size(Command.DISPATCH_DIRECT, body, len(DispatchDirect._fields))
        self._device.run_registers(self._registers, DispatchDirect(*body), self.number, self.commands, self._watch)
        return True
