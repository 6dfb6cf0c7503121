"""Memory that the driver allocates: at addresses that programs choose, mapped for agents, and freed."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import NoHostMemory
from softcard.core.space import PAGE_SIZE
from softcard.core.words import align_up
from softcard.device.kfd.address_space import AddressSpace
from softcard.device.kfd.client import Client
from softcard.device.kfd.ioctls import AllocFlags, AllocMemoryOfGpu, MapMemory, Refused
from softcard.device.kfd.node import MOST_NODES, Node
from softcard.device.kfd.shared_memory import DOORBELL_BYTES, DOORBELLS_APART, SharedMemory
from softcard.device.kfd.user_memory import Foreign, Piece, UserMemory

GPU_AT: Final = 32
"""The bit position of the agent's gpu_id in a handle; the lower bits are the number of the allocation."""
MOST_FILLED: Final = 1 << 29
"""The maximum number of bytes of a program's device memory that are filled with the junk word at a time.

More might not fit into the host's memory.
"""
_KINDS: Final = AllocFlags.VRAM | AllocFlags.GTT | AllocFlags.USERPTR | AllocFlags.DOORBELL | AllocFlags.MMIO_REMAP


@dataclass(slots=True, eq=False)
class Allocation:
    """The memory of one handle. `mapped` has the numbers of the nodes for which the memory is mapped.

    `offset` is the memory's offset in the shared memory if the driver allocated it, else -1. `user_address` is
    its address in the program if the program allocated it, else 0."""

    handle: int
    node: Node
    address: int
    size: int
    flags: AllocFlags
    pieces: list[Piece]
    offset: int = -1
    user_address: int = 0
    mapped: set[int] = field(default_factory=set)
    is_filled: bool = False
    """True if the allocation is filled with the junk word and no agent has mapped it yet."""
    filled_bytes: int = 0

    @property
    def name(self) -> str:
        """The name of the allocation in messages."""
        return f"allocation {self.handle & (1 << GPU_AT) - 1}"

    @property
    def is_writable(self) -> bool:
        """True if agents may store to the memory."""
        return AllocFlags.WRITABLE in self.flags

    @property
    def once(self) -> int:
        """The bytes of the allocation; the memory of a ring, which is mapped twice in succession, counts only once."""
        return self.size // 2 if self.flags & AllocFlags.AQL_QUEUE_MEM else self.size

    def map_twice(self) -> None:
        """Append a repetition to `pieces` if the memory is a ring, which is mapped twice in succession."""
        if self.flags & AllocFlags.AQL_QUEUE_MEM:
            self.pieces += [Piece(each.start + self.once, each.size, each.what) for each in self.pieces]


class Allocations:
    """The allocations of one process. `space_of` returns the address space of the agent of a node."""

    def __init__(
        self, client: Client, shared: SharedMemory, nodes: Sequence[Node], space_of: Callable[[Node], AddressSpace],
        fill: int = 0,
    ) -> None:  # fmt: skip
        self._client = client
        self._shared = shared
        self._nodes = nodes
        self._space_of = space_of
        self._user = UserMemory(client, shared)
        self._lock = threading.RLock()
        self._known: dict[int, Allocation] = {}
        self._made = 0
        self._fill_word = fill
        self._filled = 0
        self._used = dict.fromkeys((node.number for node in nodes), 0)

    def __len__(self) -> int:
        return len(self._known)

    def node(self, gpu_id: int) -> Node:
        """Return the node with this gpu_id; raise `Refused` if it is unknown."""
        for node in self._nodes:
            if node.gpu_id == gpu_id:
                return node
        raise Refused(f"no GPU has gpu_id {gpu_id:#x}")

    def available(self, node: Node) -> int:
        """Return the number of free bytes in the memory that belongs to the node's agent."""
        return node.memory_bytes - self._used[node.number]

    def find(self, handle: int) -> Allocation:
        """Return the allocation with this handle; raise `Refused` for an unknown handle."""
        found = self._known.get(handle)
        if found is None:
            raise Refused(f"no allocation has handle {handle:#x}")
        return found

    def seen_at(self, address: int, size: int) -> list[tuple[int, int, int]]:
        """Return those ranges of the program's memory between `address` and `address + size` that agents see.

        These are the ranges that belong to allocations of the driver. Each is a tuple of the address that agents
        use, the program's address, and the number of bytes. The two addresses are equal for memory that the
        driver allocated."""
        found = []
        with self._lock:
            for each in self._known.values():
                theirs = each.user_address or each.address
                start, end = max(address, theirs), min(address + size, theirs + each.once)
                if start < end:
                    found.append((each.address + start - theirs, start, end - start))
        return found

    # ---- ioctls --------------------------------------------------------------------------------------------------

    def allocate(self, arguments: AllocMemoryOfGpu) -> tuple[int, int]:
        """Carry out the ioctl ALLOC_MEMORY_OF_GPU; return the handle, and the offset for mmap.

        As in the driver, an allocation consists of whole pages."""
        node, flags = self.node(arguments.gpu_id), AllocFlags(arguments.flags)
        kind = flags & _KINDS
        size = align_up(arguments.size, PAGE_SIZE)
        if not size or arguments.va_addr % PAGE_SIZE or (kind == AllocFlags.USERPTR and size != arguments.size):
            raise Refused(
                f"cannot allocate {arguments.size:#x} bytes at {arguments.va_addr:#x}, expected 1 byte or more at a "
                "multiple of the page size, and whole pages of the program's memory"
            )
        with self._lock:
            self._made += 1
            made = Allocation(node.gpu_id << GPU_AT | self._made, node, arguments.va_addr, size, flags, [])
            try:
                offset = self._fill(made, kind, arguments.mmap_offset)
            except NoHostMemory as error:
                raise Refused(error.message, errno.ENOMEM) from None
            self._known[made.handle] = made
        return made.handle, offset

    def _fill(self, made: Allocation, kind: AllocFlags, address: int) -> int:
        """Set the pieces of memory of `made`, a new allocation of kind `kind`; return its offset for mmap.

        `address` is the memory's address in the program, if the program itself has allocated it."""
        size = made.once
        if size % PAGE_SIZE:
            raise Refused(
                f"the AQL queue buffer has {made.size:#x} bytes, expected an even number of pages: its first half is "
                "mapped twice"
            )
        offset = 0
        if kind == AllocFlags.USERPTR:
            self._user.tidy()
            made.user_address = offset = address
            self._set_user_pieces(made, is_own=address == made.address, is_quiet=True)
            return offset
        if kind in (AllocFlags.VRAM, AllocFlags.GTT):
            if kind == AllocFlags.VRAM and size > self.available(made.node):
                where = f"the memory of {made.node.agent.name}"
                raise Refused(f"cannot allocate {size:#x} bytes in {where}: too little is free", errno.ENOMEM)
            offset = made.offset = self._shared.allocate(size)
            if kind == AllocFlags.VRAM:
                self._used[made.node.number] += size
            data = self._shared.bytes(offset, size)
            made.pieces = [Piece(0, size, data)]
            if kind == AllocFlags.VRAM and self._fill_word:
                self._put_fill(made, data)
        elif kind == AllocFlags.DOORBELL:
            if made.size != DOORBELL_BYTES and made.size != PAGE_SIZE:
                raise Refused(f"the allocation of doorbells has {made.size:#x} bytes, expected {DOORBELL_BYTES:#x}")
            number = self._nodes.index(made.node)
            made.pieces = [Piece(0, size, self._shared.doorbells[number][:size])]
            offset = number * DOORBELLS_APART
        else:
            raise Refused(
                f"cannot allocate memory of kind {made.flags & _KINDS!r}, expected VRAM, GTT, USERPTR or DOORBELL"
            )
        made.map_twice()
        return offset

    def _put_fill(self, made: Allocation, data: npt.NDArray[np.uint8]) -> None:
        """Fill `data`, the new device memory of the allocation `made`, with the word for undefined memory.

        Do nothing for the memory of a ring, or if more than `MOST_FILLED` bytes of the program would then be
        filled."""
        if self._filled + data.size <= MOST_FILLED and not made.flags & AllocFlags.AQL_QUEUE_MEM:
            data.view(np.uint32)[:] = self._fill_word
            self._filled += data.size
            made.is_filled, made.filled_bytes = True, data.size

    def _note_definedness(self, made: Allocation, node: Node) -> None:
        """Initialise the shadow memory (definedness) of the allocation `made`, which an agent has just mapped."""
        program = self._space_of(node).program
        if program is None:
            return
        program.mapped(made.address, made.size, is_host=not made.flags & AllocFlags.VRAM)
        if not made.flags & AllocFlags.VRAM or made.flags & AllocFlags.AQL_QUEUE_MEM:
            return
        data = made.pieces[0].what
        if len(made.mapped) > 1:
            for each in self._nodes:
                other = self._space_of(each).program if each.number in made.mapped else None
                if other is not None:
                    other.shared(made.address, made.size)
        elif made.is_filled and not isinstance(data, Foreign):
            program.allocated(made.address, data, made.name)
        elif not made.filled_bytes:
            program.untracked(made.address, made.size, made.name, MOST_FILLED)
        made.is_filled = False

    def _set_user_pieces(self, made: Allocation, *, is_own: bool, is_quiet: bool) -> None:
        """Set the pieces of an allocation whose memory the program itself allocated: see `UserMemory.pieces`."""
        made.pieces = self._user.pieces(made.user_address, made.once, is_own=is_own, is_quiet=is_quiet)
        for piece in made.pieces:
            if isinstance(piece.what, Foreign):
                piece.what.writable = made.is_writable
                piece.what.touched = None if is_own else lambda: self._share(made)
        made.map_twice()

    def free(self, handle: int) -> None:
        """Carry out the ioctl FREE_MEMORY_OF_GPU.

        Raise `Refused` with EBUSY while an agent has the memory mapped.
        """
        with self._lock:
            found = self.find(handle)
            if found.mapped:
                raise Refused(f"{found.name} is still mapped: unmap it before the free", errno.EBUSY)
            del self._known[handle]
            if found.offset >= 0:
                self._shared.free(found.offset, found.once)
                self._filled -= found.filled_bytes
                if found.flags & AllocFlags.VRAM:
                    self._used[found.node.number] -= found.once

    def map(self, arguments: MapMemory) -> int:
        """Carry out the ioctl MAP_MEMORY_TO_GPU; return the number of agents that it names.

        All of them have the memory mapped now."""
        with self._lock:
            found, nodes = self.find(arguments.handle), self._nodes_of(arguments)
            for node in nodes:
                if node.number not in found.mapped:
                    self._space_of(node).map(found.address, found.pieces, found.name, writable=found.is_writable)
                    found.mapped.add(node.number)
                    self._note_definedness(found, node)
        return len(nodes)

    def unmap(self, arguments: MapMemory) -> int:
        """Carry out the ioctl UNMAP_MEMORY_FROM_GPU; return the number of agents that it names.

        None of them has the memory mapped now."""
        with self._lock:
            found, nodes = self.find(arguments.handle), self._nodes_of(arguments)
            for node in nodes:
                if node.number in found.mapped:
                    self._space_of(node).unmap(found.address, found.pieces)
                    found.mapped.discard(node.number)
        return len(nodes)

    def _nodes_of(self, arguments: MapMemory) -> list[Node]:
        """Return the nodes of the agents whose gpu_ids are in the program's array to which `arguments` refers."""
        count = arguments.n_devices
        if not 0 < count <= MOST_NODES:
            raise Refused(f"the request names {count} GPUs, expected 1 to {MOST_NODES}")
        data = self._client.read(arguments.device_ids_array_ptr, 4 * count)
        return [self.node(int.from_bytes(data[at : at + 4], "little")) for at in range(0, 4 * count, 4)]

    def close(self) -> None:
        """Free all allocations and unmap them from all agents."""
        with self._lock:
            for found in self._known.values():
                for node in self._nodes:
                    if node.number in found.mapped:
                        self._space_of(node).unmap(found.address, found.pieces)
            self._known.clear()

    # ---- user memory ---------------------------------------------------------------------------------------------

    def _share(self, found: Allocation) -> bool:
        """Make those pages of `found` that a wave has accessed shared with the program, if possible.

        Until then this process accesses them by system calls, because they are private memory of the program. Return
        False, without an attempt, while an ioctl is changing allocations, because the ioctl may wait for that wave."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if found.handle in self._known:
                old = found.pieces
                self._set_user_pieces(found, is_own=True, is_quiet=False)
                for node in self._nodes:
                    if node.number in found.mapped:
                        space = self._space_of(node)
                        space.replace(found.address, old, found.pieces, found.name, writable=found.is_writable)
        finally:
            self._lock.release()
        return True
