"""One program that has opened the driver: its ioctls, and all that it has."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from understudy.core.errors import AccessFault, NoHostMemory, UnderstudyError
from understudy.core.located import CodePlace, in_function
from understudy.core.record import Record
from understudy.device.hsa.device import HsaDevice
from understudy.device.hsa.segments import apertures
from understudy.device.hsa.settings import Settings
from understudy.device.kfd import drm, ioctls
from understudy.device.kfd.address_space import USER_LIMIT, AddressSpace
from understudy.device.kfd.allocations import Allocations
from understudy.device.kfd.client import Client
from understudy.device.kfd.clocks import FREQUENCY, nanoseconds
from understudy.device.kfd.code_files import CodeFiles
from understudy.device.kfd.doorbells import Doorbells
from understudy.device.kfd.driver_events import Events
from understudy.device.kfd.errors import Refused
from understudy.device.kfd.ioctls import EventKind, MemoryException, Number
from understudy.device.kfd.kernel_names import function_at
from understudy.device.kfd.loaded_code import CodeWatch, LoadedCode, Ran, loaded_at
from understudy.device.kfd.node import FIRST_RENDER_MINOR, Node
from understudy.device.kfd.queues import AgentQueues, Queues
from understudy.device.kfd.sdma import SdmaQueue
from understudy.device.kfd.shared_memory import DOORBELLS_APART, SharedMemory
from understudy.device.kfd.user_memory import Foreign

APERTURE_BYTES: Final = 1 << 32
FIRST_ADDRESS: Final = 1 << 24
LINEAR: Final = 1 << 2 | 12 << 6
"""GB_TILE_MODE of memory that is not tiled."""
TILE_MODES: Final = 32
MACRO_TILE_MODES: Final = 16
GB_ADDR_CONFIG: Final = 0x2201_1003
MOST_MASK_BITS: Final = 1024
PAGE: Final = 4096

Failed = Callable[[Node, int, UnderstudyError], None]


def _locate(device: HsaDevice, files_of: Callable[[], CodeFiles] | None, program: Client, pc: int) -> CodePlace | None:
    """Where in its code an instruction is, as far as the code object in memory tells, and files with the same code."""
    name, offset = function_at(device.memory, pc)
    loaded = None if files_of is None else loaded_at(device, pc)
    known = None if files_of is None or loaded is None else files_of().of(loaded, program)
    if known is None or loaded is None:
        return CodePlace(in_function(name, offset), name) if name else None
    if not name:
        name, offset = known.function_at(pc - loaded.base)
    return CodePlace(in_function(name, offset), name, str(known.lines.at(pc - loaded.base) or ""))


class KfdProcess:
    """What one program has: memory, queues and events, on agents that nobody else sees.

    `ioctl` may be called on any number of threads at once. `close` gives everything back.
    """

    def __init__(
        self, nodes: Sequence[Node], shared: SharedMemory, client: Client, settings: Settings, failed: Failed,
        made: Callable[[HsaDevice], None], ran: Ran | None = None, code_files: Callable[[], CodeFiles] | None = None,
    ) -> None:  # fmt: skip
        self.nodes = nodes
        self.shared = shared
        self.client = client
        self._settings = settings
        self._failed = failed
        self._made = made
        self._ran = ran
        self._code_files = code_files
        self._watches: dict[int, CodeWatch] = {}
        self._lock = threading.RLock()
        self._agents: dict[int, AgentQueues] = {}
        self._devices: dict[int, HsaDevice] = {}
        self._is_closed = False
        self.events = Events(client)
        self.allocations = Allocations(client, shared, nodes, self._space)
        self.queues = Queues(self._queues_of)
        self._handlers: dict[int, tuple[type[Record], Callable[[Any], Record | None]]] = {
            Number.GET_VERSION: (ioctls.GetVersion, self._version),
            Number.CREATE_QUEUE: (ioctls.CreateQueue, self._create_queue),
            Number.DESTROY_QUEUE: (ioctls.DestroyQueue, lambda asked: self.queues.destroy(asked.queue_id)),
            Number.SET_MEMORY_POLICY: (ioctls.SetMemoryPolicy, self._of_agent),
            Number.GET_CLOCK_COUNTERS: (ioctls.GetClockCounters, self._clocks),
            Number.UPDATE_QUEUE: (ioctls.UpdateQueue, lambda asked: self.queues.update(asked)),
            Number.CREATE_EVENT: (ioctls.CreateEvent, self._create_event),
            Number.DESTROY_EVENT: (ioctls.OneEvent, lambda asked: self.events.destroy(asked.event_id)),
            Number.SET_EVENT: (ioctls.OneEvent, lambda asked: self.events.set(asked.event_id)),
            Number.RESET_EVENT: (ioctls.OneEvent, lambda asked: self.events.reset(asked.event_id)),
            Number.WAIT_EVENTS: (ioctls.WaitEvents, self._wait),
            Number.SET_SCRATCH_BACKING_VA: (ioctls.SetScratchBackingVa, self._scratch_backing),
            Number.GET_TILE_CONFIG: (ioctls.GetTileConfig, self._tile_config),
            Number.SET_TRAP_HANDLER: (ioctls.SetTrapHandler, self._trap_handler),
            Number.GET_PROCESS_APERTURES_NEW: (ioctls.GetProcessAperturesNew, self._apertures),
            Number.ACQUIRE_VM: (ioctls.AcquireVm, self._of_agent),
            Number.ALLOC_MEMORY_OF_GPU: (ioctls.AllocMemoryOfGpu, self._allocate),
            Number.FREE_MEMORY_OF_GPU: (ioctls.FreeMemoryOfGpu, lambda asked: self.allocations.free(asked.handle)),
            Number.MAP_MEMORY_TO_GPU: (ioctls.MapMemory, self._map),
            Number.UNMAP_MEMORY_FROM_GPU: (ioctls.MapMemory, self._unmap),
            Number.SET_CU_MASK: (ioctls.SetCuMask, self._cu_mask),
            Number.SET_XNACK_MODE: (ioctls.SetXnackMode, self._xnack),
            Number.AVAILABLE_MEMORY: (ioctls.AvailableMemory, self._available),
        }

    # ---- calls ---------------------------------------------------------------------------------------------------

    def ioctl(self, request: int, data: bytes, minor: int = 0) -> bytes:
        """Answer an ioctl on /dev/kfd, or on the render node `minor`: its argument as it comes back.

        `Refused` with the number of the system's error.
        """
        if self._is_closed:
            raise Refused("the process has gone", errno.EIO)
        kind, number = request >> 8 & 0xFF, request & 0xFF
        try:
            if kind == drm.TYPE and minor:
                node = self._of_minor(minor)
                return drm.answer(number, data.ljust(ioctls.MOST_BYTES, b"\0"), node, self.client)[: len(data)]
            if kind != ioctls.TYPE or minor:
                raise Refused(f"no ioctl {request:#x} of this device", errno.ENOTTY)
            return self._kfd(number, data)
        except NoHostMemory as error:
            raise Refused(error.message, errno.ENOMEM) from None

    def _kfd(self, number: int, data: bytes) -> bytes:
        record, handler = self._handlers.get(number, (None, None))
        if record is None or handler is None:
            raise Refused(f"no ioctl {number:#x} of the driver")
        answer = handler(record.parse(data.ljust(record.size_bytes, b"\0")))
        if answer is None:
            return data
        return (answer.pack() + data[record.size_bytes :])[: len(data)]

    def _of_minor(self, minor: int) -> Node:
        if not 0 <= minor - FIRST_RENDER_MINOR < len(self.nodes):
            raise Refused(f"no render node {minor}", errno.ENODEV)
        return self.nodes[minor - FIRST_RENDER_MINOR]

    # ---- what is made when it is first needed ----------------------------------------------------------------------

    def device(self, node: Node) -> HsaDevice:
        """The agent of a node as this process has it."""
        with self._lock:
            made = self._devices.get(node.number)
            if made is None:
                if self._is_closed:
                    raise Refused("the process has gone", errno.EIO)
                made = self._devices[node.number] = HsaDevice(node.agent, self._settings)
                if self._ran is not None:
                    self._watches[node.number] = CodeWatch(made, self._ran, self._found)
                self._made(made)
                made.locators.known.append(partial(_locate, made, self._code_files, self.client))
                made.observe_interrupts(self.events.interrupt)
                made.fault_handler = lambda queue, error: self._fault(node, error)
            return made

    def _found(self, code: LoadedCode) -> None:
        """Its kernels begin to run: what file it is of cannot be asked for when the program has ended."""
        if self._code_files is not None and self._settings.count_instructions:
            self._code_files().of(code, self.client)

    def _space(self, node: Node) -> AddressSpace:
        device, watch = self.device(node), self._watches.get(node.number)
        return AddressSpace(device, None if watch is None else watch.unmapped)

    def _queues_of(self, gpu_id: int) -> AgentQueues:
        node = self.allocations.node(gpu_id)
        with self._lock:
            made = self._agents.get(node.number)
            if made is None:
                page = self.shared.doorbells[self.nodes.index(node)]
                made = self._agents[node.number] = AgentQueues(
                    node, self.device(node), self._space(node),
                    lambda: Doorbells(page, is_legacy=node.is_legacy), self.events.interrupt, self._stopped,
                )  # fmt: skip
            return made

    # ---- failures ------------------------------------------------------------------------------------------------

    def _stopped(self, node: Node, queue: int, error: UnderstudyError) -> None:
        """A queue has stopped; what packets of kernels did wrong has been told to `_fault` before."""
        is_copy = isinstance(self._agents[node.number].find(queue), SdmaQueue)
        if is_copy and isinstance(error, AccessFault):
            self._fault(node, error)
        self._failed(node, queue, error)

    def _fault(self, node: Node, error: AccessFault) -> bool:
        """As the kernel driver tells of a page fault: events of memory are set, and the queue's own signal is not."""
        if error.address >= USER_LIMIT:
            return False
        page = error.address & -PAGE
        is_there = self.device(node).memory.find(page) is not None
        read_only = error.access == "write" and is_there
        data = MemoryException(not_present=int(not read_only), read_only=int(read_only), va=page, gpu_id=node.gpu_id)
        self.events.tell(EventKind.MEMORY, data.pack())
        return True

    # ---- information ---------------------------------------------------------------------------------------------

    def _version(self, asked: ioctls.GetVersion) -> Record:
        major, minor = ioctls.VERSION
        return ioctls.GetVersion(major_version=major, minor_version=minor)

    def _of_agent(self, asked: Any) -> None:
        """What makes no difference here, of an agent that there is."""
        self.allocations.node(asked.gpu_id)

    def _clocks(self, asked: ioctls.GetClockCounters) -> Record:
        """A gpu_id that no agent has is that of the processor, which has no such counter."""
        now = nanoseconds()
        has_counter = any(node.gpu_id == asked.gpu_id for node in self.nodes)
        return ioctls.GetClockCounters(
            gpu_clock_counter=now if has_counter else 0, cpu_clock_counter=now, system_clock_counter=now,
            system_clock_freq=FREQUENCY, gpu_id=asked.gpu_id,
        )  # fmt: skip

    def _tile_config(self, asked: ioctls.GetTileConfig) -> Record:
        """No image is tiled."""
        self._of_agent(asked)
        tiles, macros = min(asked.num_tile_configs, TILE_MODES), min(asked.num_macro_tile_configs, MACRO_TILE_MODES)
        self.client.write(asked.tile_config_ptr, LINEAR.to_bytes(4, "little") * tiles)
        self.client.write(asked.macro_tile_config_ptr, bytes(4 * macros))
        return ioctls.GetTileConfig(
            tile_config_ptr=asked.tile_config_ptr, macro_tile_config_ptr=asked.macro_tile_config_ptr,
            num_tile_configs=tiles, num_macro_tile_configs=macros, gpu_id=asked.gpu_id, gb_addr_config=GB_ADDR_CONFIG,
        )  # fmt: skip

    def _apertures(self, asked: ioctls.GetProcessAperturesNew) -> Record:
        place, count = asked.kfd_process_device_apertures_ptr, len(self.nodes)
        if asked.num_of_nodes:
            count = min(asked.num_of_nodes, count)
            self.client.write(place, b"".join(_apertures_of(node).pack() for node in self.nodes[:count]))
        return ioctls.GetProcessAperturesNew(kfd_process_device_apertures_ptr=place, num_of_nodes=count)

    def _available(self, asked: ioctls.AvailableMemory) -> Record:
        node = self.allocations.node(asked.gpu_id)
        return ioctls.AvailableMemory(available=self.allocations.available(node), gpu_id=asked.gpu_id)

    def _xnack(self, asked: ioctls.SetXnackMode) -> Record:
        """Waves never wait for pages: to ask is allowed, to turn it on is not."""
        if asked.xnack_enabled > 0:
            raise Refused("no agent has XNACK", errno.EPERM)
        return ioctls.SetXnackMode(xnack_enabled=0)

    # ---- memory --------------------------------------------------------------------------------------------------

    def _allocate(self, asked: ioctls.AllocMemoryOfGpu) -> Record:
        handle, offset = self.allocations.allocate(asked)
        return ioctls.AllocMemoryOfGpu(
            va_addr=asked.va_addr, size=asked.size, handle=handle, mmap_offset=offset, gpu_id=asked.gpu_id,
            flags=asked.flags,
        )  # fmt: skip

    def _map(self, asked: ioctls.MapMemory) -> Record:
        return _mapped(asked, self.allocations.map(asked))

    def _unmap(self, asked: ioctls.MapMemory) -> Record:
        return _mapped(asked, self.allocations.unmap(asked))

    def _scratch_backing(self, asked: ioctls.SetScratchBackingVa) -> None:
        node = self.allocations.node(asked.gpu_id)
        if node.is_legacy:
            self.device(node).hidden_private_base = asked.va_addr

    # ---- queues and events -----------------------------------------------------------------------------------------

    def _create_queue(self, asked: ioctls.CreateQueue) -> Record:
        number, offset = self.queues.create(asked)
        place = self.nodes.index(self.allocations.node(asked.gpu_id))
        told = DOORBELLS_APART * place + (0 if self.nodes[place].is_legacy else offset)
        values = {slot.name: getattr(asked, slot.name) for slot in asked.slots}
        return ioctls.CreateQueue(**values | {"queue_id": number, "doorbell_offset": told})

    def _cu_mask(self, asked: ioctls.SetCuMask) -> None:
        """Which compute units a queue uses makes no difference to what its kernels do."""
        self.queues.check(asked.queue_id)
        if not 0 < asked.num_cu_mask <= MOST_MASK_BITS or asked.num_cu_mask % 32:
            raise Refused(f"a mask of {asked.num_cu_mask} compute units, expected a multiple of 32")
        self.client.read(asked.cu_mask_ptr, asked.num_cu_mask // 8)

    def _trap_handler(self, asked: ioctls.SetTrapHandler) -> None:
        """The run-time library's handler reports traps, which is done here: its code does not run."""
        self.device(self.allocations.node(asked.gpu_id)).has_trap_handler = bool(asked.tba_addr)

    def _create_event(self, asked: ioctls.CreateEvent) -> Record:
        return self.events.create(asked, self._page)

    def _page(self, handle: int) -> npt.NDArray[np.uint8]:
        """The bytes of an allocation: the page of slots, which waves write to."""
        what = self.allocations.find(handle).pieces[0].what
        if isinstance(what, Foreign):
            raise Refused("the page of events is memory that only the program has")
        return what

    def _wait(self, asked: ioctls.WaitEvents) -> Record:
        result = self.events.wait(asked)
        return ioctls.WaitEvents(
            events_ptr=asked.events_ptr, num_events=asked.num_events, wait_for_all=asked.wait_for_all,
            timeout=asked.timeout, wait_result=result,
        )  # fmt: skip

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The program is gone: kernels are stopped, threads end, memory is given back."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self.events.close()
        self.queues.close()
        for agent in self._agents.values():
            agent.close()
        for watch in self._watches.values():
            watch.close()
        for device in self._devices.values():
            device.close()
        self.allocations.close()
        self._agents.clear()
        self._devices.clear()
        self._watches.clear()
        self.shared.close()


def _mapped(asked: ioctls.MapMemory, count: int) -> Record:
    return ioctls.MapMemory(
        handle=asked.handle, device_ids_array_ptr=asked.device_ids_array_ptr, n_devices=asked.n_devices,
        n_success=count,
    )  # fmt: skip


def _apertures_of(node: Node) -> ioctls.Apertures:
    found = apertures(node.agent, small=False)
    shared, private = found.shared_base, found.private_base
    return ioctls.Apertures(
        lds_base=shared, lds_limit=shared + APERTURE_BYTES - 1, scratch_base=private,
        scratch_limit=private + APERTURE_BYTES - 1, gpuvm_base=FIRST_ADDRESS, gpuvm_limit=USER_LIMIT - 1,
        gpu_id=node.gpu_id,
    )  # fmt: skip
