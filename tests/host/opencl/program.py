"""A host program of the OpenCL platform in the process of the tests: it calls entry points without the C library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from mmap import mmap
from typing import Any

from softcard.attach.opencl.server import MODULES
from softcard.core.diagnostics import Diagnostic
from softcard.core.space import host_address
from softcard.host.opencl import constants as cl
from softcard.host.opencl.calls import FUNCTIONS, Made, Performed
from softcard.host.opencl.memory import Memory
from softcard.host.opencl.objects import Arena, Callback, Context, Copy, Platform
from softcard.report.diagnostic_text import as_text

assert MODULES
ARENA_BYTES = 1 << 28
SLOTS = 256


class Program:
    """A program: `call` calls an entry point, as the library and the server do. `log` has the calls to the program."""

    def __init__(self, *agents: str, **options: Any) -> None:
        self.log: list[tuple[object, ...]] = []
        self.handles = 0x1000
        self.slot = 0
        options.setdefault("check", "memory")
        file = os.memfd_create("arena")
        os.ftruncate(file, ARENA_BYTES)
        self.memory = mmap(file, ARENA_BYTES)
        os.close(file)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        places = [(0x100 + number, agent) for number, agent in enumerate(agents or ("gfx900",))]
        self.slots = bytearray(64 * SLOTS)
        self.platform = Platform(
            self, Arena(self.memory, base), memoryview(self.slots), places, 0x10,
            {"on_finding": "keep", **options}, self._show, lambda source: ("", 0),
        )  # fmt: skip
        self.devices = self.platform.devices
        self.shown: list[Diagnostic] = []

    def _show(self, found: Diagnostic) -> str:
        self.shown.append(found)
        return as_text([found])

    # ---- the program, as the platform reaches it -------------------------------------------------------------------

    def copy(self, copies: Sequence[Copy]) -> None:
        for each in copies:
            for slice in range(each.slices):
                for row in range(each.rows):
                    target = each.target + slice * each.target_slice + row * each.target_row
                    source = each.source + slice * each.source_slice + row * each.source_row
                    ctypes.memmove(target, source, each.size)

    def call_event(self, callback: Callback, event: int, status: int) -> None:
        self.log.append(("event", callback, event, status))

    def call_context(self, callback: Callback, text: str) -> None:
        self.log.append(("context", callback, text))

    def call_object(self, callback: Callback, handle: int) -> None:
        self.log.append(("object", callback, handle))

    def call_built(self, callback: Callback, handle: int) -> None:
        self.log.append(("built", callback, handle))

    def call_native(self, function: int, arguments: bytes) -> None:
        self.log.append(("native", function, arguments))

    def call_free(self, callback: Callback, queue: int, pointers: Sequence[int]) -> None:
        self.log.append(("free", callback, queue, tuple(pointers)))

    # ---- calls -----------------------------------------------------------------------------------------------------

    def call(self, name: str, *arguments: Any) -> Any:
        """Call an entry point; return the object that it makes, or the value that it returns."""
        self.handles += 1
        result = FUNCTIONS[name](Call(name, self.platform, self.handles), *arguments)
        if isinstance(result, Made):
            self.copy(result.copies)
            self.platform.add(result.made)
            return result.made
        if isinstance(result, Performed):
            self.copy(result.copies)
            if result.command is not None:
                result.command.complete()
            return result.words or None
        return result

    def event(self) -> tuple[int, int]:
        """Return the place of a new event."""
        self.handles += 1
        self.slot += 1
        return self.handles, self.slot

    def forget(self, handle: int) -> None:
        """End a handle, as the library does when the program has no reference any more."""
        rest = self.platform.forget(handle)
        if rest is not None:
            rest()

    def context(self, notify: Callback = (0, 0)) -> Context:
        """Return a context with all devices."""
        made = self.call("clCreateContext", None, self.devices, notify)
        assert isinstance(made, Context)
        return made

    def buffer(self, context: Context, size: int, flags: int = 0, host: Any = None) -> Memory:
        """Return a buffer, with the contents of an array if it is passed."""
        if host is not None and not flags & cl.MEM_USE_HOST_PTR:
            flags |= cl.MEM_COPY_HOST_PTR
        made = self.call("clCreateBuffer", context, flags, size, 0 if host is None else host_address(host))
        assert isinstance(made, Memory)
        return made

    def close(self) -> None:
        """End the platform."""
        self.platform.close()


class Call:
    """A call; see `host.opencl.calls.Call`."""

    def __init__(self, name: str, platform: Platform, made: int) -> None:
        self.name = name
        self.platform = platform
        self.made = made
        self.repeat: object = None

    def proceed(self) -> None:
        """Do nothing: the tests make one call at a time."""


def arguments(*values: tuple[int, bytes] | int) -> bytes:
    """Return a block of arguments: a state and bytes, or the size of local memory, for each argument."""
    block = b""
    for value in values:
        if isinstance(value, int):
            block += (3 << 48 | value).to_bytes(8, "little")
        else:
            state, data = value
            block += (state << 48 | len(data)).to_bytes(8, "little") + data + bytes(-len(data) % 8)
    return block


def handle(made: Any) -> tuple[int, bytes]:
    """Return the argument for an object."""
    return 2, int(made.handle).to_bytes(8, "little")


def value(data: bytes) -> tuple[int, bytes]:
    """Return the argument for a value."""
    return 1, data
