"""One program that has opened the driver: its ioctls, and all its resources."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from softcard.core.checks import having
from softcard.core.errors import AccessFault, NoHostMemory, SoftcardError
from softcard.core.findings import CodePlace, in_function
from softcard.core.record import Record
from softcard.device.hsa.device import HsaDevice
from softcard.device.hsa.memory.segments import apertures
from softcard.device.hsa.queues.aql_queue import Queue
from softcard.device.hsa.settings import Settings
from softcard.device.kfd import drm, ioctls
from softcard.device.kfd.address_space import USER_LIMIT, AddressSpace
from softcard.device.kfd.allocations import Allocations
from softcard.device.kfd.client import Client
from softcard.device.kfd.code_files import CodeFiles
from softcard.device.kfd.driver_events import Events
from softcard.device.kfd.host_races import PinnedOrder
from softcard.device.kfd.ioctls import (
    CLOCK_FREQUENCY,
    UNMODELLED,
    EventKind,
    MemoryException,
    NotModelled,
    Number,
    Refused,
    Unmodelled,
    boot_nanoseconds,
)
from softcard.device.kfd.loaded_code import CodeWatch, LoadedCode, Ran, function_at, loaded_at
from softcard.device.kfd.node import FIRST_RENDER_MINOR, Node
from softcard.device.kfd.queues import AgentQueues, Queues
from softcard.device.kfd.serving import Doorbells
from softcard.device.kfd.shared_memory import DOORBELLS_APART, SharedMemory
from softcard.device.kfd.user_memory import Foreign

APERTURE_BYTES: Final = 1 << 32
FIRST_ADDRESS: Final = 1 << 24
LINEAR: Final = 1 << 2 | 12 << 6
"""The value of GB_TILE_MODE for linear memory."""
TILE_MODES: Final = 32
MACRO_TILE_MODES: Final = 16
GB_ADDR_CONFIG: Final = 0x2201_1003
MOST_MASK_BITS: Final = 1024
HIDDEN_BASE_SHIFT: Final = 16
"""The number of address bits that SH_HIDDEN_PRIVATE_BASE_VMID omits."""
PAGE: Final = 4096
NO_MAILBOXES: Final = (0, 0)
"""The address and size of the page of events as long as a program has not allocated it."""

Failed = Callable[[Node, int, SoftcardError], None]


def _locate(device: HsaDevice, files_of: Callable[[], CodeFiles] | None, program: Client, pc: int) -> CodePlace | None:
    """Return the function and source line of the instruction at `pc`; None if they are unknown.

    The information comes from the code object in memory, and from a file with the same code."""
    name, offset = function_at(device.memory, pc)
    loaded = None if files_of is None else loaded_at(device, pc)
    known = None if files_of is None or loaded is None else files_of().of(loaded, program)
    if known is None or loaded is None:
        return CodePlace(in_function(name, offset), name) if name else None
    if not name:
        name, offset = known.function_at(pc - loaded.base)
    place = known.lines.at(pc - loaded.base)
    at = in_function(name, offset)
    return CodePlace(at, name) if place is None else CodePlace(at, name, str(place), place.frames, place.column)


class KfdProcess:
    """The resources of one program: memory, queues, events, and its own devices for the agents.

    `ioctl` may be called on any number of threads at once. `close` releases all resources.
    """

    def __init__(
        self, nodes: Sequence[Node], shared: SharedMemory, client: Client, settings: Settings, failed: Failed,
        made: Callable[[HsaDevice], None], ran: Ran | None = None, code_files: Callable[[], CodeFiles] | None = None,
        linted: Callable[[Node, str, str], None] = lambda node, check, message: None,
    ) -> None:  # fmt: skip
        self.nodes = nodes
        self.shared = shared
        self.client = client
        self._settings = settings
        self._failed = failed
        self._made = made
        self._linted = linted
        self._ran = ran
        self._code_files = code_files
        self._watches: dict[int, CodeWatch] = {}
        self._lock = threading.RLock()
        self._agents: dict[int, AgentQueues] = {}
        self._devices: dict[int, HsaDevice] = {}
        self._mailboxes = NO_MAILBOXES
        self._is_closed = False
        self._has_runtime = False
        self.events = Events(client)
        self.allocations = Allocations(client, shared, nodes, self._space, settings.fill or 0)
        self.queues = Queues(self._queues_of)
        self.host_order: PinnedOrder | None = None
        """The tracker of the host's stores to pinned memory; None without the race check."""
        if having(settings.checks, lambda kind: kind.orders_accesses):
            self.host_order = PinnedOrder(client, self.allocations.seen_at, self._pending, self._not_compared)
        self._handlers: dict[int, tuple[type[Record], Callable[[Any], Record | None]]] = {
            Number.GET_VERSION: (ioctls.GetVersion, self._version),
            Number.CREATE_QUEUE: (ioctls.CreateQueue, self._create_queue),
            Number.DESTROY_QUEUE: (ioctls.DestroyQueue, lambda arguments: self.queues.destroy(arguments.queue_id)),
            Number.SET_MEMORY_POLICY: (ioctls.SetMemoryPolicy, self._of_agent),
            Number.GET_CLOCK_COUNTERS: (ioctls.GetClockCounters, self._clocks),
            Number.UPDATE_QUEUE: (ioctls.UpdateQueue, lambda arguments: self.queues.update(arguments)),
            Number.CREATE_EVENT: (ioctls.CreateEvent, self._create_event),
            Number.DESTROY_EVENT: (ioctls.OneEvent, lambda arguments: self.events.destroy(arguments.event_id)),
            Number.SET_EVENT: (ioctls.OneEvent, lambda arguments: self.events.set(arguments.event_id)),
            Number.RESET_EVENT: (ioctls.OneEvent, lambda arguments: self.events.reset(arguments.event_id)),
            Number.WAIT_EVENTS: (ioctls.WaitEvents, self._wait),
            Number.SET_SCRATCH_BACKING_VA: (ioctls.SetScratchBackingVa, self._scratch_backing),
            Number.GET_TILE_CONFIG: (ioctls.GetTileConfig, self._tile_config),
            Number.SET_TRAP_HANDLER: (ioctls.SetTrapHandler, self._trap_handler),
            Number.GET_PROCESS_APERTURES_NEW: (ioctls.GetProcessAperturesNew, self._apertures),
            Number.ACQUIRE_VM: (ioctls.AcquireVm, self._of_agent),
            Number.ALLOC_MEMORY_OF_GPU: (ioctls.AllocMemoryOfGpu, self._allocate),
            Number.FREE_MEMORY_OF_GPU: (
                ioctls.FreeMemoryOfGpu,
                lambda arguments: self.allocations.free(arguments.handle),
            ),
            Number.MAP_MEMORY_TO_GPU: (ioctls.MapMemory, self._map),
            Number.UNMAP_MEMORY_FROM_GPU: (ioctls.MapMemory, self._unmap),
            Number.SET_CU_MASK: (ioctls.SetCuMask, self._cu_mask),
            Number.SET_XNACK_MODE: (ioctls.SetXnackMode, self._xnack),
            Number.AVAILABLE_MEMORY: (ioctls.AvailableMemory, self._available),
            Number.RUNTIME_ENABLE: (ioctls.RuntimeEnable, self._enable_runtime),
        }

    # ---- calls ---------------------------------------------------------------------------------------------------

    def ioctl(self, request: int, data: bytes, minor: int = 0) -> bytes:
        """Carry out an ioctl on /dev/kfd, or on the render node `minor` if it is not 0.

        `request` is the ioctl's number, `data` its argument. Return the argument as the program gets it back. Raise
        `Refused` with the system's errno.
        """
        if self._is_closed:
            raise Refused("the process has ended", errno.EIO)
        kind, number = request >> 8 & 0xFF, request & 0xFF
        try:
            if kind == drm.TYPE and minor:
                node = self._of_minor(minor)
                return drm.answer(number, data.ljust(ioctls.MOST_BYTES, b"\0"), node, self.client)[: len(data)]
            if kind != ioctls.TYPE or minor:
                path = f"/dev/dri/renderD{minor}" if minor else "/dev/kfd"
                raise Refused(f"ioctl {request:#x} of {path} is not modelled", errno.ENOTTY)
            return self._kfd(number, data)
        except NoHostMemory as error:
            raise Refused(error.message, errno.ENOMEM) from None

    def _kfd(self, number: int, data: bytes) -> bytes:
        record, handler = self._handlers.get(number, (None, None))
        if number in list(Unmodelled):
            purpose, code = UNMODELLED[Unmodelled(number)]
            raise NotModelled(f"ioctl {Unmodelled(number).name} is not modelled ({purpose})", code)
        if record is None or handler is None:
            raise Refused(f"ioctl {number:#x} of /dev/kfd is not modelled")
        answer = handler(record.parse(data.ljust(record.size_bytes, b"\0")))
        if answer is None:
            return data
        return (answer.pack() + data[record.size_bytes :])[: len(data)]

    def _of_minor(self, minor: int) -> Node:
        if not 0 <= minor - FIRST_RENDER_MINOR < len(self.nodes):
            last = FIRST_RENDER_MINOR + len(self.nodes) - 1
            text = f"there is no render node {minor}, expected {FIRST_RENDER_MINOR} to {last}"
            raise Refused(text, errno.ENODEV)
        return self.nodes[minor - FIRST_RENDER_MINOR]

    # ---- made at first use ----------------------------------------------------------------------

    def device(self, node: Node) -> HsaDevice:
        """Return this process's device for the agent of a node."""
        with self._lock:
            made = self._devices.get(node.number)
            if made is None:
                if self._is_closed:
                    raise Refused("the process has ended", errno.EIO)
                made = self._devices[node.number] = HsaDevice(node.agent, self._settings)
                if self._ran is not None:
                    self._watches[node.number] = CodeWatch(made, self._ran, self._found)
                self._made(made)
                made.on_lint = lambda check, message: self._linted(node, check, message)
                made.locators.known.append(partial(_locate, made, self._code_files, self.client))
                if self.host_order is not None:
                    made.around_kernels = partial(self.host_order.kernel, made)
                    made.is_from_kernels = self.host_order.is_from_kernels
                made.observe_interrupts(self.events.interrupt)
                made.set_mailboxes(*self._mailboxes)
                made.fault_handler = lambda queue, error: self._fault(node, error)
            return made

    def _found(self, code: LoadedCode) -> None:
        """Find the file that contains the code object `code`, whose first kernel is about to run.

        The search cannot be postponed, because the program cannot be queried after its end."""
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
                    None if self.host_order is None else self.host_order.of(self.device(node)),
                )  # fmt: skip
            return made

    def _pending(self) -> dict[int, tuple[int, int]]:
        """Return the range of submitted work that is not done, by queue number.

        A range is a start and an end: packet indices of an AQL queue, bytes of a copy queue, dwords of a PM4 queue.
        """
        return {number: work for agent in tuple(self._agents.values()) for number, work in agent.pending().items()}

    def _not_compared(self, reason: str) -> None:
        """Report a lint that the host's stores to pinned memory are not compared, for the given reason.

        The lint is attributed to the first agent.
        """
        self._linted(self.nodes[0], "host-order", reason)

    # ---- failures ------------------------------------------------------------------------------------------------

    def _stopped(self, node: Node, queue: int, error: SoftcardError) -> None:
        """Report that a queue has stopped because of an error.

        If it is a fault of a copy engine or of a PM4 queue, also call `_fault`. For faults of the kernels of AQL
        packets, `_fault` was called before."""
        is_aql = isinstance(self._agents[node.number].find(queue), Queue)
        if not is_aql and isinstance(error, AccessFault):
            self._fault(node, error)
        self._failed(node, queue, error)

    def _fault(self, node: Node, error: AccessFault) -> bool:
        """Report a page fault as the kernel driver does: set the program's memory events.

        No error signal of the queue is set. Return False for an address that cannot belong to the program."""
        if error.address >= USER_LIMIT:
            return False
        page = error.address & -PAGE
        is_there = self.device(node).memory.find(page) is not None
        read_only = error.access == "write" and is_there
        data = MemoryException(not_present=int(not read_only), read_only=int(read_only), va=page, gpu_id=node.gpu_id)
        self.events.set_all(EventKind.MEMORY, data.pack())
        return True

    # ---- information ---------------------------------------------------------------------------------------------

    def _version(self, arguments: ioctls.GetVersion) -> Record:
        major, minor = ioctls.VERSION
        return ioctls.GetVersion(major_version=major, minor_version=minor)

    def _of_agent(self, arguments: Any) -> None:
        """Raise an error if `arguments` refer to an unknown agent.

        The ioctls that this method handles have no other effect."""
        self.allocations.node(arguments.gpu_id)

    def _clocks(self, arguments: ioctls.GetClockCounters) -> Record:
        """Return the values of the clocks. For an unknown gpu_id the GPU counter is 0, as for the host's processor."""
        now = boot_nanoseconds()
        has_counter = any(node.gpu_id == arguments.gpu_id for node in self.nodes)
        return ioctls.GetClockCounters(
            gpu_clock_counter=now if has_counter else 0, cpu_clock_counter=now, system_clock_counter=now,
            system_clock_freq=CLOCK_FREQUENCY, gpu_id=arguments.gpu_id,
        )  # fmt: skip

    def _tile_config(self, arguments: ioctls.GetTileConfig) -> Record:
        """Return the tiling modes of images, all of which are linear."""
        self._of_agent(arguments)
        tiles, macros = (
            min(arguments.num_tile_configs, TILE_MODES),
            min(arguments.num_macro_tile_configs, MACRO_TILE_MODES),
        )
        self.client.write(arguments.tile_config_ptr, LINEAR.to_bytes(4, "little") * tiles)
        self.client.write(arguments.macro_tile_config_ptr, bytes(4 * macros))
        return ioctls.GetTileConfig(
            tile_config_ptr=arguments.tile_config_ptr, macro_tile_config_ptr=arguments.macro_tile_config_ptr,
            num_tile_configs=tiles, num_macro_tile_configs=macros,
            gpu_id=arguments.gpu_id, gb_addr_config=GB_ADDR_CONFIG,
        )  # fmt: skip

    def _apertures(self, arguments: ioctls.GetProcessAperturesNew) -> Record:
        place, count = arguments.kfd_process_device_apertures_ptr, len(self.nodes)
        if arguments.num_of_nodes:
            count = min(arguments.num_of_nodes, count)
            self.client.write(place, b"".join(_apertures_of(node).pack() for node in self.nodes[:count]))
        return ioctls.GetProcessAperturesNew(kfd_process_device_apertures_ptr=place, num_of_nodes=count)

    def _available(self, arguments: ioctls.AvailableMemory) -> Record:
        node = self.allocations.node(arguments.gpu_id)
        return ioctls.AvailableMemory(available=self.allocations.available(node), gpu_id=arguments.gpu_id)

    def _enable_runtime(self, arguments: ioctls.RuntimeEnable) -> Record:
        """Record whether the program's run-time library supports debuggers, which are not modelled."""
        is_enabled = bool(arguments.mode_mask & ioctls.RUNTIME_ENABLE_MODE)
        with self._lock:
            if is_enabled and self._has_runtime:
                raise Refused("RUNTIME_ENABLE was called before: disable it first, with mode_mask 0", errno.EBUSY)
            if is_enabled and len(self.queues):
                raise Refused(f"RUNTIME_ENABLE must precede the {len(self.queues)} queues", errno.EEXIST)
            self._has_runtime = is_enabled
        return ioctls.RuntimeEnable(r_debug=arguments.r_debug, mode_mask=arguments.mode_mask)

    def _xnack(self, arguments: ioctls.SetXnackMode) -> Record:
        """Return the reply that waves never retry page faults (XNACK).

        Raise `Refused` for an attempt to enable retries."""
        if arguments.xnack_enabled > 0:
            raise Refused("XNACK cannot be enabled: no GPU of the machine supports it", errno.EPERM)
        return ioctls.SetXnackMode(xnack_enabled=0)

    # ---- memory --------------------------------------------------------------------------------------------------

    def _allocate(self, arguments: ioctls.AllocMemoryOfGpu) -> Record:
        handle, offset = self.allocations.allocate(arguments)
        return ioctls.AllocMemoryOfGpu(
            va_addr=arguments.va_addr, size=arguments.size, handle=handle, mmap_offset=offset, gpu_id=arguments.gpu_id,
            flags=arguments.flags,
        )  # fmt: skip

    def _map(self, arguments: ioctls.MapMemory) -> Record:
        return _mapped(arguments, self.allocations.map(arguments))

    def _unmap(self, arguments: ioctls.MapMemory) -> Record:
        return _mapped(arguments, self.allocations.unmap(arguments))

    def _scratch_backing(self, arguments: ioctls.SetScratchBackingVa) -> None:
        """Set the base address of private memory on GFX7 and GFX8 to va_addr, which is in units of 64 KiB.

        On later agents this has no effect. Raise `Refused` for an address outside of the program's address range."""
        node = self.allocations.node(arguments.gpu_id)
        address = arguments.va_addr << HIDDEN_BASE_SHIFT
        if address >= USER_LIMIT:
            raise Refused(
                f"va_addr {arguments.va_addr:#x} is in units of 64 KiB, expected less than "
                f"{USER_LIMIT >> HIDDEN_BASE_SHIFT:#x}: pass the address divided by 64 KiB"
            )
        if node.is_legacy:
            self.device(node).hidden_private_base = address

    # ---- queues and events -----------------------------------------------------------------------------------------

    def _create_queue(self, arguments: ioctls.CreateQueue) -> Record:
        number, offset = self.queues.create(arguments)
        place = self.nodes.index(self.allocations.node(arguments.gpu_id))
        encoded = DOORBELLS_APART * place + (0 if self.nodes[place].is_legacy else offset)
        values = {slot.name: getattr(arguments, slot.name) for slot in arguments.slots}
        return ioctls.CreateQueue(**values | {"queue_id": number, "doorbell_offset": encoded})

    def _cu_mask(self, arguments: ioctls.SetCuMask) -> None:
        """Check the mask of compute units, which has no effect on results."""
        self.queues.check(arguments.queue_id)
        if not 0 < arguments.num_cu_mask <= MOST_MASK_BITS or arguments.num_cu_mask % 32:
            raise Refused(
                f"the mask has {arguments.num_cu_mask} bits for compute units, expected a multiple of 32 up to "
                f"{MOST_MASK_BITS}"
            )
        self.client.read(arguments.cu_mask_ptr, arguments.num_cu_mask // 8)

    def _trap_handler(self, arguments: ioctls.SetTrapHandler) -> None:
        """Record whether the program has a trap handler.

        The handler's code never runs, because the simulator itself reports traps."""
        self.device(self.allocations.node(arguments.gpu_id)).has_trap_handler = bool(arguments.tba_addr)

    def _create_event(self, arguments: ioctls.CreateEvent) -> Record:
        return self.events.create(arguments, self._page)

    def _page(self, handle: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of the allocation `handle`, which becomes the page of event slots.

        Waves write to these slots to signal events.
        """
        found = self.allocations.find(handle)
        what = found.pieces[0].what
        if isinstance(what, Foreign):
            raise Refused("the page of events must be memory that the driver allocated")
        with self._lock:
            if self._mailboxes == NO_MAILBOXES:
                self._mailboxes = found.address, found.size
                for device in self._devices.values():
                    device.set_mailboxes(*self._mailboxes)
        return what

    def _wait(self, arguments: ioctls.WaitEvents) -> Record:
        result = self.events.wait(arguments)
        return ioctls.WaitEvents(
            events_ptr=arguments.events_ptr, num_events=arguments.num_events, wait_for_all=arguments.wait_for_all,
            timeout=arguments.timeout, wait_result=result,
        )  # fmt: skip

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release all resources: stop kernels, end threads, free memory."""
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


def _mapped(arguments: ioctls.MapMemory, count: int) -> Record:
    return ioctls.MapMemory(
        handle=arguments.handle, device_ids_array_ptr=arguments.device_ids_array_ptr, n_devices=arguments.n_devices,
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
