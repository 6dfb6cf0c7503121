"""Register maps declared as tables, from which decoding, encoding, explanations and every export derive.

An inconsistent declaration raises a `ModelBug` whose message states the requirement. Invalid values and offsets from
users and guests raise a `WireError`. A `RegisterFile` holds the values of a map's registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ctypes import Array
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from softcard.core.display import RichDisplay, Rows, some
from softcard.core.errors import ModelBug, WireError


class Access(Enum):
    """The effect of a host's reads and writes on a register field."""

    RW = "rw"
    """A field that reads as the written value."""
    RO = "ro"
    """A field that the device sets; writes have no effect on it."""
    WO = "wo"
    """A field that can be written and reads as 0."""
    W1C = "w1c"
    """A field that the device sets; writing a 1 clears that bit, writing a 0 leaves it unchanged."""
    STROBE = "strobe"
    """A field in which a written 1 triggers an action; nothing is stored, and it reads as 0."""
    RSVD = "rsvd"
    """A field that the specification reserves."""


SIDES = ("r", "w", "rw")
_NEEDS_WRITE = frozenset({Access.WO, Access.W1C, Access.STROBE})


@dataclass(frozen=True)
class Field:
    """Bits `lsb` .. `lsb + width - 1` of a register. `values` names some or all of the numbers it can hold."""

    name: str
    lsb: int
    width: int = 1
    access: Access = Access.RW
    reset: int = 0
    doc: str = ""
    values: Mapping[int, str] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ModelBug(f"a field's name must be an identifier, not {self.name!r}")
        if self.lsb < 0:
            raise ModelBug(f"field {self.name}: lsb must be 0 or more, not {self.lsb}")
        if self.width < 1:
            raise ModelBug(f"field {self.name}: width must be 1 or more, not {self.width}")
        if not 0 <= self.reset <= self.max:
            raise ModelBug(
                f"field {self.name}: reset must fit {self.width} bits (0..{self.max:#x}), not {self.reset:#x}"
            )
        if self.access is Access.STROBE and self.reset:
            raise ModelBug(f"field {self.name}: reset of a strobe must be 0, not {self.reset:#x}")
        for number in self.values or ():
            if not 0 <= number <= self.max:
                raise ModelBug(
                    f"field {self.name}: named values must fit {self.width} bits (0..{self.max:#x}), not {number:#x}"
                )
        names = list((self.values or {}).values())
        for name in names:
            if names.count(name) > 1:
                raise ModelBug(f"field {self.name}: names of values must be unique, not {name} twice")

    @cached_property
    def max(self) -> int:
        """The largest number that the field can hold."""
        return (1 << self.width) - 1

    @cached_property
    def mask(self) -> int:
        """The mask of the field's bits in the register."""
        return self.max << self.lsb

    @property
    def bits(self) -> str:
        """The bit range in the notation of specifications: ``63-32`` or ``0``."""
        return str(self.lsb) if self.width == 1 else f"{self.lsb + self.width - 1}-{self.lsb}"

    def get(self, value: int) -> int:
        """Return the field's number in the register value `value`."""
        return value >> self.lsb & self.max

    def explain(self, number: int) -> str:
        """Return the field and its number as text, such as ``MODE=1 (PER_HART)``.

        Numbers of two digits and more are in hexadecimal.
        """
        name = (self.values or {}).get(number)
        return f"{self.name}={_short(number)}" + (f" ({name})" if name else "")


@dataclass(frozen=True)
class Register(RichDisplay):
    """A register, or an array of `count` equal registers named NAME0, NAME1, ...

    `offset` and `stride` are in the map's address unit; with `stride` 0, elements follow each other without gaps.
    If `side` is "r" or "w", the register exists only for reads, or only for writes. Thus two registers can have
    the same offset. `width` is in bits."""

    name: str
    offset: int
    fields: tuple[Field, ...]
    width: int = 64
    doc: str = ""
    count: int = 1
    stride: int = 0
    side: str = "rw"

    def __repr__(self) -> str:
        names = ", ".join(part.name for part in self.fields if part.access is not Access.RSVD)
        several = f"[{self.count}]" if self.count > 1 else ""
        return f"<register {self.name}{several} at {self.offset:#x}, {self.width} bits: {names or 'reserved'}>"

    def _rows(self) -> Rows:
        yield "bits", "field", "access", "reset", "meaning"
        for part in reversed(self.fields):
            values = ", ".join(f"{value} {name}" for value, name in (part.values or {}).items())
            meaning = "; ".join(filter(None, (part.doc, values)))
            yield part.bits, part.name, part.access.value, _short(part.reset), meaning

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ModelBug(f"a register's name must be an identifier, not {self.name!r}")
        here = f"register {self.name}"
        if self.offset < 0:
            raise ModelBug(f"{here}: offset must be 0 or more, not {self.offset}")
        if self.width < 8 or self.width % 8:
            raise ModelBug(f"{here}: width must be a positive multiple of 8 bits, not {self.width}")
        if self.count < 1:
            raise ModelBug(f"{here}: count must be 1 or more, not {self.count}")
        if self.stride < 0:
            raise ModelBug(f"{here}: stride must be 0 or more, not {self.stride}")
        if self.side not in SIDES:
            raise ModelBug(f'{here}: side must be one of "r", "w", "rw", not {self.side!r}')
        self._check_fields(here)

    def _check_fields(self, here: str) -> None:
        names: set[str] = set()
        for part in self.fields:
            if part.name in names:
                raise ModelBug(f"{here}: names of fields must be unique, not {part.name} twice")
            names.add(part.name)
            if part.lsb + part.width > self.width:
                raise ModelBug(f"{here}: field {part.name} must lie within bits {self.width - 1}-0, not at {part.bits}")
            if (self.side == "r" and part.access in _NEEDS_WRITE) or (self.side == "w" and part.access is Access.RO):
                raise ModelBug(
                    f"{here}: access of field {part.name} must be possible on side {self.side}, not {part.access.value}"
                )
        for low, high in pairwise(sorted(self.fields, key=lambda part: part.lsb)):
            if low.mask & high.mask:
                found = f"fields {low.name} at {low.bits} and {high.name} at {high.bits}"
                raise ModelBug(f"{here}: {found} overlap, expected disjoint fields")

    @cached_property
    def max(self) -> int:
        """The largest value of the register."""
        return (1 << self.width) - 1

    @property
    def reset_value(self) -> int:
        """The value after reset."""
        return sum(part.reset << part.lsb for part in self.fields)

    @cached_property
    def reserved_mask(self) -> int:
        """The bits that are undeclared or declared reserved."""
        used = sum(part.mask for part in self.fields if part.access is not Access.RSVD)
        return self.max & ~used

    def access(self, name: str) -> Access:
        """Return the access kind of the field `name`; an RW field is RO in a register that exists only for reads."""
        own = self._field(name).access
        if own is Access.RW:
            return {"r": Access.RO, "w": Access.WO, "rw": Access.RW}[self.side]
        return own

    def decode(self, value: int) -> dict[str, int]:
        """Return the number in every declared field, including reserved fields, in declaration order."""
        self._check(value)
        return {part.name: part.get(value) for part in self.fields}

    def encode(self, /, **fields: int | str) -> int:
        """Return the register value with these numbers in its fields; a number can also be given by its name.

        Omitted fields have their reset value. Raise a `WireError` that names the field if it does not exist, or if its
        number does not fit.
        """
        value = self.reset_value
        for name, given in fields.items():
            part = self._field(name)
            value = value & ~part.mask | self._number(part, given) << part.lsb
        return value

    def get(self, value: int, name: str) -> int:
        """Return the number of one field in the register value `value`."""
        self._check(value)
        return self._field(name).get(value)

    def reserved_bits(self, value: int) -> int:
        """Return the bits of `value` that are set although they are reserved or undeclared.

        The device chooses its reaction to them.
        """
        self._check(value)
        return value & self.reserved_mask

    def after_write(self, stored: int, written: int) -> int:
        """Return the value that a register with the value `stored` has after the host has written `written`.

        It follows from the access kind of each field; reserved and undeclared bits are unchanged.
        """
        self._check(written)
        taken, cleared, strobes = self._masks
        return stored & ~(taken | strobes | written & cleared) | written & taken

    def as_read(self, stored: int) -> int:
        """Return the value that the host reads from a register that holds `stored`.

        Write-only and strobe fields read as 0.
        """
        return stored & self.readable_mask

    @cached_property
    def readable_mask(self) -> int:
        """The bits that the host can read."""
        return ~self._bits(Access.WO, Access.STROBE)

    @cached_property
    def writable_mask(self) -> int:
        """The bits that take the written value when the host writes the register."""
        return self._bits(Access.RW, Access.WO)

    @cached_property
    def _masks(self) -> tuple[int, int, int]:
        return self.writable_mask, self._bits(Access.W1C), self._bits(Access.STROBE)

    def _bits(self, *kinds: Access) -> int:
        return sum(part.mask for part in self.fields if self.access(part.name) in kinds)

    def explain(self, value: int, index: int | None = None) -> str:
        """Return a value as one line of text, such as ``MODE0 = 0x3: ACTIVE=1 MODE=1 (PER_HART)``.

        Reserved fields and bits are shown only if they are set.
        """
        self._check(value)
        parts = [
            part.explain(part.get(value)) for part in self.fields if part.access is not Access.RSVD or part.get(value)
        ]
        undeclared = value & self.max & ~sum(part.mask for part in self.fields)
        if undeclared:
            parts.append(f"undeclared bits {undeclared:#x}")
        return f"{self.element(index)} = {value:#x}" + (": " + " ".join(parts) if parts else "")

    def element(self, index: int | None) -> str:
        """Return the name of the array element `index`; for None or a single register, return the register's name."""
        return self.name if index is None or self.count == 1 else f"{self.name}{index}"

    def size(self, unit_bytes: int) -> int:
        """Return the number of address units that one element occupies."""
        return max(1, -(-self.width // (8 * unit_bytes)))

    def offset_of(self, index: int, unit_bytes: int) -> int:
        """Return the offset of element `index`, in address units."""
        return self.offset + index * (self.stride or self.size(unit_bytes))

    def _check(self, value: int) -> None:
        if not 0 <= value <= self.max:
            raise WireError(f"value {value:#x} does not fit the {self.width} bits of register {self.name}")

    def _field(self, name: str) -> Field:
        for part in self.fields:
            if part.name == name:
                return part
        known = " ".join(part.name for part in self.fields) or "none"
        raise WireError(f"register {self.name} has no field {name} (it has: {known})")

    def _number(self, part: Field, given: int | str) -> int:
        if isinstance(given, str):
            for number, name in (part.values or {}).items():
                if name == given:
                    return number
            known = " ".join((part.values or {}).values()) or "none"
            raise WireError(f"field {part.name} of register {self.name} has no value named {given} (it has: {known})")
        if not 0 <= given <= part.max:
            raise WireError(
                f"field {part.name} of register {self.name} holds {part.width} bits (0..{part.max:#x}), not {given:#x}"
            )
        return given


@dataclass(frozen=True)
class RegisterMap(RichDisplay):
    """The registers of a device by offset.

    Offsets count address units of `unit_bytes` bytes; `reserved` are ranges of offsets.
    """

    name: str
    registers: tuple[Register, ...]
    doc: str = ""
    reserved: tuple[range, ...] = ()
    unit_bytes: int = 1
    _starts: dict[tuple[str, int], tuple[Register, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )
    _names: dict[str, tuple[Register, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def __repr__(self) -> str:
        return f"<registers {self.name}: {some(each.name for each in self.registers)}>"

    def _rows(self) -> Rows:
        yield "offset", "register", "access", "bits", "meaning"
        for each in self.registers:
            several = f"[{each.count}]" if each.count > 1 else ""
            yield f"{each.offset:#x}", each.name + several, each.side, each.width, each.doc

    def __post_init__(self) -> None:
        if self.unit_bytes < 1:
            raise ModelBug(f"map {self.name}: unit_bytes must be 1 or more, not {self.unit_bytes}")
        for span in self.reserved:
            if span.step != 1 or not span or span.start < 0:
                raise ModelBug(f"map {self.name}: a reserved range must hold offsets in steps of 1, not {span!r}")
        for register in self.registers:
            self._enter(register)
        self._check_overlaps()

    def _enter(self, register: Register) -> None:
        size = register.size(self.unit_bytes)
        if 0 < register.stride < size:
            raise ModelBug(
                f"map {self.name}: stride of array {register.name} must be {size} or more, not {register.stride}"
            )
        if register.count > 1:
            self._enter_name(register.name, register, 0)
        for index in range(register.count):
            self._enter_name(register.element(index), register, index)
            for side in register.side:
                self._starts.setdefault((side, register.offset_of(index, self.unit_bytes)), (register, index))

    def _enter_name(self, name: str, register: Register, index: int) -> None:
        if name in self._names:
            raise ModelBug(f"map {self.name}: names of registers must be unique, not {name} twice")
        self._names[name] = register, index

    def _check_overlaps(self) -> None:
        for side in "rw":
            spans = [(span.start, span.stop, "a reserved range") for span in self.reserved]
            for register, index, offset in self.elements():
                if side in register.side:
                    spans.append((offset, offset + register.size(self.unit_bytes), register.element(index)))
            for (start, end, name), (next_start, next_end, next_name) in pairwise(sorted(spans)):
                if next_start < end:
                    raise ModelBug(
                        f"map {self.name}: {name} at {start:#x}..{end:#x} and {next_name} at "
                        f"{next_start:#x}..{next_end:#x} overlap, expected disjoint registers and reserved ranges"
                    )

    def __iter__(self) -> Iterator[Register]:
        return iter(self.registers)

    def elements(self) -> Iterator[tuple[Register, int, int]]:
        """Yield (register, index, offset) for every register and array element, in declaration order."""
        for register in self.registers:
            for index in range(register.count):
                yield register, index, register.offset_of(index, self.unit_bytes)

    def find(self, offset: int, side: str) -> tuple[Register, int]:
        """Return the register that starts at `offset` for reading ("r") or writing ("w"), and its array index.

        Raise a `WireError` if no such register starts there. Its message describes the offset: for example a reserved
        range, the middle of a register, or a register for the other direction only."""
        found = self._starts.get((side, offset))
        if found is None:
            raise WireError(self._why_not(offset, side)).at("offset", offset, f"of {self.name}")
        return found

    def by_name(self, name: str) -> Register:
        """Return the register called `name`, or the array that has an element of that name.

        Raise `WireError` for an unknown name.
        """
        return self._named(name)[0]

    def offset_of(self, name: str) -> int:
        """Return the offset of the register or array element called `name`; raise `WireError` for an unknown name."""
        register, index = self._named(name)
        return register.offset_of(index, self.unit_bytes)

    def _named(self, name: str) -> tuple[Register, int]:
        found = self._names.get(name)
        if found is None:
            raise WireError(f"map {self.name} has no register {name}")
        return found

    def _why_not(self, offset: int, side: str) -> str:
        verb = {"r": "read", "w": "write"}[side]
        for span in self.reserved:
            if offset in span:
                return f"{verb} in the reserved range {span.start:#x}..{span.stop - 1:#x} of {self.name}"
        for register, index, start in self.elements():
            if start == offset:
                only = "write-only" if side == "r" else "read-only"
                return f"{verb} of {register.element(index)}, which is {only}"
            if start < offset < start + register.size(self.unit_bytes) and side in register.side:
                return f"{verb} inside {register.element(index)}, which starts at {start:#x}"
        return f"{verb} where {self.name} has no register"


def _short(number: int) -> str:
    return str(number) if number < 10 else f"{number:#x}"


OnRead = Callable[[int], int]
"""The type of a hook that gets a register's value and returns the value that the host reads."""
OnWrite = Callable[[int, int], Any]
"""The type of a hook that gets the written and the previous register value; the write returns the hook's result."""


class RegisterFile:
    """The values of all registers of a map; `file[name]` accesses them by the name of a register or element.

    A read by the host returns `Register.as_read` of the value, and a write stores `Register.after_write`. `reads`
    and `writes` map an offset to the element's name and the function that performs the access. Hooks, by the name
    of a register or element, implement behaviour that access kinds cannot express. `store` holds the values in
    declaration order; it is a new list by default. There are no locks. The caller of a write ensures that the
    number fits the register."""

    def __init__(
        self,
        registers: RegisterMap,
        on_read: Mapping[str, OnRead],
        on_write: Mapping[str, OnWrite],
        store: Array[Any] | None = None,
    ) -> None:
        elements = list(registers.elements())
        self.values: list[int] | Array[Any] = [0] * len(elements) if store is None else store
        self._resets = [register.reset_value for register, _, _ in elements]
        self._numbers = {register.element(index): number for number, (register, index, _) in enumerate(elements)}
        self._counts = {register.name: register.count for register in registers}
        self.reads: dict[int, tuple[str, Callable[[], int]]] = {}
        self.writes: dict[int, tuple[str, Callable[[int], Any]]] = {}
        for number, (register, index, offset) in enumerate(elements):
            name = register.element(index)
            if "r" in register.side:
                hook = on_read.get(name) or on_read.get(register.name)
                self.reads[offset] = name, self._reader(number, register, hook)
            if "w" in register.side:
                act = on_write.get(name) or on_write.get(register.name)
                self.writes[offset] = name, self._writer(number, register, act)
        self.reset()

    def __getitem__(self, name: str) -> int:
        """Return the value of the register or array element called `name`."""
        return self.values[self._numbers[name]]

    def __setitem__(self, name: str, value: int) -> None:
        """Set the value of the register or array element called `name` without calling hooks."""
        self.values[self._numbers[name]] = value

    def number(self, name: str) -> int:
        """Return the index in `store` of the register or array element called `name`."""
        return self._numbers[name]

    def reset(self) -> None:
        """Set every register to its reset value."""
        self.restore(dict(zip(self._numbers, self._resets, strict=True)))

    def snapshot(self) -> dict[str, int]:
        """Return the value of every element by name, for `restore`."""
        return {name: self.values[number] for name, number in self._numbers.items()}

    def restore(self, values: Mapping[str, int]) -> None:
        """Set registers and array elements to `values`, which maps their names to values, without calling hooks."""
        for name, value in values.items():
            self[name] = value

    def array(self, name: str) -> tuple[int, ...]:
        """Return the values of the elements of the array called `name`."""
        first = self._numbers[f"{name}0"]
        return tuple(self.values[first : first + self._counts[name]])

    def _reader(self, number: int, register: Register, hook: OnRead | None) -> Callable[[], int]:
        values, shown = self.values, register.readable_mask
        if hook is not None:
            return lambda: hook(values[number] & shown)
        if shown == -1:
            return partial(values.__getitem__, number)
        return lambda: values[number] & shown

    def _writer(self, number: int, register: Register, hook: OnWrite | None) -> Callable[[int], Any]:
        values, is_plain = self.values, register.writable_mask == register.max

        def write(written: int) -> Any:
            before = values[number]
            values[number] = written if is_plain else register.after_write(before, written)
            return None if hook is None else hook(written, before)

        return write
