"""A builder of command buffers for RefSi M1: one method per command, and a few common sequences.

Methods are named as the commands in the RefSi M1 specification.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Self

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import WireError
from softcard.core.space import Unit
from softcard.device.refsi import rules
from softcard.device.refsi.commands import (
    CHUNK_BYTES,
    CacheFlags,
    Command,
    CopyMem64,
    Finish,
    LoadReg64,
    Nop,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
)
from softcard.device.refsi.registers import (
    CMP,
    DMA,
    DMA_BASE,
    DMA_CTRL,
    KARGS_INFO,
    KUB_DESC,
    NUM_WINDOWS,
    REGISTER_BYTES,
    TSD_INFO,
    WINDOW_MODE,
    WINDOW_MODES,
    WINDOW_SCALE,
)

KUB_UNIT_BYTES: Final = 256
READ, WRITE, EXECUTE = 1, 2, 4
SYNC_ALL: Final = int(CacheFlags.CMP_CACHE_SYNC_ACC_DCACHE | CacheFlags.CMP_CACHE_SYNC_ACC_ICACHE)
SPEC: Final = "spec"
REFSIDRV: Final = "refsidrv"
PROFILES: Final = (SPEC, REFSIDRV)


class CommandBuffer(RichDisplay):
    """A command buffer under construction. Methods check their arguments at once and return the buffer itself.

    Numbers that do not fit their field raise a `WireError` that names the field. Registers are given by number or by
    their name in the RefSi M1 specification. `profile` matters for one field only: SCALE_A of a window means 2^n in the
    specification and 2^(n-1) in the reference driver.

    >>> buffer = CommandBuffer().write_reg64("CMP_ENTRY_PT_FN", 0x10000).run_instances(4, 0x5000_0000).finish()
    >>> [hex(word) for word in buffer.words]
    ['0x1c0020200', '0x10000', '0x100c0040800', '0x4', '0x50000000', '0xc0000100']

    To build a buffer that is wrong on purpose, use `add` with any `Command` record and `chunks` with any words.
    """

    def __init__(self, profile: str = "spec") -> None:
        if profile not in PROFILES:
            raise WireError(f"unknown profile {profile!r}, expected one of {', '.join(PROFILES)}")
        self.profile = profile
        self._words: list[int] = []

    def __repr__(self) -> str:
        return f"<CommandBuffer, profile {self.profile}, {self.size_bytes} bytes>"

    def _rows(self) -> Rows:
        from softcard.device.refsi.toolkit.listing import lines  # listing imports this module

        yield "byte", "command", "meaning"
        for line in lines(self.to_bytes()):
            yield f"{line.offset:#x}", line.text, line.comment

    @property
    def words(self) -> tuple[int, ...]:
        """The chunks appended so far."""
        return tuple(self._words)

    @property
    def size_bytes(self) -> int:
        """The size in bytes of the chunks appended so far."""
        return len(self._words) * CHUNK_BYTES

    def to_bytes(self) -> bytes:
        """Return the chunks appended so far as little-endian bytes."""
        return b"".join(word.to_bytes(CHUNK_BYTES, "little") for word in self._words)

    def __len__(self) -> int:
        return len(self._words)

    def __iter__(self) -> Iterator[int]:
        return iter(self._words)

    # ---- any command, any chunk ----------------------------------------------------------------------------------

    def add(self, command: Command) -> Self:
        """Append any command record. Its fields must fit; their values are not checked further."""
        self._words += command.encode()
        return self

    def chunks(self, *words: int) -> Self:
        """Append 64-bit chunks as they are."""
        for word in words:
            if not 0 <= word < 1 << 64:
                raise WireError(f"{word:#x} does not fit a chunk of 64 bits")
        self._words += words
        return self

    # ---- the commands, in the document's order -------------------------------------------------------------------

    def nop(self, *skipped: int) -> Self:
        """Append NOP with a payload that is skipped. Only the reference driver has this command."""
        return self.add(Nop(0, skipped))

    def finish(self) -> Self:
        """Append FINISH: the end of the command buffer."""
        return self.add(Finish())

    def write_reg64(self, register: int | str, value: int = 0, **fields: int | str) -> Self:
        """Append WRITE_REG64 with a value, or with the register's fields by name.

        Fields are given as in ``KUB_ADDR=0x53000000, KUB_SIZE=1``.
        """
        number = register_number(register)
        if fields:
            found, _ = CMP.find(number, "w")
            value |= found.encode(**fields)
        return self.add(WriteReg64(number, value))

    def load_reg64(self, register: int | str, address: int) -> Self:
        """Append LOAD_REG64, which loads a CMP register from memory."""
        return self.add(LoadReg64(register_number(register), address))

    def store_reg64(self, register: int | str, address: int) -> Self:
        """Append STORE_REG64, which stores a CMP register to memory."""
        return self.add(StoreReg64(register_number(register), address))

    def store_imm64(self, address: int, value: int) -> Self:
        """Append STORE_IMM64, which stores a 64-bit value to an address below 4 GiB."""
        if not 0 <= address < 1 << 32:
            raise WireError(
                f"STORE_IMM64: DST_ADDR_LO is {address:#x}, expected a 32-bit address", rule=rules.STORE_IMM_32_BIT
            )
        return self.add(StoreImm64(address, value))

    def copy_mem64(self, count: int, source: int, target: int, unit: int | Unit = 0) -> Self:
        """Append COPY_MEM64, which copies `count` 8-byte elements, one by one, with the memory accesses of `unit`.

        `unit` is a `Unit`, or the number kind << 24 | index."""
        return self.add(CopyMem64(count, source, target, unit_id(unit)))

    def run_kernel_slice(self, num_instances: int, slice_id: int = 0, *, max_harts: int = 0) -> Self:
        """Append RUN_KERNEL_SLICE, which calls the kernel `num_instances` times with slice ID `slice_id`.

        If `max_harts` is 0, all harts may run the kernel."""
        return self.add(RunKernelSlice(max_harts, num_instances, slice_id))

    def run_instances(self, num_instances: int, *extra_args: int, max_harts: int = 0) -> Self:
        """Append RUN_INSTANCES, which runs the kernel `num_instances` times with up to 7 extra arguments.

        If `max_harts` is 0, all harts may run the kernel."""
        return self.add(RunInstances(max_harts, num_instances, extra_args))

    def sync_cache(self, flags: int = SYNC_ALL) -> Self:
        """Append SYNC_CACHE. By default it synchronises the data cache and the instruction cache."""
        return self.add(SyncCache(flags))

    # ---- common sequences ----------------------------------------------------------------------------------------

    def window(
        self,
        index: int,
        *,
        base: int,
        target: int,
        size: int,
        mode: str = "SHARED",
        scale: int = 0,
        perms: int = READ | WRITE | EXECUTE,
    ) -> Self:
        """Append commands that open memory window `index`.

        They write the registers BASE, TARGET, SCALE, and last MODE with ACTIVE set; other orders do not always work.
        `size` is in bytes, 1 to 2^32; `scale` is the distance in bytes between the areas of two harts or cores."""
        _window_index(index)
        if mode not in WINDOW_MODES.values():
            raise WireError(f"unknown window mode {mode!r}, expected one of {', '.join(WINDOW_MODES.values())}")
        if not 1 <= size <= 1 << 32:
            raise WireError(f"the size of the window is {size:#x}, expected 1 to 2^32 bytes", rule=rules.WINDOW_SIZE)
        scale_a, scale_b = scale_fields(scale, self.profile)
        self.write_reg64(f"CMP_REG_WINDOW_BASE{index}", base)
        self.write_reg64(f"CMP_REG_WINDOW_TARGET{index}", target)
        self.write_reg64(f"CMP_REG_WINDOW_SCALE{index}", WINDOW_SCALE.encode(SCALE_A=scale_a, SCALE_B=scale_b))
        mode_value = WINDOW_MODE.encode(ACTIVE=1, MODE=mode, PERMS=perms, SIZE=size - 1)
        return self.write_reg64(f"CMP_REG_WINDOW_MODE{index}", mode_value)

    def close_window(self, index: int) -> Self:
        """Append a command that closes memory window `index`.

        Harts may still see the window until the data cache is synchronised.
        """
        _window_index(index)
        return self.write_reg64(f"CMP_REG_WINDOW_MODE{index}", 0)

    def kernel(self, entry: int, *, stack_top: int, return_address: int) -> Self:
        """Append commands that set the three registers that every RUN command reads.

        They are the entry point, the stack top and the return address.
        """
        self.write_reg64("CMP_ENTRY_PT_FN", ENTRY_POINT_ADDR=entry)
        self.write_reg64("CMP_STACK_TOP", stack_top)
        return self.write_reg64("CMP_RETURN_ADDR", return_address)

    def uniform_block(
        self, address: int, size: int, *, kargs: tuple[int, int] = (0, 0), tsd: tuple[int, int] = (0, 0)
    ) -> Self:
        """Append commands that set the registers of RUN_KERNEL_SLICE for a Kernel Uniform Block.

        The block has `size` bytes, rounded up to 256. `kargs` and `tsd` are the (offset, size) in it of packed
        arguments and of thread-specific data.
        """
        units = -(-size // KUB_UNIT_BYTES)
        self.write_reg64("CMP_KUB_DESC", KUB_DESC.encode(KUB_ADDR=address, KUB_SIZE=units))
        self.write_reg64("CMP_KARGS_INFO", KARGS_INFO.encode(KARGS_OFFSET=kargs[0], KARGS_SIZE=kargs[1]))
        return self.write_reg64("CMP_TSD_INFO", TSD_INFO.encode(TSD_OFFSET=tsd[0], TSD_SIZE=tsd[1]))

    def dma_1d(self, target: int, source: int, size: int) -> Self:
        """Append commands that start a DMA transfer of `size` bytes."""
        return self._dma(target, source, (size,), (), ())

    def dma_2d(
        self,
        target: int,
        source: int,
        size: tuple[int, int],
        *,
        source_stride: int | None = None,
        target_stride: int | None = None,
    ) -> Self:
        """Append commands that start a 2D transfer of `size`, (bytes per row, rows).

        Strides are bytes from row to row. They default to densely packed rows; a source stride of 0 repeats one row.
        """
        return self._dma(target, source, size, (_dense(source_stride, size[0]),), (_dense(target_stride, size[0]),))

    def dma_3d(
        self,
        target: int,
        source: int,
        size: tuple[int, int, int],
        *,
        source_strides: tuple[int, int] | None = None,
        target_strides: tuple[int, int] | None = None,
    ) -> Self:
        """Append commands that start a 3D transfer of `size`, (bytes per row, rows, planes).

        Strides are bytes from (row to row, plane to plane).
        """
        dense = (size[0], size[0] * size[1])
        return self._dma(target, source, size, source_strides or dense, target_strides or dense)

    def wait_dma(self) -> Self:
        """Append commands that wait for the transfer that was started last.

        They overwrite the register CMP_SCRATCH, as the RefSi M1 specification suggests."""
        self.load_reg64("CMP_SCRATCH", dma_address("DMASTARTSEQ"))
        return self.store_reg64("CMP_SCRATCH", dma_address("DMADONESEQ"))

    def _dma(
        self,
        target: int,
        source: int,
        size: tuple[int, ...],
        source_strides: tuple[int, ...],
        target_strides: tuple[int, ...],
    ) -> Self:
        self.store_imm64(dma_address("DMASRCADDR"), source)
        self.store_imm64(dma_address("DMADSTADDR"), target)
        for index, value in enumerate(size):
            self.store_imm64(dma_address(f"DMAXFERSIZE{index}"), value)
        for index, value in enumerate(source_strides):
            self.store_imm64(dma_address(f"DMAXFERSRCSTRIDE{index}"), value)
        for index, value in enumerate(target_strides):
            self.store_imm64(dma_address(f"DMAXFERDSTSTRIDE{index}"), value)
        strided = int(bool(source_strides))
        start = DMA_CTRL.encode(START=1, DIM=len(size), STRIDE_SRC=strided, STRIDE_DST=strided)
        return self.store_imm64(dma_address("DMACTRL"), start)


def register_number(register: int | str) -> int:
    """Return the ID of a CMP register given by number or name; raise `WireError` for an unknown one."""
    if isinstance(register, str):
        return CMP.offset_of(register)
    try:
        CMP.find(register, "w")
    except WireError:
        raise WireError(f"there is no CMP register {register}", rule=rules.REG_IDX) from None
    return register


def unit_id(unit: int | Unit) -> int:
    """Return the number that denotes a unit in the UNIT chunk and in the driver: kind << 24 | index."""
    if isinstance(unit, int):
        return unit
    if not (0 <= unit.kind < 1 << 8 and 0 <= unit.index < 1 << 16):
        raise WireError(
            f"the unit has kind {unit.kind:#x} and index {unit.index:#x}, expected a kind of 8 and an index of 16 bits"
        )
    return unit.kind << 24 | unit.index


def dma_address(register: str) -> int:
    """Return the device address of a DMA register."""
    return DMA_BASE + DMA.offset_of(register) * REGISTER_BYTES


def scale_fields(scale: int, profile: str = "spec") -> tuple[int, int]:
    """Return SCALE_A and SCALE_B for a scaling factor in bytes; raise `WireError` if it has no encoding.

    SCALE_A holds n for the factor 2^n (RefSi M1 specification) or 2^(n-1) (reference driver), and 0 for 0. SCALE_B
    holds the second factor minus 1. Of all valid pairs, the one with the smallest SCALE_A is returned.
    """
    if scale == 0:
        return 0, 0
    lowest = 1 if profile == "spec" else 0
    for exponent in range(lowest, lowest + 31):
        quotient, rest = divmod(scale, 1 << exponent)
        if rest or scale < 0:
            break
        if quotient <= 1 << 32:
            return exponent + 1 - lowest, quotient - 1
    raise WireError(
        f"the window's scaling factor is {scale:#x}, expected 2^n * m with n {lowest} .. {lowest + 30} and m 1 .. 2^32",
        rule=rules.WINDOW_SCALE,
    )


def _dense(stride: int | None, row: int) -> int:
    return row if stride is None else stride


def _window_index(index: int) -> None:
    if not 0 <= index < NUM_WINDOWS:
        raise WireError(f"there is no memory window {index}, expected 0 .. {NUM_WINDOWS - 1}")
