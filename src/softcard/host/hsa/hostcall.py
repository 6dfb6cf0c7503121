"""The hostcall service: requests of running kernels to the host, in the protocol of AMD's device library (OCKL).

A wave takes a packet from a stack of free packets, fills it, pushes it on the stack of ready packets, adds 1 to the
doorbell (a signal whose mailbox causes an interrupt) and waits until the host clears the packet's ready flag. Each
active lane has eight words in the packet. Kernels use the service ``printf``, for HIP's ``printf``, Triton's
``device_print`` and the message of a failed assertion.
"""

from __future__ import annotations

import re
import threading
from typing import Final

import numpy as np

from softcard.core.errors import BeyondModel
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.memory.atomics import Word
from softcard.device.hsa.queues.records import AmdSignal
from softcard.host.printf import formatted

PACKETS: Final = 1024
"""The number of packets, a power of 2. It is larger than the number of waves that run at a time."""
LANES: Final = 64
SLOTS: Final = 8
"""The number of words of each lane in a packet."""
BUFFER_BYTES, HEADER_BYTES, PAYLOAD_BYTES = 64, 24, LANES * SLOTS * 8
READY_AT: Final = 32
"""The offset of the stack of ready packets in the buffer."""
CONTROL_AT: Final = 20
"""The offset of the control word, whose bit 0 is the ready flag, in the header of a packet."""
SERVICE_PRINTF: Final = 2
BEGIN, END = 1, 2
"""The flags of a message's descriptor: the packet begins or ends the message."""
LENGTH_AT, LENGTH_MASK, NUMBER_AT = 5, 7, 8
"""The bits of a descriptor: the number of words in the packet, and the number of the message."""
EVENT: Final = 0xFE
"""The id of the doorbell's event."""
_CONVERSION: Final = re.compile(
    r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d*))?(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[a-zA-Z%])"
)
_SIZES: Final = {"hh": 1, "h": 2, "": 4}
"""The size in bytes of an integer by its length modifier, if it is not 8."""


class Hostcalls:
    """The hostcall buffer of a queue, and the text that the queue's kernels have printed through it."""

    def __init__(self, device: HsaDevice) -> None:
        self._device = device
        headers_at, payloads_at = BUFFER_BYTES, BUFFER_BYTES + PACKETS * HEADER_BYTES
        size = payloads_at + PACKETS * PAYLOAD_BYTES
        self.address = base = device.allocate(size, 64, mtype=device.fine_mtype, name="hostcall buffer")
        mailbox = device.allocate(AmdSignal.size_bytes, 64, mtype=device.fine_mtype, name="hostcall mailbox")
        doorbell = device.create_signal(0, mailbox, EVENT)
        self._block = device.block(base)
        view = device.view(base, size)
        self._headers = np.frombuffer(view, np.uint64, PACKETS * 3, headers_at).reshape(PACKETS, 3)
        self._services = np.frombuffer(view, np.uint32, PACKETS * 6, headers_at).reshape(PACKETS, 6)
        self._payloads = np.frombuffer(view, np.uint64, PACKETS * LANES * SLOTS, payloads_at).reshape(
            PACKETS, LANES, SLOTS
        )
        tag = PACKETS  # pointers to packets have a tag above the index, so that none is 0
        self._headers[0, 0] = 0
        self._headers[1:, 0] = np.arange(PACKETS - 1) + tag
        words = np.frombuffer(view, np.uint64, 6)
        words[:] = [base + headers_at, base + payloads_at, doorbell.address, tag + PACKETS - 1, 0, PACKETS - 1]
        self._ready = Word(device.memory, base + READY_AT)
        self._messages: dict[int, list[int]] = {}
        self._number = 0
        self._printed: list[str] = []
        self._lock = threading.RLock()
        device.observe_interrupts(self._serve)

    @property
    def is_valid(self) -> bool:
        """True if the buffer is in device memory; False if the device was restored to an earlier state."""
        return self._device.block(self.address) is self._block

    def text(self) -> str:
        """Return the text that kernels have printed since the last call."""
        with self._lock:
            found, self._printed = "".join(self._printed), []
            return found

    def _serve(self, _: int) -> None:
        """Handle the ready packets."""
        with self._lock:
            if not self.is_valid:
                return
            at = self._ready.rmw("exch", 0)
            order = []
            while at:
                order.append(at & PACKETS - 1)
                at = int(self._headers[order[-1], 0])
            for index in reversed(order):  # the stack has the latest packet on top
                self._handle(index)
                control = self.address + BUFFER_BYTES + index * HEADER_BYTES + CONTROL_AT
                Word(self._device.memory, control, 32).store(0)

    def _handle(self, index: int) -> None:
        service, lanes = int(self._services[index, 4]), int(self._headers[index, 1])
        if service != SERVICE_PRINTF:
            raise BeyondModel(f"hostcall service {service} is not supported, only {SERVICE_PRINTF} (printf)")
        for lane in range(LANES):
            if lanes >> lane & 1:
                self._message(self._payloads[index, lane])

    def _message(self, words: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
        """Add the words of one lane to its message, and print the message if it is complete."""
        descriptor = int(words[0])
        number = descriptor >> NUMBER_AT
        if descriptor & BEGIN:
            self._number += 1
            number = self._number
            self._messages[number] = []
            words[0] = number << NUMBER_AT | descriptor & ~BEGIN & (1 << NUMBER_AT) - 1
        message = self._messages.setdefault(number, [])
        length = descriptor >> LENGTH_AT & LENGTH_MASK
        message += words[1 : 1 + length].tolist()
        if descriptor & END:
            text = printed(self._messages.pop(number))
            self._printed.append(text)
            words[0] = len(text.encode())


def printed(message: list[int]) -> str:
    """Return the text of a printed message: a word with flags, the format, and the arguments.

    The format and strings occupy whole words; each number occupies a word.
    """
    data = np.array(message[1:], np.uint64).tobytes()
    at = 0

    def string() -> bytes:
        nonlocal at
        found = data[at:].partition(b"\0")[0]
        at += len(found) // 8 * 8 + 8
        return found

    text = string().decode("utf-8", "replace")
    arguments: list[bytes] = []
    for each in _CONVERSION.finditer(text):
        arguments += [_word(data, at + 8 * number) for number in range(each[0].count("*"))]
        at += 8 * each[0].count("*")
        if each["kind"] == "s":
            arguments.append(string() + b"\0")
        elif each["kind"] != "%":
            size = _SIZES.get(each["length"] or "", 8) if each["kind"] in "diouxXc" else 8
            arguments.append(_word(data, at)[:size])
            at += 8
    return formatted(text, arguments)


def _word(data: bytes, at: int) -> bytes:
    return data[at : at + 8].ljust(8, b"\0")
