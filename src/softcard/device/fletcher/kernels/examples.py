"""The kernels of Fletcher's examples, which produce the same results as the examples' hardware."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from softcard.core.errors import BeyondModel
from softcard.device.fletcher.job import Job
from softcard.device.fletcher.kernel import Handshake, Kernel, kernel

# ---- Sum -------------------------------------------------------------------------------------------------------------
# Sum, Fletcher's first example: the 64-bit sum of a column, as its VHDL computes it.


SUM_SLICE_ROWS = 1 << 25
"""The number of rows in a slice of the kernel "sum": 256 MiB, about 10 ms.

The host can stop the kernel only between two slices.
"""


@kernel(
    "sum",
    read={"ExampleBatch": [("number", pa.int64())]},
    handshake=Handshake(idle_when_done=True, restartable=False),
)
def sum_numbers(job: Job) -> Iterator[None]:
    """Compute the sum of all numbers modulo 2**64. With an empty range, the kernel never finishes, as in hardware."""
    first, last = job.rows()
    if first == last:
        job.hang(f"Sum waits for its last row, but the range {first} to {last} is empty")
    total = 0
    for part in job.slices(rows=SUM_SLICE_ROWS):
        total += pc.sum(part.column(0)).as_py() or 0  # pyarrow's sum wraps around too
        yield
    job.result = total


# ---- PrimMap ---------------------------------------------------------------------------------------------------------
# PrimMap: absolute values plus a constant, column by column, in 8 bits.


ROWS_AS_BUILT: Final = 4
"""The number of rows that the example prim_map processes in hardware, whatever its index ranges are."""


def _mapped(job: Job, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns abs(A) + add and abs(B) + add for the rows of `batch`; abs(-128) is -128 in 8 bits."""
    add = np.uint8(job.control("add"))
    columns = [np.abs(column.to_numpy()).view(np.uint8) + add for column in batch.columns]
    return pa.RecordBatch.from_arrays([pa.array(c.view(np.int8)) for c in columns], schema=job.map.batch("W").schema)


_prim_map_made = kernel(
    "prim_map",
    read={"R": [("A", pa.int8()), ("B", pa.int8())]},
    write={"W": [("C", pa.int8()), ("D", pa.int8())]},
    custom=("c:8:add", "s:32:sum"),
)


@_prim_map_made
def prim_map(job: Job) -> Iterator[None]:
    """Compute C = abs(A) + add and D = abs(B) + add for all rows.

    The kernel sets neither the register sum nor the result."""
    for part in job.slices("R"):
        job.write("W", _mapped(job, part))
        yield


@_prim_map_made
def _prim_map_as_built(job: Job) -> None:
    """Compute the columns of `prim_map` for the first four rows only, as the example's hardware does."""
    first, last = job.rows("R")
    if last - first < ROWS_AS_BUILT:
        job.hang(f"PrimMap waits for {ROWS_AS_BUILT} rows, but the range {first} to {last} has {last - first}")
    job.write("W", _mapped(job, job.batch("R").slice(0, ROWS_AS_BUILT)))


PRIM_MAP_AS_BUILT: Final[Kernel] = replace(_prim_map_as_built, name="prim_map_as_built")


# ---- SodaBeer --------------------------------------------------------------------------------------------------------


HOBBITS: Final = (("name", pa.utf8()), ("age", pa.uint8()))


@kernel(
    "soda_beer",
    read={"Hobbits": HOBBITS},
    write={"Beer": HOBBITS, "Soda": HOBBITS},
    custom=("c:32:age_limit",),
)
def soda_beer(job: Job) -> Iterator[None]:
    """Copy hobbits whose age is age_limit or more to Beer, and the others to Soda.

    The low half of the result is the number of rows of Beer, the high half that of Soda (choice
    fletcher/soda-beer)."""
    beers = sodas = 0
    for part in job.slices("Hobbits"):
        grown = pc.greater_equal(part["age"], pa.scalar(job.control("age_limit"), pa.uint32()))
        beer, soda = part.filter(grown), part.filter(pc.invert(grown))
        job.write("Beer", beer.replace_schema_metadata(job.map.batch("Beer").schema.metadata))
        job.write("Soda", soda.replace_schema_metadata(job.map.batch("Soda").schema.metadata))
        beers, sodas = beers + beer.num_rows, sodas + soda.num_rows
        yield
    job.result = sodas << 32 | beers


# ---- StringRead and listprim -----------------------------------------------------------------------------------------
# StringRead and listprim, examples whose hardware prints what it reads: here each line is an event of the device.


PRINTER_SLICE_ROWS = 1 << 12

VECTOR = pa.list_(pa.field("item", pa.int16(), nullable=False))


def _print_all(job: Job, name: str) -> Iterator[None]:
    for part in job.slices(name, rows=PRINTER_SLICE_ROWS):
        for row in part.column(0).to_pylist():
            job.say(str(row))
        yield


@kernel(
    "string_read",
    read={"StringRead": pa.schema([pa.field("Name", pa.utf8(), nullable=False, metadata={"fletcher_epc": "4"})])},
    handshake=Handshake(idle_when_done=False),
)
def string_read(job: Job) -> Iterator[None]:
    """Emit every string as a line of text.

    The kernel does not set the result, and sets the status bit done without idle."""
    return _print_all(job, "StringRead")


@kernel("listprim", read={"src": [("vec", VECTOR)]}, write={"dst": [("vec", VECTOR)]})
def listprim(job: Job) -> Iterator[None]:
    """Emit every vector as a line of text.

    The kernel does not write to dst, because the example's write path is unfinished."""
    return _print_all(job, "src")


# ---- StringWrite -----------------------------------------------------------------------------------------------------
# StringWrite: random strings from the shift registers of Fletcher's example, bit for bit.
#
# Lengths come from one 8-bit register, characters from 64 parallel registers, a line of 64 characters at a time.


STRING_WRITE_BATCH: Final = "StringWrite"
STRING_WRITE_RESULT: Final = 0x4200_1337_0DDF_00D5
"""The kernel's result, a constant of the example."""
LANES: Final = 64
PERIOD: Final = 255
"""The number of steps after which the 8-bit shift register of the example returns to a state.

The state 255 is followed by itself; the example never starts a register in this state.
"""
STRING_WRITE_SLICE_ROWS: Final = 1 << 14
FIRST_PRINTABLE: Final = 32
DELETE: Final = 127


def next_state(register: int) -> int:
    """Return the next state of an 8-bit shift register that shifts in the inverted sum of bits 7, 5, 4 and 3."""
    tap = ~(register >> 7 ^ register >> 5 ^ register >> 4 ^ register >> 3) & 1
    return (register << 1 | tap) & 0xFF


@cache
def _states(seed: int) -> NDArray[np.uint8]:
    """Return all states of one period of the shift register, beginning with the state that follows `seed`."""
    found, register = [], seed
    for _ in range(PERIOD):
        register = next_state(register)
        found.append(register)
    return np.array(found, np.uint8)


@cache
def _characters() -> NDArray[np.uint8]:
    """Return the characters of one period of the example's text, which consists of lines of 64 characters each."""
    lines = np.stack([_states(seed) for seed in range(LANES)], axis=1) & np.uint8(0x7F)
    lines[(lines < FIRST_PRINTABLE) | (lines == DELETE)] = ord(".")
    return lines.ravel()


def lengths(first: int, last: int, minimum: int, mask: int) -> NDArray[np.int64]:
    """Return the lengths of strings `first` to `last` (exclusive) that the example generates.

    Each is `minimum` plus a random value that is ANDed with `mask`, modulo 256.
    """
    random = _states(0)[np.arange(first, last) % PERIOD]
    return ((minimum & 0xFF) + (random & np.uint8(mask & 0xFF)).astype(np.int64)) & 0xFF


def strings(sizes: NDArray[np.int64], line: int) -> tuple[NDArray[np.int32], NDArray[np.uint8], int]:
    """Return the offsets and characters of strings with the lengths `sizes`, and the number of the next line.

    Each string begins a new line of the example's text, the first one line number `line`. An empty string uses a line
    too.
    """
    taken = np.maximum(-(-sizes // LANES), 1)
    starts = line + np.cumsum(taken) - taken
    offsets = np.zeros(len(sizes) + 1, np.int32)
    offsets[1:] = np.cumsum(sizes)
    places = np.repeat(starts * LANES - offsets[:-1], sizes) + np.arange(offsets[-1])
    return offsets, _characters()[places % (PERIOD * LANES)], line + int(taken.sum())


def _run(job: Job, as_built: bool) -> Iterator[None]:
    first, last = job.rows(STRING_WRITE_BATCH)
    if first:
        raise BeyondModel(f"StringWrite is modelled only with firstidx 0, not {first}")
    if not last:
        job.hang("StringWrite counts lastidx strings down to 0, and lastidx is 0")
    job.result = STRING_WRITE_RESULT
    minimum, mask = job.control("strlen_min"), job.control("strlen_mask")
    line = written = 0
    for start in range(0, last, STRING_WRITE_SLICE_ROWS):
        sizes = lengths(start, min(start + STRING_WRITE_SLICE_ROWS, last), minimum, mask)
        offsets, characters, line = strings(sizes, line)
        if as_built:
            keep = int(offsets[1]) if not start else 0
            characters = np.concatenate([characters[:keep], _present(job, written, len(characters))[keep:]])
        column = pa.StringArray.from_buffers(len(sizes), pa.py_buffer(offsets), pa.py_buffer(characters))
        job.write(
            STRING_WRITE_BATCH, pa.RecordBatch.from_arrays([column], schema=job.map.batch(STRING_WRITE_BATCH).schema)
        )
        written += len(characters)
        yield


def _present(job: Job, start: int, size: int) -> NDArray[np.uint8]:
    """Return `size` bytes from byte `start` of the values buffer of StringWrite's RecordBatch, in device memory.

    Bytes past the end of its allocation are zeros.
    """
    address = job.addresses(STRING_WRITE_BATCH)[1]
    there = max(0, min(size, (job.memory.extent(address) or 0) - start))
    found = np.zeros(size, np.uint8)
    if there:
        found[:there] = np.frombuffer(job.memory.read(address + start, there), np.uint8)
    return found


_string_write_made = kernel(
    "string_write",
    write={
        STRING_WRITE_BATCH: pa.schema([pa.field("String", pa.utf8(), nullable=False, metadata={"fletcher_epc": "64"})])
    },
    custom=("c:32:strlen_min", "c:32:strlen_mask"),
    handshake=Handshake(idle_when_done=True, restartable=True, heeds_stop=False, heeds_reset=False),
)


@_string_write_made
def string_write(job: Job) -> Iterator[None]:
    """Write lastidx random strings. Their lengths are strlen_min + (a random number AND strlen_mask), modulo 256."""
    return _run(job, as_built=False)


@_string_write_made
def _string_write_as_built(job: Job) -> Iterator[None]:
    """Write the strings of `string_write` as the writer of generator version 0.0.20 does.

    That writer writes only the characters of the first string; the characters of all others are lost."""
    return _run(job, as_built=True)


STRING_WRITE_AS_BUILT: Final[Kernel] = replace(_string_write_as_built, name="string_write_as_built")
