"""The layout of RefSi command buffers (header, opcodes, a frozen record per command), and their status.

Names, fields and their order are those of the RefSi M1 specification, "the document" in this package. A chunk
is a 64-bit word; indices count chunks from the start of the buffer.

There are two ways to decode commands. With `lenient` False, as in the document, reserved bits that are set,
odd values of the count field (in 32-bit words), and fields that do not fit are errors. With `lenient` True,
as in the reference driver, only bits 31-30 and 7-0 of a header and the number of payload chunks are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from functools import cache
from typing import Any, ClassVar, Final, Self

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import SoftcardError, WireError
from softcard.core.event import made_quickly
from softcard.core.register import Access, Field, Register
from softcard.device.refsi import rules

CHUNK_BYTES: Final = 8
PACKET_ID: Final = 3
MAX_EXTRA_ARGS: Final = 7
MAX_CHUNKS: Final = (1 << 14) // 2 - 1
"""The maximum number of payload chunks that the count field can express."""


class Opcode(IntEnum):
    """The opcodes of commands.

    NOP is not in the RefSi M1 specification, but in the reference driver (choice `refsi/nop`).
    """

    NOP = 0
    FINISH = 1
    WRITE_REG64 = 2
    LOAD_REG64 = 3
    STORE_REG64 = 4
    STORE_IMM64 = 5
    COPY_MEM64 = 6
    RUN_KERNEL_SLICE = 7
    RUN_INSTANCES = 8
    SYNC_CACHE = 9


class CacheFlags(IntFlag):
    """The FLAGS of SYNC_CACHE, with the RefSi M1 specification's names and the reference driver's numbers."""

    CMP_CACHE_SYNC_ACC_DCACHE = 1
    CMP_CACHE_SYNC_ACC_ICACHE = 2


CACHE_FLAGS: Final = int(CacheFlags.CMP_CACHE_SYNC_ACC_DCACHE | CacheFlags.CMP_CACHE_SYNC_ACC_ICACHE)

HEADER: Final = Register(
    "HEADER",
    0,
    (
        Field("RESERVED", 0, 8, Access.RSVD),
        Field("OPCODE", 8, 8, values={int(op): op.name for op in Opcode}),
        Field("COUNT", 16, 14, doc="number of payload chunks, times two"),
        Field("PACKET_ID", 30, 2, reset=PACKET_ID),
        Field("INLINE", 32, 32, doc="command-dependent"),
    ),
    doc="General Command Format",
)

UNIT_KINDS: Final = {0: "ANY", 1: "EXTERNAL", 2: "CMP", 3: "ACC_HART", 4: "ACC_CORE"}
UNIT: Final = Register(
    "UNIT",
    0,
    (
        Field("INDEX", 0, 16),
        Field("KIND", 24, 8, values=UNIT_KINDS),
    ),
    width=64,
    doc="COPY_MEM64: unit ID to use for reading; the document leaves the encoding open (choice `refsi/unit-id`)",
)


@dataclass(frozen=True, slots=True)
class Header:
    """The header chunk of a command: opcode, number of payload chunks, and inline chunk.

    The inline chunk is the half of the header that holds a command's small fields.
    """

    opcode: int
    chunks: int
    inline: int


def encode_header(header: Header) -> int:
    """Return the 64-bit header chunk; raise `WireError` if a field does not fit."""
    return HEADER.encode(OPCODE=header.opcode, COUNT=2 * header.chunks, INLINE=header.inline)


def decode_header(word: int, *, lenient: bool = False) -> Header:
    """Return the header that a 64-bit header chunk encodes; raise `WireError` with the violated rule.

    The count field of a header counts 32-bit words. With `lenient`, an odd value of this field is accepted, and
    so is any opcode."""
    reserved, opcode, count, packet_id, inline = [word >> part.lsb & part.max for part in HEADER.fields]
    if packet_id != PACKET_ID:
        raise WireError(
            f"header {word:#018x}: packet identifier (bits 31-30) is {packet_id}, expected 3",
            rule=rules.HEADER_PACKET_ID,
        )
    if reserved:
        raise WireError(
            f"header {word:#018x}: reserved bits 7-0 are {reserved:#x}, expected 0",
            rule=rules.HEADER_RESERVED,
        )
    if not lenient and opcode not in _OPCODES:
        raise WireError(f"header {word:#018x}: unknown opcode {opcode}", rule=rules.HEADER_OPCODE)
    if not lenient and count % 2:
        raise WireError(
            f"header {word:#018x}: count (bits 29-16) is {count}, expected an even number", rule=rules.HEADER_COUNT
        )
    return Header(opcode, count // 2, inline)


_OPCODES: Final = frozenset(int(opcode) for opcode in Opcode)


@dataclass(frozen=True, slots=True)
class Command(RichDisplay):
    """One command. Each subclass is a frozen record.

    The names of its fields are those in the RefSi M1 specification, in lower case."""

    opcode: ClassVar[Opcode]
    INLINE: ClassVar[Register]
    """The fields of the inline chunk, as a register layout."""
    CHUNKS: ClassVar[tuple[str, ...]] = ()
    """The names of the payload chunks that a command always has, in order."""
    REST: ClassVar[str] = ""
    """The name of the payload chunks after those in `CHUNKS`, in any number; "" without such chunks."""

    def _rows(self) -> Rows:
        rest = getattr(self, self.REST) if self.REST else ()
        names = [*self.CHUNKS, *(f"{self.REST}[{number}]" for number in range(len(rest)))]
        yield "chunk", "what", "value"
        for part in self.INLINE.fields:
            yield 0, part.name, f"{getattr(self, part.name.lower()):#x}"
        for number, (name, value) in enumerate(zip(names, self.payload, strict=True), 1):
            yield number, name, f"{value:#x}"

    @property
    def inline(self) -> int:
        """The inline chunk of the command; raises `WireError` if a field does not fit."""
        return self.INLINE.encode(**{part.name: getattr(self, part.name.lower()) for part in self.INLINE.fields})

    @property
    def payload(self) -> tuple[int, ...]:
        """The payload chunks."""
        rest = getattr(self, self.REST) if self.REST else ()
        return *(getattr(self, name.lower()) for name in self.CHUNKS), *rest

    @classmethod
    def payload_chunks(cls, inline: int) -> int | None:
        """Return the number of payload chunks of a command with this inline chunk; None if any number is valid."""
        return len(cls.CHUNKS)

    @classmethod
    def parse(cls, inline: int, payload: Sequence[int]) -> Self:
        """Return the command with this inline chunk and payload.

        The caller must have checked the number of payload chunks."""
        make: Any = cls
        command: Self
        if cls.INLINE.fields[0].width == cls.INLINE.width:  # the inline chunk is one field, and it is the first one
            first = len(cls.CHUNKS)
            rest = (tuple(payload[first:]),) if cls.REST else ()
            command = make(inline, *payload[:first], *rest)
            return command
        values = [payload[part] if isinstance(part, int) else part.get(inline) for part in _sources(make)]
        command = make(*values, tuple(payload[len(cls.CHUNKS) :])) if cls.REST else make(*values)
        return command

    def check(self, inline: int) -> None:
        """Raise `WireError` if the RefSi M1 specification forbids the value of a field.

        `inline` is the inline chunk of the command as read from the buffer."""
        extra = self.INLINE.reserved_bits(inline)
        if extra:
            raise WireError(
                f"{self.opcode.name}: inline chunk {inline:#x} has bits {extra:#x} outside of its fields",
                rule=rules.ZERO_EXTENSION,
            )

    def encode(self) -> tuple[int, ...]:
        """Return all chunks, header first; raise `WireError` if a field does not fit."""
        payload = self.payload
        for number, value in enumerate(payload, 1):
            if not 0 <= value < 1 << 64:
                raise WireError(f"{self.opcode.name}: chunk {number} is {value:#x}, expected 64 bits")
        return encode_header(Header(self.opcode, len(payload), self.inline)), *payload


@cache
def _sources(kind: Any) -> tuple[Field | int, ...]:
    """Return the source of the value of each field of a command's record, except for the field `REST`.

    A source is a field of the inline chunk, or the index of a payload chunk."""
    found: dict[str, Field | int] = {part.name.lower(): part for part in kind.INLINE.fields}
    found |= {name.lower(): number for number, name in enumerate(kind.CHUNKS)}
    return tuple(found[part.name] for part in fields(kind) if part.name != kind.REST)


def _inline(*fields: Field) -> Register:
    return Register("INLINE", 0, fields, width=32)


@dataclass(frozen=True, slots=True)
class Nop(Command):
    """A command that does nothing; its payload is skipped. The RefSi M1 specification does not have it."""

    opcode: ClassVar = Opcode.NOP
    INLINE: ClassVar = _inline(Field("DUMMY", 0, 32))
    REST: ClassVar = "skipped"
    dummy: int = 0
    skipped: tuple[int, ...] = ()

    @classmethod
    def payload_chunks(cls, inline: int) -> int | None:
        """Return None: any number of payload chunks is valid."""
        return None


@dataclass(frozen=True, slots=True)
class Finish(Command):
    """The command that marks the end of the command buffer."""

    opcode: ClassVar = Opcode.FINISH
    INLINE: ClassVar = _inline(Field("DUMMY", 0, 32))
    dummy: int = 0


@made_quickly
@dataclass(frozen=True, slots=True)
class WriteReg64(Command):
    """The command that writes a 64-bit value to a CMP register."""

    opcode: ClassVar = Opcode.WRITE_REG64
    INLINE: ClassVar = _inline(Field("REG_IDX", 0, 32))
    CHUNKS: ClassVar = ("IMM_VAL",)
    reg_idx: int
    imm_val: int


@made_quickly
@dataclass(frozen=True, slots=True)
class LoadReg64(Command):
    """The command that reads a 64-bit value from memory and writes it to a CMP register."""

    opcode: ClassVar = Opcode.LOAD_REG64
    INLINE: ClassVar = _inline(Field("REG_IDX", 0, 32))
    CHUNKS: ClassVar = ("SRC_ADDR",)
    reg_idx: int
    src_addr: int


@made_quickly
@dataclass(frozen=True, slots=True)
class StoreReg64(Command):
    """The command that reads a CMP register and writes its value to memory."""

    opcode: ClassVar = Opcode.STORE_REG64
    INLINE: ClassVar = _inline(Field("REG_IDX", 0, 32))
    CHUNKS: ClassVar = ("DST_ADDR",)
    reg_idx: int
    dst_addr: int


@made_quickly
@dataclass(frozen=True, slots=True)
class StoreImm64(Command):
    """The command that writes an immediate 64-bit value to memory below 4 GiB."""

    opcode: ClassVar = Opcode.STORE_IMM64
    INLINE: ClassVar = _inline(Field("DST_ADDR_LO", 0, 32))
    CHUNKS: ClassVar = ("IMM_VAL",)
    dst_addr_lo: int
    imm_val: int


@made_quickly
@dataclass(frozen=True, slots=True)
class CopyMem64(Command):
    """The command that copies `count` 64-bit elements.

    They are read with the view of memory of the unit that the chunk `unit` identifies."""

    opcode: ClassVar = Opcode.COPY_MEM64
    INLINE: ClassVar = _inline(Field("COUNT", 0, 32))
    CHUNKS: ClassVar = ("SRC_ADDR", "DST_ADDR", "UNIT")
    count: int
    src_addr: int
    dst_addr: int
    unit: int = 0

    def check(self, inline: int) -> None:
        """Raise `WireError` unless the chunk UNIT contains a unit ID whose upper bits are zero."""
        if UNIT.reserved_bits(self.unit) or UNIT.get(self.unit, "KIND") not in UNIT_KINDS:
            raise WireError(
                f"COPY_MEM64: UNIT {self.unit:#x} is not a unit ID, expected a kind of 0..4 in bits 31-24 "
                "and an index in bits 15-0",
                rule=rules.COPY_UNIT,
            )


@dataclass(frozen=True, slots=True)
class RunKernelSlice(Command):
    """The command that makes `num_instances` calls of a kernel with the same packed arguments and slice ID."""

    opcode: ClassVar = Opcode.RUN_KERNEL_SLICE
    INLINE: ClassVar = _inline(Field("MAX_HARTS", 0, 8))
    CHUNKS: ClassVar = ("NUM_INSTANCES", "SLICE_ID")
    max_harts: int
    num_instances: int
    slice_id: int


@dataclass(frozen=True, slots=True)
class RunInstances(Command):
    """The command that runs a kernel function `num_instances` times with up to 7 extra arguments."""

    opcode: ClassVar = Opcode.RUN_INSTANCES
    INLINE: ClassVar = _inline(Field("MAX_HARTS", 0, 8), Field("NUM_ARGS", 8, 3))
    CHUNKS: ClassVar = ("NUM_INSTANCES",)
    REST: ClassVar = "extra_args"
    max_harts: int
    num_instances: int
    extra_args: tuple[int, ...] = ()

    @property
    def num_args(self) -> int:
        """The number of extra arguments; raises `WireError` if there are more than 7."""
        if len(self.extra_args) > MAX_EXTRA_ARGS:
            raise WireError(
                f"RUN_INSTANCES takes at most {MAX_EXTRA_ARGS} extra arguments, not {len(self.extra_args)}",
                rule=rules.RUN_EXTRA_ARGS,
            )
        return len(self.extra_args)

    @classmethod
    def payload_chunks(cls, inline: int) -> int | None:
        """Return the number of payload chunks: one for NUM_INSTANCES, and one for each of NUM_ARGS arguments."""
        return 1 + cls.INLINE.get(inline, "NUM_ARGS")


@dataclass(frozen=True, slots=True)
class SyncCache(Command):
    """The command that synchronises the caches in `flags` (see `CacheFlags`)."""

    opcode: ClassVar = Opcode.SYNC_CACHE
    INLINE: ClassVar = _inline(Field("FLAGS", 0, 32))
    flags: int

    def check(self, inline: int) -> None:
        """Raise `WireError` for flags outside of `CacheFlags`."""
        if self.flags & ~CACHE_FLAGS:
            raise WireError(
                f"SYNC_CACHE: flags {self.flags:#x} name caches that do not exist, expected 1 (data), "
                "2 (instructions) or both",
                rule=rules.SYNC_FLAGS,
            )


COMMANDS: Final[dict[int, type[Command]]] = {
    int(kind.opcode): kind
    for kind in (
        Nop,
        Finish,
        WriteReg64,
        LoadReg64,
        StoreReg64,
        StoreImm64,
        CopyMem64,
        RunKernelSlice,
        RunInstances,
        SyncCache,
    )
}
"""The record type of each opcode."""


def decode(
    words: Sequence[int] | memoryview[int], index: int = 0, *, end: int | None = None, lenient: bool = False
) -> tuple[Command, int]:
    """Decode the command whose header is chunk `index`; return the command and the index of the next header.

    `end` is the number of chunks in the buffer (default: all of `words`). A payload that exceeds the buffer
    is an error. With `lenient`, such a payload is read from the chunks of `words` after the buffer; chunks
    after the end of `words` count as zeros. Raise `WireError` with the rule, the chunk and the byte offset."""
    size = len(words) if end is None else end
    if not 0 <= index < size:
        raise WireError(f"no chunk {index} in a buffer of {size} chunks", rule=rules.CHUNKS)
    try:
        return _decode(words, index, size, lenient)
    except WireError as error:
        raise error.at("chunk", index).at("byte", index * CHUNK_BYTES) from None


def _decode(words: Sequence[int] | memoryview[int], index: int, size: int, lenient: bool) -> tuple[Command, int]:
    header = decode_header(words[index], lenient=lenient)
    kind = COMMANDS.get(header.opcode)
    if kind is None:
        raise WireError(f"header {words[index]:#018x}: unknown opcode {header.opcode}", rule=rules.HEADER_OPCODE)
    first = index + 1
    following = first + header.chunks
    if lenient and kind in (Nop, Finish):
        return kind.parse(header.inline, ()), following
    expected = kind.payload_chunks(header.inline)
    if expected is not None and header.chunks != expected:
        raise WireError(
            f"{kind.opcode.name}: count announces {header.chunks} payload chunks, expected {expected}",
            rule=rules.HEADER_COUNT,
        )
    if following > size and not lenient:
        raise WireError(
            f"{kind.opcode.name}: {header.chunks} payload chunks announced, but the buffer ends after {size - first}",
            rule=rules.CHUNKS,
        )
    command = kind.parse(header.inline, [words[i] if i < len(words) else 0 for i in range(first, following)])
    if not lenient:
        command.check(header.inline)
    return command, following


def decode_all(words: Sequence[int] | memoryview[int], *, lenient: bool = False) -> list[tuple[int, Command]]:
    """Return every command up to FINISH or the end of `words`, each with the index of its header."""
    found: list[tuple[int, Command]] = []
    index = 0
    while index < len(words):
        command, following = decode(words, index, lenient=lenient)
        found.append((index, command))
        if isinstance(command, Finish):
            break
        index = following
    return found


def encode_all(commands: Sequence[Command]) -> bytes:
    """Return the bytes of a command buffer that consists of `commands`."""
    return b"".join(word.to_bytes(CHUNK_BYTES, "little") for command in commands for word in command.encode())


# ---- status ----------------------------------------------------------------------------------------------------------
# The status of a command buffer.


@dataclass(frozen=True, slots=True)
class BufferStatus(RichDisplay):
    """The result of one submitted buffer. `ok` is False if there is an `error`.

    `commands` is the number of completed commands, `steps` the number of instructions that kernels of the
    buffer retired. After a failure, `command` is the index of the failed command in the buffer, `chunk` the
    index of its header and `offset` the header's byte offset. If a kernel failed, `hart`, `pc` and `instance`
    are the location."""

    ticket: int
    address: int
    size: int
    commands: int = 0
    steps: int = 0
    error: SoftcardError | None = None
    command: int | None = None
    opcode: str = ""
    chunk: int | None = None
    hart: int | None = None
    pc: int | None = None
    instance: int | None = None

    @property
    def ok(self) -> bool:
        """True if every command of the buffer was executed."""
        return self.error is None

    @property
    def offset(self) -> int | None:
        """The byte offset of the failing command's header in the buffer."""
        return None if self.chunk is None else self.chunk * 8

    def __repr__(self) -> str:
        return f"<{self}>"

    def _rows(self) -> Rows:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        places = ("address", "pc")
        return [
            (),
            *((name, f"{value:#x}" if name in places else value) for name, value in values if value not in (None, "")),
        ]

    def __str__(self) -> str:
        if self.error is None:
            return f"buffer {self.ticket} at {self.address:#x}: {self.commands} commands, {self.steps} instructions"
        return f"buffer {self.ticket} at {self.address:#x}: {self.error}"
