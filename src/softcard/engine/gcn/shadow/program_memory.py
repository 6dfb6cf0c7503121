"""The tracking of defined bytes in a host program's device memory, from its allocation to the host's reads.

Device memory is undefined at first. Stores by kernels, by copy engines and by the program itself define it.
Bytes that reach the host's memory, through a copy engine or a store of a kernel, must be defined, except for
padding in structures. The host's own memory always counts as defined. Memory that the program has not mapped,
such as private memory, is internal to the device, and stores to it are not checked."""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from softcard.core.allocations import Allocation
from softcard.core.checks import INIT
from softcard.core.display import count
from softcard.core.findings import Finding, FindingLog, Level
from softcard.engine.gcn.shadow.origins import origin_of
from softcard.engine.shadow.bits import NOT_FIRST
from softcard.isa.gcn.asm.printer import text

if TYPE_CHECKING:
    from softcard.engine.gcn.api import Dispatch
    from softcard.engine.gcn.shadow.device_shadow import DeviceShadow, ShadowMemory
    from softcard.engine.gcn.shadow.uses import Touch


# ---- filled memory ---------------------------------------------------------------------------------------------------
# Device memory of host programs under the check of uninitialised values: it holds a junk fill until it is written.
#
# A program maps device memory and may store to it without a call that the device could see. The fill makes such stores
# visible: before a kernel starts or a copy engine reads, bytes that the shadow has as undefined are compared with their
# previous contents, and a 32-bit word that has changed counts as written. Where kernels or copy engines have stored
# undefined values, the previous contents are saved block by block.


CHUNK: Final = 1 << 16
"""The size in bytes of the blocks of an allocation that are compared and saved as a whole."""
WORD: Final = 4
PADDING_BELOW: Final = 16
"""The exclusive upper bound, in bytes, of the size of padding in a structure.

Padding is smaller than the alignment of the member that follows it.
"""
ALIGNMENTS: Final = (4, 8, 16)
MOST_GAPS: Final = 64
"""The maximum number of gaps in a structure that are recognised as periodic padding."""
SMALL: Final = 64
"""The maximum size of a copy, in bytes, that may be a single structure."""

Bytes = npt.NDArray[np.uint8]


@cache
def _compare() -> Callable[[int, int, int], int]:
    """Return the C library's function memcmp."""
    found: Any = ctypes.CDLL(None).memcmp
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int
    return cast("Callable[[int, int, int], int]", found)


@dataclass(slots=True, eq=False)
class Filled:
    """An allocation that was filled with a junk pattern: its bytes, and its shadow bytes.

    The bytes are compared with their last known contents to detect stores by the host's program. `open` is a
    mask of the blocks that may have undefined bytes. `before` maps a block's number to its last known contents;
    a block without an entry was last known to contain the junk fill."""

    address: int
    data: Bytes
    shadow: Bytes
    name: str
    open: npt.NDArray[np.bool_] = field(init=False)
    before: dict[int, Bytes] = field(default_factory=dict)
    data_at: int = field(init=False)

    def __post_init__(self) -> None:
        self.data_at = int(self.data.ctypes.data)
        self.open = np.ones(-(-self.data.size // CHUNK), np.bool_)

    @property
    def end(self) -> int:
        """The first address after the allocation."""
        return self.address + self.data.size

    def chunks(self, start: int, end: int) -> range:
        """Return the numbers of the blocks that overlap the addresses from `start` to `end`."""
        return range(
            (max(start, self.address) - self.address) // CHUNK, -(-(min(end, self.end) - self.address) // CHUNK)
        )


class FilledMemory:
    """The allocations of one device that were filled with a junk pattern, by address. Thread-safe.

    `word` is the 32-bit pattern, which is repeated.
    """

    def __init__(self, word: int) -> None:
        self._fill = np.full(CHUNK // WORD, word, np.uint32)
        self._fill_at = int(self._fill.ctypes.data)
        self._known: list[Filled] = []
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[Filled]:
        return iter(tuple(self._known))

    def add(self, address: int, data: Bytes, shadow: Bytes, name: str) -> None:
        """Add an allocation of whole pages at `address`, which hold the junk fill and are undefined.

        `data` are its bytes, and `shadow` its bytes in the shadow memory.
        """
        with self._lock:
            self._known = [each for each in self._known if each.address != address]
            self._known.append(Filled(address, data, shadow, name))

    def remove(self, address: int) -> None:
        """Forget the allocation at `address`, if there is one."""
        with self._lock:
            self._known = [each for each in self._known if each.address != address]

    def find(self, address: int) -> Filled | None:
        """Return the allocation that contains an address, or None."""
        return next((each for each in self._known if each.address <= address < each.end), None)

    def define_written(self, start: int = 0, end: int = 1 << 64) -> None:
        """Mark memory between two addresses as defined where the host's program has written it."""
        with self._lock:
            for each in self._known:
                if each.address < end and start < each.end:
                    for number in each.chunks(start, end):
                        if each.open[number] and not self._is_as_before(each, number):
                            self._define_written(each, number)

    def _is_as_before(self, each: Filled, number: int) -> bool:
        """Return True if block `number` of the allocation `each` still has its last known contents (see `Filled`).

        The method uses memcmp for speed, since most blocks are unchanged before each kernel."""
        before = each.before.get(number)
        expected = self._fill_at if before is None else int(before.ctypes.data)
        size = min(CHUNK, each.data.size - number * CHUNK)
        return _compare()(each.data_at + number * CHUNK, expected, size) == 0

    def _define_written(self, each: Filled, number: int) -> None:
        at = slice(number * CHUNK, min((number + 1) * CHUNK, each.data.size))
        data, shadow = each.data[at], each.shadow[at]
        before = each.before.get(number)
        expected = self._fill[: data.size // WORD] if before is None else before.view(np.uint32)
        by_host = (data != expected.view(np.uint8)) & (shadow != 0)  # what is defined was written by the device
        if by_host.any():
            bytes_of = np.repeat(by_host.reshape(-1, WORD).any(axis=1), WORD)
            written = bytes_of.copy()
            written[1:] |= bytes_of[:-1]  # a write may end with a byte that equals the fill
            written[:-1] |= bytes_of[1:]
            shadow[written] = 0
        if shadow.any():
            each.before[number] = data.copy()
        else:
            each.open[number] = False
            each.before.pop(number, None)

    def remember(self, start: int = 0, end: int = 1 << 64) -> None:
        """Save the contents of undefined bytes between two addresses, after the device has stored to them.

        Later changes are then attributed to the program.
        """
        with self._lock:
            for each in self._known:
                if each.address < end and start < each.end:
                    for number in each.chunks(start, end):
                        at = slice(number * CHUNK, (number + 1) * CHUNK)
                        if each.shadow[at].any():
                            each.open[number] = True
                            each.before[number] = each.data[at].copy()


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The ranges of undefined bytes, in order. `starts` and `ends` are offsets in the memory that was checked."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, shadow: Bytes) -> Runs:
        """Return the ranges of undefined bytes in a shadow; a byte with at least one undefined bit counts."""
        edges = np.flatnonzero(np.diff((shadow != 0).astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
        return cls(edges[:, 0], edges[:, 1])

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size(self) -> int:
        """The number of bytes in all ranges."""
        return int((self.ends - self.starts).sum())

    def where(self, which: npt.NDArray[np.bool_]) -> Runs:
        """Return the ranges that the mask `which` selects."""
        return Runs(self.starts[which], self.ends[which])

    def without_padding(self, address: int, size: int | None) -> Runs:
        """Return the ranges that cannot be padding of structures, in `size` bytes at `address`.

        `size` is None if the extent of the data is unknown.

        Padding ends where an aligned member begins or an element ends, and is smaller than the member's alignment. A
        range that contains no whole aligned word always counts as padding. Larger ranges count as padding in two
        cases: if they repeat in each element of an array of structures, or if there is only one and the data either
        has unknown extent, or has at most `SMALL` bytes and a defined member of the required alignment."""
        shift = address % (2 * PADDING_BELOW)
        large = self.where(self._has_word(shift))
        if not len(large) or (large._are_gaps(shift) and self._is_padding(large, shift, size)):
            return Runs(self.starts[:0], self.ends[:0])
        return large

    def _has_word(self, shift: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the ranges that contain an aligned word. `shift` is the alignment offset of the data."""
        first = -(-(self.starts + shift) // WORD) * WORD
        return np.asarray(first + WORD <= self.ends + shift)

    def _alignments(self) -> npt.NDArray[np.int64]:
        """Return, for each range, the smallest alignment that a member after it must have if the range is padding."""
        sizes = self.ends - self.starts
        return np.select([sizes < bound for bound in ALIGNMENTS], ALIGNMENTS, 2 * PADDING_BELOW)

    def _are_gaps(self, shift: int) -> bool:
        alignments = self._alignments()
        return bool((alignments <= PADDING_BELOW).all() and not ((self.ends + shift) % alignments).any())

    def _is_padding(self, large: Runs, shift: int, size: int | None) -> bool:
        if len(large) == 1:
            return size is None or (size <= SMALL and self._has_member(int(large._alignments()[0]), shift, size))
        return large._is_periodic(size)

    def _has_member(self, alignment: int, shift: int, size: int) -> bool:
        """Return True if some aligned block of `alignment` bytes in the data has no undefined byte.

        Such a block may hold a member of a structure. The data has `size` bytes and begins `shift` bytes after an
        aligned address."""
        places = range(-shift % alignment, size - alignment + 1, alignment)
        return any(not ((self.starts < at + alignment) & (self.ends > at)).any() for at in places)

    def _is_periodic(self, size: int | None) -> bool:
        """Return True if the ranges repeat in each element of an array that fills all `size` bytes."""
        starts, ends = self.starts, self.ends
        for length in range(1, min(len(self) // 2, MOST_GAPS) + 1):
            period = int(starts[length] - starts[0])
            first, last = slice(None, -length), slice(length, None)
            same = (starts[first] + period == starts[last]).all() and (ends[first] + period == ends[last]).all()
            is_all = size is None or (starts[0] < period and starts[-length] + period >= size)
            if same and is_all:
                return not (period % self._alignments()).any()
        return False


# ---- allocations and copies ------------------------------------------------------------------------------------------


RESULT: Final = "undefined-result"
UNTRACKED: Final = "untracked-allocation"
STORED: Final = "compute the value before it is stored, on every path that leads here and in every lane"
NEVER_WRITTEN: Final = "write all of the memory before the copy, or copy only the written part"


class ProgramMemory:
    """The defined and undefined bytes of one program's device memory on one agent.

    Threads of kernels and of copy engines may use it concurrently. `word` is the 32-bit junk pattern that fills new
    allocations.
    """

    def __init__(self, device_shadow: DeviceShadow, log: FindingLog, word: int) -> None:
        self._device_shadow = device_shadow
        self._log = log
        self._filled = FilledMemory(word)
        self._shadow: ShadowMemory = device_shadow.shadow_memories[device_shadow.kinds.index(INIT)]
        self._allocations: dict[int, Allocation] = {}
        self._mapped: dict[int, tuple[int, bool]] = {}
        """The program's mappings by address: the end, and True for the host's own memory."""
        self.origins: dict[int, str] = {}
        """Descriptions of the origins of undefined bits, by the pc of the instruction that stored them."""
        self._stores = 0
        self._lock = threading.RLock()

    # ---- allocations ---------------------------------------------------------------------------------------------

    def mapped(self, address: int, size: int, *, is_host: bool) -> None:
        """Record memory that the program has mapped: host memory if `is_host`, else device memory."""
        with self._lock:
            self._mapped[address] = address + size, is_host

    def allocated(self, address: int, data: npt.NDArray[np.uint8], name: str) -> None:
        """Record new device memory as undefined. `data` is a view of its bytes, which hold the junk pattern."""
        with self._lock:
            self._device_shadow.undefined(address, data.size)
            found = self._shadow.plain(address, data.size)
            if found is None:
                return
            at = address - found.base
            self._filled.add(address, data, found.bytes[at : at + data.size], name)
            self._allocations[address] = Allocation(name, address, data.size)

    def untracked(self, address: int, size: int, name: str, limit: int) -> None:
        """Report device memory that is not tracked and counts as defined.

        Tracked memory is limited to `limit` bytes."""
        message = f"{name} of {size} bytes is not checked: at most {limit} bytes of a program are tracked at a time"
        self._log.note(
            Finding(
                INIT, UNTRACKED, message, Level.NOTE, address=address, size=size, space="global",
                suggestion="run the program with smaller arrays to have all of them checked",
            )
        )  # fmt: skip

    def freed(self, address: int) -> None:
        """Forget memory that the program has unmapped."""
        with self._lock:
            self._filled.remove(address)
            self._allocations.pop(address, None)
            self._mapped.pop(address, None)

    def shared(self, address: int, size: int) -> None:
        """Set memory to defined, since another agent may store to it and its stores are not observed here."""
        with self._lock:
            self._filled.remove(address)
            self._device_shadow.written(address, size)

    # ---- copy engines --------------------------------------------------------------------------------------------

    def stored(self, address: int, size: int) -> None:
        """Record that a copy engine has stored defined values to a range of memory."""
        with self._lock:
            self._device_shadow.written(address, size)

    def copied(self, to: int, source: int, size: int) -> None:
        """Record a copy of bytes: copy their shadow, too, or check it if the destination is the host's memory."""
        with self._lock:
            self._device_shadow.follow()
            is_ours = self._filled.find(source) is not None
            if is_ours:
                self._filled.define_written(source, source + size)
            is_result = self._filled.find(to) is None
            for kind, shadow_memory in zip(self._device_shadow.kinds, self._device_shadow.shadow_memories, strict=True):
                shadow = shadow_memory.read(source, size) if is_ours else bytes(size)
                if kind == INIT and is_result:
                    self._check(source, np.frombuffer(shadow, np.uint8), "the host copied")
                shadow_memory.write(to, bytes(size) if is_result else shadow)
                if kind == INIT and not is_result and any(shadow):
                    self._filled.remember(to, to + size)

    # ---- kernels -------------------------------------------------------------------------------------------------

    def before_dispatch(self) -> None:
        """Mark memory as defined where the program has written it since the last kernel.

        This is called before each kernel runs."""
        with self._lock:
            self._device_shadow.follow()
            self._filled.define_written()
            self._device_shadow.uses.watch_stores()

    def after_dispatch(self, dispatch: Dispatch) -> None:
        """Record the origins of undefined values that a kernel has stored, and report those in the host's memory.

        Bytes in device memory remain undefined until the program or the device writes them again."""
        uses = self._device_shadow.uses
        if uses.stores == self._stores:
            return
        with self._lock:
            self._stores = uses.stores
            for (kind, _, pc), insn in uses.storing.items():
                if kind == INIT and insn is not None and pc not in self.origins:
                    self.origins[pc] = origin_of(dispatch, insn, kind, uses, self.origins)
            self._filled.remember()
            starts = sorted(self._mapped)
            for each in self._shadow:
                number = bisect_right(starts, each.base)
                end, is_host = self._mapped[starts[number - 1]] if number else (0, False)
                if each.base >= end:
                    continue  # the device's private memory is undefined when a wave starts
                shadow = self._shadow.plain(each.base, each.end - each.base)
                if shadow is None or self._filled.find(each.base) is not None or not shadow.bytes.any():
                    continue
                if is_host:  # device memory that is not tracked counts as written
                    self._check(each.base, shadow.bytes, "a kernel stored to the host's memory", is_copy=False)
                shadow.bytes[:] = 0

    # ---- findings ------------------------------------------------------------------------------------------------

    def _check(self, address: int, shadow: npt.NDArray[np.uint8], what: str, is_copy: bool = True) -> None:
        """Report undefined bytes among results that reach the host's memory; padding is not reported.

        `shadow` is the shadow of the bytes at `address`: those of a copy if `is_copy`, else those of a mapping of the
        host's memory to which a kernel stored. `what` describes the transfer for the message."""
        if not shadow.any():
            return
        runs = Runs.of(shadow).without_padding(address, shadow.size if is_copy else None)
        if not len(runs):
            return
        first = address + int(runs.starts[0])
        allocation = next((each for each in self._allocations.values() if each.base <= first < each.end), None)
        place = f"offset {first - allocation.base} of {allocation}" if allocation else f"{first:#x}"
        touch = self._touch(address, runs)
        which = f"{runs.size} of {count(shadow.size, 'byte')}" if is_copy else count(runs.size, "byte")
        if touch is None:
            self._log.note(
                Finding(
                    INIT, RESULT,
                    f"{which} that {what} were never written: "
                    f"the first is at {place}",
                    Level.WARNING, access="read", space="global", address=first, size=runs.size,
                    allocation=allocation, suggestion=NEVER_WRITTEN,
                )
            )  # fmt: skip
            return
        origin = self.origins.get(touch.pc, "")
        self._log.note(
            Finding(
                INIT, RESULT,
                f"{which} that {what} are undefined: the first is at {place}"
                + (f"; the value comes from {origin}" if origin else ""),
                access="write", space="global", address=touch.address, size=touch.size, pc=touch.pc,
                insn="" if touch.insn is None else text(touch.insn), suggestion=STORED, lanes=touch.wave_lanes.lanes,
                unit=f"wave {touch.wave_lanes.wave}", group=",".join(map(str, touch.wave_lanes.group)),
                registers=self._device_shadow.uses.registers_of(touch), no_registers=NOT_FIRST,
            )
        )  # fmt: skip

    def _touch(self, address: int, runs: Runs) -> Touch | None:
        """Return the recorded store at the lowest address that put undefined bits into the ranges `runs`, or None.

        Remove all such stores from the record, so that each store is reported only once."""
        stored = self._device_shadow.uses.stored
        found = []
        for key in [key for key in stored if key[:2] == (INIT, "global")]:
            at = key[2] - address
            number = int(np.searchsorted(runs.ends, at, "right"))
            if number < len(runs) and int(runs.starts[number]) < at + stored[key].size:
                found.append(stored.pop(key))
        return min(found, key=lambda touch: touch.address, default=None)
