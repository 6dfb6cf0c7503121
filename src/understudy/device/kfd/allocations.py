"""Memory that the driver gives: allocated at addresses that programs choose, mapped for agents, given back."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from understudy.core.errors import NoHostMemory
from understudy.core.space import PAGE_SIZE
from understudy.device.kfd.address_space import AddressSpace
from understudy.device.kfd.client import Client
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.ioctls import AllocFlags, AllocMemoryOfGpu, MapMemory
from understudy.device.kfd.node import MOST_NODES, Node
from understudy.device.kfd.shared_memory import DOORBELL_BYTES, DOORBELLS_APART, SharedMemory
from understudy.device.kfd.user_memory import Foreign, Piece, UserMemory

GPU_AT: Final = 32
"""Bits of a handle below that of its agent's gpu_id."""
_KINDS: Final = AllocFlags.VRAM | AllocFlags.GTT | AllocFlags.USERPTR | AllocFlags.DOORBELL | AllocFlags.MMIO_REMAP


@dataclass(slots=True, eq=False)
class Allocation:
    """Memory of one handle, and the nodes that see it (`mapped`).

    `offset`: its own place in the shared memory, or -1; `user_address`: where memory of the program lies.
    """

    handle: int
    node: Node
    address: int
    size: int
    flags: AllocFlags
    pieces: list[Piece]
    offset: int = -1
    user_address: int = 0
    mapped: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"allocation {self.handle & (1 << GPU_AT) - 1}"

    @property
    def once(self) -> int:
        """Bytes there are: rings are seen twice, one behind the other."""
        return self.size // 2 if self.flags & AllocFlags.AQL_QUEUE_MEM else self.size

    def see_twice(self) -> None:
        """Complete the pieces of what is seen twice."""
        if self.flags & AllocFlags.AQL_QUEUE_MEM:
            self.pieces += [Piece(each.start + self.once, each.size, each.what) for each in self.pieces]


class Allocations:
    """The memory of one process. `space_of` gives the address space of an agent."""

    def __init__(
        self, client: Client, shared: SharedMemory, nodes: Sequence[Node], space_of: Callable[[Node], AddressSpace]
    ) -> None:
        self._client = client
        self._shared = shared
        self._nodes = nodes
        self._space_of = space_of
        self._user = UserMemory(client, shared)
        self._lock = threading.RLock()
        self._known: dict[int, Allocation] = {}
        self._made = 0
        self._used = dict.fromkeys((node.number for node in nodes), 0)

    def __len__(self) -> int:
        return len(self._known)

    def node(self, gpu_id: int) -> Node:
        """The node of this gpu_id; `Refused` where there is none."""
        for node in self._nodes:
            if node.gpu_id == gpu_id:
                return node
        raise Refused(f"no agent with gpu_id {gpu_id:#x}")

    def available(self, node: Node) -> int:
        """Bytes of an agent's own memory that are free."""
        return node.memory_bytes - self._used[node.number]

    def find(self, handle: int) -> Allocation:
        """The allocation of a handle; `Refused` where there is none."""
        found = self._known.get(handle)
        if found is None:
            raise Refused(f"no memory with handle {handle:#x}")
        return found

    # ---- ioctls --------------------------------------------------------------------------------------------------

    def allocate(self, asked: AllocMemoryOfGpu) -> tuple[int, int]:
        """ALLOC_MEMORY_OF_GPU: the handle, and the offset for mmap."""
        node, flags = self.node(asked.gpu_id), AllocFlags(asked.flags)
        kind = flags & _KINDS
        if not asked.size or asked.size % PAGE_SIZE or asked.va_addr % PAGE_SIZE:
            raise Refused(f"{asked.size:#x} bytes at {asked.va_addr:#x}, expected whole pages")
        with self._lock:
            self._made += 1
            made = Allocation(node.gpu_id << GPU_AT | self._made, node, asked.va_addr, asked.size, flags, [])
            try:
                offset = self._fill(made, kind, asked.mmap_offset)
            except NoHostMemory as error:
                raise Refused(error.message, errno.ENOMEM) from None
            self._known[made.handle] = made
        return made.handle, offset

    def _fill(self, made: Allocation, kind: AllocFlags, address: int) -> int:
        """The pieces of an allocation; its offset for mmap."""
        size = made.once
        if size % PAGE_SIZE:
            raise Refused(f"a ring of {made.size:#x} bytes, seen twice, expected an even number of pages")
        offset = 0
        if kind == AllocFlags.USERPTR:
            self._user.tidy()
            made.user_address = offset = address
            self._look_at_user(made, is_own=address == made.address, is_quiet=True)
            return offset
        if kind in (AllocFlags.VRAM, AllocFlags.GTT):
            if kind == AllocFlags.VRAM and size > self.available(made.node):
                raise Refused(f"{size:#x} bytes of {made.node.agent.name}'s memory, which is used up", errno.ENOMEM)
            offset = made.offset = self._shared.allocate(size)
            if kind == AllocFlags.VRAM:
                self._used[made.node.number] += size
            made.pieces = [Piece(0, size, self._shared.bytes(offset, size))]
        elif kind == AllocFlags.DOORBELL:
            if made.size != DOORBELL_BYTES and made.size != PAGE_SIZE:
                raise Refused(f"doorbells of {made.size:#x} bytes, expected {DOORBELL_BYTES:#x}")
            number = self._nodes.index(made.node)
            made.pieces = [Piece(0, size, self._shared.doorbells[number][:size])]
            offset = number * DOORBELLS_APART
        else:
            raise Refused(f"memory of the kinds {made.flags & _KINDS!r}, expected one that agents have")
        made.see_twice()
        return offset

    def _look_at_user(self, made: Allocation, *, is_own: bool, is_quiet: bool) -> None:
        """The pieces of memory that the program has: see `UserMemory.pieces`."""
        made.pieces = self._user.pieces(made.user_address, made.once, is_own=is_own, is_quiet=is_quiet)
        for piece in made.pieces:
            if isinstance(piece.what, Foreign) and not is_own:
                piece.what.touched = lambda: self._share(made)
        made.see_twice()

    def free(self, handle: int) -> None:
        """FREE_MEMORY_OF_GPU. `Refused` with EBUSY while an agent has it mapped."""
        with self._lock:
            found = self.find(handle)
            if found.mapped:
                raise Refused(f"{found.name} is mapped still", errno.EBUSY)
            del self._known[handle]
            if found.offset >= 0:
                self._shared.free(found.offset, found.once)
                if found.flags & AllocFlags.VRAM:
                    self._used[found.node.number] -= found.once

    def map(self, asked: MapMemory) -> int:
        """MAP_MEMORY_TO_GPU: how many agents see it now."""
        with self._lock:
            found, nodes = self.find(asked.handle), self._asked(asked)
            for node in nodes:
                if node.number not in found.mapped:
                    self._space_of(node).map(found.address, found.pieces, found.name)
                    found.mapped.add(node.number)
        return len(nodes)

    def unmap(self, asked: MapMemory) -> int:
        """UNMAP_MEMORY_FROM_GPU: how many agents do not see it now."""
        with self._lock:
            found, nodes = self.find(asked.handle), self._asked(asked)
            for node in nodes:
                if node.number in found.mapped:
                    self._space_of(node).unmap(found.address, found.pieces)
                    found.mapped.discard(node.number)
        return len(nodes)

    def _asked(self, asked: MapMemory) -> list[Node]:
        """The agents whose gpu_ids an array of the program has."""
        count = asked.n_devices
        if not 0 < count <= MOST_NODES:
            raise Refused(f"{count} agents, expected 1 to {MOST_NODES}")
        data = self._client.read(asked.device_ids_array_ptr, 4 * count)
        return [self.node(int.from_bytes(data[at : at + 4], "little")) for at in range(0, 4 * count, 4)]

    def close(self) -> None:
        """Nothing is allocated any more, and no agent sees anything."""
        with self._lock:
            for found in self._known.values():
                for node in self._nodes:
                    if node.number in found.mapped:
                        self._space_of(node).unmap(found.address, found.pieces)
            self._known.clear()

    # ---- user memory ---------------------------------------------------------------------------------------------

    def _share(self, found: Allocation) -> bool:
        """A wave touches foreign memory of the program: share it, where that can be; whether that was tried.

        Not while an ioctl changes allocations: it may wait for that very wave.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if found.handle in self._known:
                old = found.pieces
                self._look_at_user(found, is_own=True, is_quiet=False)
                for node in self._nodes:
                    if node.number in found.mapped:
                        self._space_of(node).replace(found.address, old, found.pieces, found.name)
        finally:
            self._lock.release()
        return True
