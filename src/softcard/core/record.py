"""Fixed byte layouts, declared once, for the conversion between bytes and frozen records.

A record is a class whose fields stand in the order of their bytes::

    class RunCommand(Record, size=20):
        kind: int = bits(3, 0)  # bits of one 32-bit word, from the low end, without gaps
        context: int = bits(31, 4)
        table: int = u64()
        start: int = u32()
        size: int = u32()

    command = RunCommand.parse(data, offset=0x40)
    data = command.pack()

The class statement makes it a frozen, keyword-only dataclass. `size` is checked against the sum of the fields, and an
inconsistent layout raises a `ModelBug` when it is declared. There is no hidden padding: bits that a specification
reserves are declared with `reserved` (or with `bits`) and preserved, so that packing returns the bytes that were
parsed.
"""

from __future__ import annotations

import operator
import struct
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast, dataclass_transform

from softcard.core.display import RichDisplay, Rows
from softcard.core.errors import ModelBug, WireError, close_to
from softcard.core.words import mask

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Spec:
    """The declaration of a record's field: the `size` of one element in bytes, and its storage format."""

    kind: Literal["word", "bits", "raw", "record"]
    size: int
    is_signed: bool = False
    count: int = 0
    """The number of elements of an array; 0 if the field is not an array."""
    high: int = 0
    low: int = 0
    record: type[Record] | None = None
    is_reserved: bool = False

    @property
    def bit_range(self) -> str:
        """The bits of a bit field in the notation of specifications: ``bits 29-16`` or ``bit 0``."""
        return f"bit {self.low}" if self.high == self.low else f"bits {self.high}-{self.low}"


@dataclass(frozen=True, slots=True)
class Slot:
    """A field with its position in a record: `offset` and `size_bytes`, in bytes.

    For a bit field, these are the offset and the size of the word that contains the field."""

    name: str
    offset: int
    spec: Spec

    @property
    def size_bytes(self) -> int:
        """The number of bytes that the field occupies, or for a bit field, the word that contains it."""
        return self.spec.size * max(1, self.spec.count)

    @property
    def where(self) -> str:
        """The location for messages: ``byte 0x4`` or ``byte 0x4 bits 29-16``."""
        return f"byte {self.offset:#x}" + (f" {self.spec.bit_range}" if self.spec.kind == "bits" else "")


class _Group(NamedTuple):
    """Adjacent fields that share one word, or one field that is not a single word, such as an array.

    `field` is the index of the group's first field in the record. `item` is the index of the group's first value
    among the values that `struct` unpacks."""

    field: int
    item: int
    spec: Spec
    parts: tuple[tuple[int, int], ...] = ()
    """The lowest bit and the largest value of each bit field, if the group consists of bit fields of one word."""


def _declare(spec: Spec, default: Any) -> Any:
    if default is ...:
        return field(metadata={"spec": spec})
    return field(default=default, metadata={"spec": spec})


def u8(*, default: Any = ...) -> Any:
    """Declare an unsigned byte as a record's field."""
    return _declare(Spec("word", 1), default)


def u16(*, default: Any = ...) -> Any:
    """Declare an unsigned 16-bit word as a record's field."""
    return _declare(Spec("word", 2), default)


def u32(*, default: Any = ...) -> Any:
    """Declare an unsigned 32-bit word as a record's field."""
    return _declare(Spec("word", 4), default)


def u64(*, default: Any = ...) -> Any:
    """Declare an unsigned 64-bit word as a record's field."""
    return _declare(Spec("word", 8), default)


def i32(*, default: Any = ...) -> Any:
    """Declare a signed 32-bit word as a record's field."""
    return _declare(Spec("word", 4, is_signed=True), default)


def i64(*, default: Any = ...) -> Any:
    """Declare a signed 64-bit word as a record's field."""
    return _declare(Spec("word", 8, is_signed=True), default)


def bits(high: int, low: int, *, of: int = 32, default: Any = ...) -> Any:
    """Declare a field of bits `high` to `low` in a word of `of` bits.

    Low bit 0 begins a new word, and high bit ``of - 1`` completes it.
    """
    if of not in (8, 16, 32, 64):
        raise ModelBug(f"bits must lie in a word of 8, 16, 32 or 64 bits, not {of}")
    return _declare(Spec("bits", of // 8, high=high, low=low), default)


def raw(size: int, *, default: Any = ...) -> Any:
    """Declare a field of `size` raw bytes."""
    if size < 1:
        raise ModelBug(f"raw must hold 1 byte or more, not {size}")
    return _declare(Spec("raw", size), default)


def words(width: int, count: int, *, default: Any = ...) -> Any:
    """Declare a field with an array of `count` unsigned words of `width` bits; its value is a tuple of ints."""
    if width not in (8, 16, 32, 64):
        raise ModelBug(f"words must be 8, 16, 32 or 64 bits wide, not {width}")
    return _declare(Spec("word", width // 8, count=_positive(count)), default)


def nested(record: type[Record], *, default: Any = ...) -> Any:
    """Declare a field that contains another record, in that record's byte order."""
    return _declare(Spec("record", record.size_bytes, record=record), default)


def records(record: type[Record], count: int, *, default: Any = ...) -> Any:
    """Declare a field with an array of `count` other records; its value is a tuple of them."""
    return _declare(Spec("record", record.size_bytes, count=_positive(count), record=record), default)


def reserved(size: int) -> Any:
    """Declare `size` reserved bytes. They are zero unless parsed or set; see `Record.reserved_set`."""
    return field(default=bytes(size), metadata={"spec": Spec("raw", size, is_reserved=True)})


def reserved_bits(high: int, low: int, *, of: int = 32) -> Any:
    """Declare reserved bits of a word, which are zero unless parsed or set; see `bits` and `Record.reserved_set`."""
    return field(default=0, metadata={"spec": Spec("bits", of // 8, high=high, low=low, is_reserved=True)})


def _positive(count: int) -> int:
    if count < 1:
        raise ModelBug(f"an array must have 1 element or more, not {count}")
    return count


# `reserved` and `reserved_bits` are left out on purpose: type checkers then take them for defaults, which they are.
@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(u8, u16, u32, u64, i32, i64, bits, raw, words, nested, records),
)
class Record(RichDisplay):
    """The base class of all records. `byte_order`, "little" (default) or "big", is the byte order of its words."""

    size_bytes: ClassVar[int] = 0
    """The length of every instance in bytes."""
    byte_order: ClassVar[Literal["little", "big"]] = "little"
    slots: ClassVar[tuple[Slot, ...]] = ()
    """The fields with their offsets, in byte order."""
    layout: ClassVar[struct.Struct] = struct.Struct("")
    """The layout for `struct`: one item per word, element of an array, raw field, and embedded record as bytes."""
    _names: ClassVar[tuple[str, ...]] = ()
    _fields: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}
    _groups: ClassVar[tuple[_Group, ...]] = ()

    def __init_subclass__(cls, *, size: int | None = None, byte_order: Literal["little", "big"] = "little") -> None:
        super().__init_subclass__()
        # Methods are the same for all records: generating them for each would dominate the cost of a declaration.
        dataclass(init=False, kw_only=True, repr=False, eq=False)(cls)
        cls.byte_order = byte_order
        cls.slots = _lay_out(cls)
        cls.layout, cls._groups = _compile(cls.slots, byte_order)
        cls._names = tuple(slot.name for slot in cls.slots)
        cls._fields = frozenset(cls._names)
        parts = fields(cls)  # type: ignore[arg-type]  # the subclass has just become a dataclass
        cls._defaults = {part.name: part.default for part in parts if part.default is not MISSING}
        cls.size_bytes = cls.layout.size
        if size is not None and size != cls.size_bytes:
            raise ModelBug(f"record {cls.__name__}: the fields must have {size} bytes in all, not {cls.size_bytes}")

    def __init__(self, **values: object) -> None:
        """Create a record from values of its fields by name; only fields with a default may be omitted."""
        given = {**self._defaults, **values}
        if given.keys() != self._fields:
            lacking, unknown = sorted(self._fields - given.keys()), sorted(given.keys() - self._fields)
            what = f"no value for {', '.join(lacking)}"
            if unknown:
                others = close_to(unknown[0], self._fields) or f" (it has: {' '.join(self._names)})"
                what = f"no field {unknown[0]}{others}"
            raise TypeError(f"record {type(self).__name__} has {what}")
        vars(self).update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        values = [(slot.name, getattr(self, slot.name)) for slot in self.slots]
        said = [(name, value) for name, value in values if name not in self._defaults or value != self._defaults[name]]
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in said)})"

    def _rows(self) -> Rows:
        yield "byte", "bits", "field", "value"
        for slot in self.slots:
            spec, value = slot.spec, getattr(self, slot.name)
            if not spec.is_reserved or slot in self.reserved_set():
                bits = f"{spec.high}:{spec.low}" if spec.kind == "bits" else ""
                yield f"{slot.offset:#x}", bits, slot.name, repr(value) if isinstance(value, Record) else _text(value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, slot.name) == getattr(other, slot.name) for slot in self.slots)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, slot.name) for slot in self.slots))

    @classmethod
    def parse(cls, data: Buffer, offset: int = 0) -> Self:
        """Return the record at `offset` in `data`.

        Raise a `WireError` with the offset if the data ends before the record does.
        """
        if offset < 0:
            raise WireError(f"{cls.__name__} cannot start before the data").at("byte", f"-{-offset:#x}")
        if len(data) - offset < cls.size_bytes:
            left = max(0, len(data) - offset)
            short = next(slot for slot in cls.slots if slot.offset + slot.size_bytes > left)
            raise WireError(
                f"{cls.__name__} needs {cls.size_bytes} bytes, but the data has {left} left: "
                f"it ends before field {short.name} is complete"
            ).at("byte", offset)
        values: list[Any] = list(cls.layout.unpack_from(data, offset))
        for _, at, spec, parts in cls._groups:
            if spec.kind == "bits":
                values[at : at + 1] = [values[at] >> low & most for low, most in parts]
                continue
            end = at + max(1, spec.count)
            if spec.record is not None:
                values[at:end] = map(spec.record.parse, values[at:end])
            if spec.count:
                values[at:end] = (tuple(values[at:end]),)
        made = object.__new__(cls)
        made.__dict__.update(zip(cls._names, values, strict=True))
        return made

    def pack(self) -> bytes:
        """Return the record's bytes; raise `WireError` if a value does not fit its field.

        The error has the field, the location and the limit.
        """
        values: list[Any] = [*map(vars(self).__getitem__, self._names)]
        try:
            for at, _, spec, parts in self._groups:
                if spec.kind == "bits":
                    end, word = at + len(parts), 0
                    for (low, most), value in zip(parts, map(operator.index, values[at:end]), strict=True):
                        if not 0 <= value <= most:
                            raise struct.error
                        word |= value << low
                    values[at:end] = (word,)
                    continue
                items = values[at] if spec.count else (values[at],)
                if len(items) != max(1, spec.count):
                    raise struct.error
                if spec.record is not None:
                    items = [item.pack() for item in items]
                elif spec.kind == "raw":
                    items = (bytes(items[0]),)
                    if len(items[0]) != spec.size:
                        raise struct.error
                values[at : at + 1] = items
            return self.layout.pack(*values)
        except (struct.error, TypeError, WireError):
            for slot in self.slots:
                _check(type(self), slot, getattr(self, slot.name))
            raise

    @classmethod
    def slot(cls, name: str) -> Slot:
        """Return the slot of the field with this name."""
        for slot in cls.slots:
            if slot.name == name:
                return slot
        raise ModelBug(f"record {cls.__name__} has no field {name}")

    @classmethod
    def offset_of(cls, name: str) -> int:
        """Return the byte offset of a field, or of the word around a bit field."""
        return cls.slot(name).offset

    @classmethod
    def reserved_mask(cls) -> int:
        """Return a mask of the record's reserved bits, with the record's bytes read as one little-endian number."""
        mask = 0
        for slot in cls.slots:
            if slot.spec.is_reserved:
                bits = slot.spec.kind == "bits"
                low, count = (slot.spec.low, slot.spec.high - slot.spec.low + 1) if bits else (0, 8 * slot.size_bytes)
                mask |= ((1 << count) - 1) << 8 * slot.offset + low
        return mask

    def reserved_set(self) -> tuple[Slot, ...]:
        """Return the reserved fields that are not zero; the device chooses its reaction to them."""
        return tuple(slot for slot in self.slots if slot.spec.is_reserved and any(_as_bytes(getattr(self, slot.name))))

    def explain(self, base: int = 0) -> list[str]:
        """Return one line of text per field, such as ``0x04 table = 0x1000``.

        Offsets count from `base`; reserved fields are shown only if they are not zero.
        """
        set_now = self.reserved_set()
        lines: list[str] = []
        for slot in self.slots:
            value = getattr(self, slot.name)
            if slot.spec.is_reserved and slot not in set_now:
                continue
            place = f"{base + slot.offset:#06x}"
            if slot.spec.kind == "bits":
                place += f" [{slot.spec.high}:{slot.spec.low}]"
            lines.append(f"{place} {slot.name} = {_text(value)}")
            for index, item in enumerate(value if isinstance(value, tuple) else (value,)):
                if isinstance(item, Record):
                    start = base + slot.offset + index * slot.spec.size
                    lines.extend("  " + line for line in item.explain(start))
        return lines


AnyRecord = TypeVar("AnyRecord", bound=Record)


def narrowed(record: type[AnyRecord], name: str, *order: str, **changed: Any) -> type[AnyRecord]:
    """Return the variant of `record` for 32-bit files, called `name`, which has 32-bit words in place of 64-bit words.

    `order` lists the field names if some are missing or stand in another order; `changed` has new declarations of
    fields. Type checkers see the types of `record`, although the result is not its subclass.
    """
    body: dict[str, Any] = {}
    for part in fields(record):  # type: ignore[arg-type]  # every subclass of Record is a dataclass
        spec: Spec = part.metadata["spec"]
        if spec.kind == "word" and spec.size == 8:
            spec = replace(spec, size=4)
        body[part.name] = changed.get(part.name, field(default=part.default, metadata={"spec": spec}))
    body = {each: body[each] for each in order or body}
    namespace = {"__annotations__": dict.fromkeys(body, object), "__doc__": record.__doc__, **body}
    return cast(type[AnyRecord], type(name, (Record,), namespace))


def _lay_out(cls: type[Record]) -> tuple[Slot, ...]:
    """Return all fields of a record with their offsets.

    Fields follow each other without padding. The bit fields of one word have the same offset."""
    slots: list[Slot] = []
    offset = 0
    next_bit = 0
    for part in fields(cls):  # type: ignore[arg-type]  # the subclass has just become a dataclass
        spec = part.metadata.get("spec")
        here = f"record {cls.__name__}: field {part.name}"
        if not isinstance(spec, Spec):
            raise ModelBug(f"{here} must be declared with a specifier, such as u32() or bits()")
        if hasattr(Record, part.name):
            raise ModelBug(f"{here} must have another name: {part.name} is an attribute of all records")
        open_word = slots[-1].spec.size if next_bit else 0
        if next_bit and (spec.kind != "bits" or spec.low != next_bit or spec.size != open_word):
            raise ModelBug(
                f"{here} must continue at bit {next_bit} of the {open_word * 8}-bit word that the field before it has "
                "not completed"
            )
        slots.append(Slot(part.name, offset, spec))
        if spec.kind == "bits":
            _check_bits(here, spec, next_bit)
            next_bit = (spec.high + 1) % (spec.size * 8)
        if not next_bit:
            offset += slots[-1].size_bytes
    if next_bit:
        raise ModelBug(
            f"record {cls.__name__}: bits up to {slots[-1].spec.size * 8 - 1} of the last word must be declared, "
            f"not only up to {next_bit - 1}"
        )
    return tuple(slots)


def _check_bits(here: str, spec: Spec, next_bit: int) -> None:
    if spec.low != next_bit:
        raise ModelBug(f"{here} must begin a word at bit {next_bit}, not {spec.low}")
    if not spec.low <= spec.high < spec.size * 8:
        raise ModelBug(f"{here} must end within bits {spec.size * 8 - 1}-{spec.low}, not at {spec.high}")


def _compile(slots: tuple[Slot, ...], order: Literal["little", "big"]) -> tuple[struct.Struct, tuple[_Group, ...]]:
    """Return the `struct` layout of a record, and the groups of fields that are not single words, in reverse order.

    The reverse order allows a caller to replace the values of one group after another: the indices of earlier
    groups remain valid."""
    code = "<" if order == "little" else ">"
    groups: list[_Group] = []
    items = 0
    for number, slot in enumerate(slots):
        spec = slot.spec
        part = (spec.low, mask(spec.high - spec.low + 1))
        if spec.low:
            groups[0] = groups[0]._replace(parts=(*groups[0].parts, part))
            continue
        if spec.kind != "word" or spec.count:
            groups.insert(0, _Group(number, items, spec, (part,)))
        letter = f"{spec.size}s" if spec.kind in ("raw", "record") else {1: "B", 2: "H", 4: "I", 8: "Q"}[spec.size]
        code += (letter.lower() if spec.is_signed else letter) * max(1, spec.count)
        items += max(1, spec.count)
    return struct.Struct(code), tuple(groups)


def _check(cls: type[Record], slot: Slot, value: Any) -> None:
    """Raise a `WireError` with the field, its location and its limit if a value does not fit the field."""
    spec = slot.spec
    here = f"{cls.__name__}.{slot.name}"
    if spec.kind == "raw":
        if len(value) != spec.size:
            raise WireError(f"{here} holds {spec.size} bytes, not {len(value)}").at("byte", slot.offset)
        return
    items = value if spec.count else (value,)
    if len(items) != max(1, spec.count):
        raise WireError(f"{here} holds {spec.count} elements, not {len(items)}").at("byte", slot.offset)
    width = spec.high - spec.low + 1 if spec.kind == "bits" else spec.size * 8
    least, most = (-(1 << width - 1), mask(width - 1)) if spec.is_signed else (0, mask(width))
    for number, item in enumerate(items):
        if spec.record is not None:
            item.pack()
        elif not least <= item <= most:
            name = f"{here}[{number}]" if spec.count else here
            kind = "signed bits" if spec.is_signed else "bits"
            place = spec.bit_range if spec.kind == "bits" else ""
            raise WireError(f"{name} holds {width} {kind} ({least:#x}..{most:#x}), not {item:#x}").at(
                "byte", slot.offset + number * spec.size, place
            )


def _as_bytes(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.to_bytes(8, "little")


def _text(value: Any) -> str:
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, bytes):
        return value.hex(" ")
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_text, value)) + ")"
    return type(value).__name__
