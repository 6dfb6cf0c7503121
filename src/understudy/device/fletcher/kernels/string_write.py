"""StringWrite: random strings from the shift registers of Fletcher's example, bit for bit.

Lengths come from one 8-bit register, characters from 64 of them side by side, a line of 64 at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.errors import BeyondModel
from understudy.device.fletcher.job import Job
from understudy.device.fletcher.kernel import Handshake, Kernel, kernel

NAME: Final = "StringWrite"
RESULT: Final = 0x4200_1337_0DDF_00D5
"""A constant of the example: it has no result."""
LANES: Final = 64
PERIOD: Final = 255
"""Steps after which a register is where it was; 255 alone maps to itself, and no register starts there."""
SLICE_ROWS: Final = 1 << 14
FIRST_PRINTABLE: Final = 32
DELETE: Final = 127


def step(register: int) -> int:
    """The next state of an 8-bit shift register that shifts in the inverted sum of bits 7, 5, 4 and 3."""
    tap = ~(register >> 7 ^ register >> 5 ^ register >> 4 ^ register >> 3) & 1
    return (register << 1 | tap) & 0xFF


@cache
def _states(seed: int) -> NDArray[np.uint8]:
    """A whole period of states after `seed`."""
    found, register = [], seed
    for _ in range(PERIOD):
        register = step(register)
        found.append(register)
    return np.array(found, np.uint8)


@cache
def _characters() -> NDArray[np.uint8]:
    """A whole period of lines of 64 characters, one behind the other."""
    lines = np.stack([_states(seed) for seed in range(LANES)], axis=1) & np.uint8(0x7F)
    lines[(lines < FIRST_PRINTABLE) | (lines == DELETE)] = ord(".")
    return lines.ravel()


def lengths(first: int, last: int, minimum: int, mask: int) -> NDArray[np.int64]:
    """Lengths of strings `first` to `last`: minimum plus masked random, in 8 bits."""
    random = _states(0)[np.arange(first, last) % PERIOD]
    return ((minimum & 0xFF) + (random & np.uint8(mask & 0xFF)).astype(np.int64)) & 0xFF


def strings(sizes: NDArray[np.int64], line: int) -> tuple[NDArray[np.int32], NDArray[np.uint8], int]:
    """Offsets and characters of strings of these sizes, the first one from `line` on; and the line behind the last.

    Each string begins a new line, and an empty one takes one too.
    """
    taken = np.maximum(-(-sizes // LANES), 1)
    starts = line + np.cumsum(taken) - taken
    offsets = np.zeros(len(sizes) + 1, np.int32)
    offsets[1:] = np.cumsum(sizes)
    places = np.repeat(starts * LANES - offsets[:-1], sizes) + np.arange(offsets[-1])
    return offsets, _characters()[places % (PERIOD * LANES)], line + int(taken.sum())


def _run(job: Job, as_built: bool) -> Iterator[None]:
    first, last = job.rows(NAME)
    if first:
        raise BeyondModel(f"StringWrite makes lastidx strings and takes firstidx for 0, not {first}")
    if not last:
        job.hang("StringWrite counts lastidx strings down to 0, and lastidx is 0")
    job.result = RESULT
    minimum, mask = job.control("strlen_min"), job.control("strlen_mask")
    line = written = 0
    for start in range(0, last, SLICE_ROWS):
        sizes = lengths(start, min(start + SLICE_ROWS, last), minimum, mask)
        offsets, characters, line = strings(sizes, line)
        if as_built:
            keep = int(offsets[1]) if not start else 0
            characters = np.concatenate([characters[:keep], _present(job, written, len(characters))[keep:]])
        column = pa.StringArray.from_buffers(len(sizes), pa.py_buffer(offsets), pa.py_buffer(characters))
        job.write(NAME, pa.RecordBatch.from_arrays([column], schema=job.map.batch(NAME).schema))
        written += len(characters)
        yield


def _present(job: Job, start: int, size: int) -> NDArray[np.uint8]:
    """What the values buffer holds now, zeros where it ends."""
    address = job.addresses(NAME)[1]
    there = max(0, min(size, (job.memory.extent(address) or 0) - start))
    found = np.zeros(size, np.uint8)
    if there:
        found[:there] = np.frombuffer(job.memory.read(address + start, there), np.uint8)
    return found


_made = kernel(
    "string_write",
    write={NAME: pa.schema([pa.field("String", pa.utf8(), nullable=False, metadata={"fletcher_epc": "64"})])},
    custom=("c:32:strlen_min", "c:32:strlen_mask"),
    handshake=Handshake(idle_when_done=True, restartable=True, heeds_stop=False, heeds_reset=False),
)


@_made
def string_write(job: Job) -> Iterator[None]:
    """Write lastidx random strings of strlen_min + (random and strlen_mask) characters, modulo 256."""
    return _run(job, as_built=False)


@_made
def _as_built(job: Job) -> Iterator[None]:
    """The same through the generator's 0.0.20 writer, of which only the first string's characters arrive."""
    return _run(job, as_built=True)


STRING_WRITE_AS_BUILT: Final[Kernel] = replace(_as_built, name="string_write_as_built")
