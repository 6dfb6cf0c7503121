"""A MessagePack reader for untrusted bytes, and a writer, with the types that notes of V3 to V6 objects use.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md. Extension types do not occur and are rejected.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

from softcard.core.errors import WireError

MAX_DEPTH: Final = 16
"""The deepest accepted nesting of values; real metadata nests four levels deep."""

_NUMBERS: Final = {
    0xCA: struct.Struct(">f"), 0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"), 0xCD: struct.Struct(">H"), 0xCE: struct.Struct(">I"), 0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"), 0xD1: struct.Struct(">h"), 0xD2: struct.Struct(">i"), 0xD3: struct.Struct(">q"),
}  # fmt: skip
_LENGTHS: Final = {  # kind and length of length
    0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4),
    0xD9: ("str", 1), 0xDA: ("str", 2), 0xDB: ("str", 4),
    0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip
_STRINGS: Final = frozenset(code for code, (kind, _) in _LENGTHS.items() if kind in ("str", "bin"))
_MAPS: Final = frozenset(bytes([code]) for code in (*range(0x80, 0x90), 0xDE, 0xDF))
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}


_SCALARS: Final = bytes(
    1 if code < 0x80 or code >= 0xE0 or code in _CONSTANTS
    else 1 + (code & 31) if 0xA0 <= code < 0xC0
    else 1 + _NUMBERS[code].size if code in _NUMBERS
    else 0
    for code in range(256)
)  # fmt: skip
"""The size in bytes of an encoded value, by its first byte; 0 if the first byte does not determine the size."""


def unpack(data: bytes, *, on_demand: bool = False) -> tuple[Any, int]:
    """Return the first value in `data` and its size in bytes.

    Raise `WireError` with the offset of the error if the value is malformed. With `on_demand`, lists of maps in
    the outermost map are checked, but returned as `Elements`, whose values are unpacked on access."""
    reader = _Reader(data, on_demand)
    return reader.value(0), reader.at


class Elements(Sequence[Any]):
    """A list whose values were checked once, and are unpacked on each access.

    `starts` holds the offsets in `data` of the values, and the end of the last value.
    """

    def __init__(self, data: bytes, starts: list[int]) -> None:
        self._data = data
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: Any) -> Any:
        at = range(len(self))[index]
        return unpack(self._data[self._starts[at] : self._starts[at + 1]])[0]

    def containing(self, text: str) -> Iterator[int]:
        """Yield in order the indices of the elements whose bytes contain `text` as UTF-8."""
        pattern, at, end = text.encode(), self._starts[0], self._starts[-1]
        while (hit := self._data.find(pattern, at, end)) >= 0:
            index = bisect_right(self._starts, hit) - 1
            at = self._starts[index + 1]
            yield index


def pack(value: Any) -> bytes:
    """Return the encoding of None, bool, int, float, str, bytes, list, tuple or dict in its shortest form."""
    if value is None or isinstance(value, bool):
        return bytes([{None: 0xC0, False: 0xC2, True: 0xC3}[value]])
    if isinstance(value, int):
        return _pack_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode()
        head = bytes([0xA0 | len(raw)]) if len(raw) < 32 else _head(len(raw), 0xD9, 0xDA, 0xDB)
        return head + raw
    if isinstance(value, bytes):
        return _head(len(value), 0xC4, 0xC5, 0xC6) + value
    if isinstance(value, list | tuple):
        head = bytes([0x90 | len(value)]) if len(value) < 16 else _head(len(value), None, 0xDC, 0xDD)
        return head + b"".join(map(pack, value))
    if isinstance(value, dict):
        head = bytes([0x80 | len(value)]) if len(value) < 16 else _head(len(value), None, 0xDE, 0xDF)
        return head + b"".join(pack(key) + pack(item) for key, item in value.items())
    raise WireError(f"MessagePack has no type for a {type(value).__name__}")


def _pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    codes = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    for code in codes:
        try:
            return bytes([code]) + _NUMBERS[code].pack(value)
        except struct.error:
            continue
    raise WireError(f"integer {value:#x} does not fit the 64 bits of a MessagePack integer")


def _head(length: int, short: int | None, middle: int, long: int) -> bytes:
    if short is not None and length < 1 << 8:
        return struct.pack(">BB", short, length)
    return struct.pack(">BH", middle, length) if length < 1 << 16 else struct.pack(">BI", long, length)


class _Reader:
    def __init__(self, data: bytes, on_demand: bool) -> None:
        self.data = data
        self.on_demand = on_demand
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise WireError(f"MessagePack ends {self.at + size - len(self.data)} bytes too early").at("byte", self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise WireError(f"MessagePack nests more than {MAX_DEPTH} deep").at("byte", self.at)
        code = self.take(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code < 0xC0:
            kind, length = (
                ("map", code & 15) if code < 0x90 else ("array", code & 15) if code < 0xA0 else ("str", code & 31)
            )
            return self.sized(kind, length, depth)
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            form = _NUMBERS[code]
            return form.unpack(self.take(form.size))[0]
        if code in _LENGTHS:
            kind, size = _LENGTHS[code]
            return self.sized(kind, int.from_bytes(self.take(size), "big"), depth)
        raise WireError(f"MessagePack code {code:#04x} is not supported in metadata").at("byte", self.at - 1)

    def sized(self, kind: str, length: int, depth: int) -> Any:
        if kind == "bin":
            return self.take(length)
        if kind == "str":
            return self.take(length).decode("utf-8", "backslashreplace")
        # Every element takes at least a byte, so a length beyond the data is refused before anything is allocated.
        if length * (2 if kind == "map" else 1) > len(self.data) - self.at:
            raise WireError(f"MessagePack {kind} of {length} elements exceeds the end of the data").at("byte", self.at)
        if kind == "array" and self.on_demand and depth == 1 and self.data[self.at : self.at + 1] in _MAPS:
            return Elements(self.data, [*(self.skip(depth + 1) for _ in range(length)), self.at])
        if kind == "array":
            return [self.value(depth + 1) for _ in range(length)]
        return {self.key(depth): self.value(depth + 1) for _ in range(length)}

    def skip(self, depth: int) -> int:
        """Skip one value, and return the offset of its first byte."""
        start = self.at
        try:
            end = _end(self.data, start, depth)
        except IndexError:
            end = 0
        if not 0 < end <= len(self.data):
            self.value(depth)  # raises the error, if there is one
            end = self.at
        self.at = end
        return start

    def key(self, depth: int) -> Any:
        start = self.at
        key = self.value(depth + 1)
        if isinstance(key, list | dict | Elements):
            raise WireError("a MessagePack map has a list or map as key").at("byte", start)
        return key


def _end(data: bytes, at: int, depth: int) -> int:
    """Return the end offset of the value at `at`; 0 if the value has an unusual type or nests too deep.

    After a result of 0, the caller decodes the value to find its end or its error. The offset may be past the
    end of the data."""
    code = data[at]
    if size := _SCALARS[code]:
        return at + size
    if code in _LENGTHS:
        kind, size = _LENGTHS[code]
        length = int.from_bytes(data[at + 1 : at + 1 + size], "big")
        at += 1 + size
    else:
        kind, length = "map" if code < 0x90 else "array", code & 15
        at += 1
    if kind in ("str", "bin"):
        return at + length
    if depth == MAX_DEPTH or (not 0x80 <= code < 0xA0 and code not in _LENGTHS):
        return 0
    is_map = kind == "map"
    for number in range(2 * length if is_map else length):
        if size := _SCALARS[data[at]]:
            at += size
        else:
            is_key = is_map and not number & 1
            if is_key and data[at] not in _STRINGS:
                return 0
            at = _end(data, at, depth + 1)
            if not at:
                return 0
    return at
