"""The table of OpenCL's entry points, the C functions that are generated from it, and the decoding of their calls.

``entry_points.toml`` describes the table. Each C function encodes its arguments as 64-bit words and padded bytes, sends
them to the server and returns what the reply contains. `Reader` decodes the same words for the Python function.
"""

from __future__ import annotations

import struct
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from softcard.device.kfd.node import PRODUCTS
from softcard.host.opencl import constants as cl
from softcard.host.opencl.device_info import DEFAULT_AGENTS, device_info, platform_info
from softcard.host.opencl.images import IS_DEPTH

if TYPE_CHECKING:
    from softcard.host.opencl.objects import Object

BY_HAND: Final = "platform.c"
ABSENT: Final = "absent"
SAME: Final = "same as "
NULL: Final = (1 << 64) - 1
"""The word in place of a count for a list that is NULL."""
WORD: Final = struct.Struct("<Q")

HANDLES: Final = ("platform", "device", "context", "queue", "mem", "sampler", "program", "kernel", "event")
"""The kinds of objects, in the order of the numbers that platform.c gives them, from 1 on."""
LISTS: Final = {"devices": "device", "mems": "mem", "programs": "program", "events": "event"}
IN_LISTS: Final = {"event": cl.INVALID_EVENT_WAIT_LIST}
"""The status for an invalid handle in a list, if it differs from the one for a single handle."""
INVALID: Final = {
    "platform": cl.INVALID_PLATFORM,
    "device": cl.INVALID_DEVICE,
    "context": cl.INVALID_CONTEXT,
    "queue": cl.INVALID_COMMAND_QUEUE,
    "mem": cl.INVALID_MEM_OBJECT,
    "sampler": cl.INVALID_SAMPLER,
    "program": cl.INVALID_PROGRAM,
    "kernel": cl.INVALID_KERNEL,
    "event": cl.INVALID_EVENT,
}
"""The status for an invalid handle of each kind."""
COUNTS: Final = {
    "context": cl.CONTEXT_REFERENCE_COUNT,
    "queue": cl.QUEUE_REFERENCE_COUNT,
    "mem": cl.MEM_REFERENCE_COUNT,
    "sampler": cl.SAMPLER_REFERENCE_COUNT,
    "program": cl.PROGRAM_REFERENCE_COUNT,
    "kernel": cl.KERNEL_REFERENCE_COUNT,
    "event": cl.EVENT_REFERENCE_COUNT,
}
"""The query for the reference count of each kind; platform.c answers it."""
COLOR_BYTES: Final = 16
FORMAT_BYTES: Final = 8
DESC_BYTES: Final = 72
REGION_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry point: its number, which requests contain, its C name, its parameters by name, and its result.

    `result` is the kind of the handle that the function returns, "pointer", or "" for a status. The C function of an
    entry that `is_by_hand` is in platform.c.
    """

    number: int
    name: str
    parameters: Mapping[str, str]
    result: str = ""
    is_by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The dispatch table: the C function of each slot by the slot's name, and the entries with generated functions."""

    slots: Mapping[str, str]
    entries: Mapping[str, Entry]


@cache
def table() -> Table:
    """Return the table of ``entry_points.toml``."""
    text = files("softcard").joinpath("attach", "opencl", "entry_points.toml").read_text("utf-8")
    slots, entries = {}, {}
    for number, (name, value) in enumerate(tomllib.loads(text).items()):
        if value == ABSENT:
            slots[name] = ""
            continue
        if value.startswith(SAME):
            slots[name] = value.removeprefix(SAME)
            continue
        slots[name] = name
        is_by_hand = value.startswith(BY_HAND)
        parameters, _, result = value.removeprefix(BY_HAND).removeprefix(": ").partition(" -> ")
        pairs = (each.split(":") for each in parameters.split(", ") if each)
        entries[name] = Entry(number, name, dict(pairs), result, is_by_hand)
    return Table(slots, entries)


# ---- C ---------------------------------------------------------------------------------------------------------------

_SCALARS: Final = {
    "i32": "int32_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "size": "size_t",
    "pointer": "const void *",
}


def _parameter(name: str, kind: str) -> tuple[str, str]:
    """Return the C parameters of one parameter of the table, and the C statement that encodes them."""
    plain = kind.removesuffix("?")
    if plain in HANDLES:
        return f"void *{name}", f"put_object(&m, {name}, {plain.upper()}, {int(kind.endswith('?'))});"
    if kind in LISTS:
        return f"uint32_t n_{name}, void *const *{name}", f"put_objects(&m, {LISTS[kind].upper()}, n_{name}, {name});"
    if kind == "pointer":
        return f"const void *{name}", f"put_word(&m, (uintptr_t){name});"
    if kind in _SCALARS:
        return f"{_SCALARS[kind]} {name}", f"put_word(&m, (uint64_t){name});"
    return {
        "sizes": (f"const size_t *{name}", f"put_words(&m, {name}, 3);"),
        "dims": (f"const size_t *{name}", f"put_words(&m, {name}, work_dim <= 3 ? work_dim : 3);"),
        "text": (f"const char *{name}", f"put_text(&m, {name});"),
        "texts": (f"const char *const *{name}", f"put_texts(&m, n_headers, {name});"),
        "properties": (f"const uint64_t *{name}", f"put_properties(&m, {name});"),
        "pattern": (f"const void *{name}, size_t n_{name}", f"put_bytes(&m, {name}, n_{name});"),
        "bytes": (f"size_t n_{name}, const void *{name}", f"put_bytes(&m, {name}, n_{name});"),
        "pointers": (f"uint32_t n_{name}, const size_t *{name}", f"put_words(&m, {name}, n_{name});"),
        "sizes_of": (f"const size_t *{name}", f"put_words(&m, {name}, n_pointers);"),
        "color": (f"const void *{name}", f"put_color(&m, image, {name}, {COLOR_BYTES});"),
        "format": (f"const void *{name}", f"put_bytes(&m, {name}, {FORMAT_BYTES});"),
        "desc": (f"const void *{name}", f"put_description(&m, {name}, {DESC_BYTES});"),
        "region": (f"const void *{name}", f"put_bytes(&m, {name}, {REGION_BYTES});"),
        "callback": (f"void *{name}, void *user_data", f"put_callback(&m, (uintptr_t){name}, (uintptr_t)user_data);"),
        "build_callback": (
            f"void *{name}, void *user_data",
            f"put_build_callback(&m, (uintptr_t){name}, (uintptr_t)user_data);",
        ),
        "new_event": (f"void **{name}", f"put_event(&m, queue, {name});"),
        "info": ("size_t size, void *value, size_t *size_ret", ""),
        "fixed_info": ("size_t size, void *value, size_t *size_ret", ""),
        "out_u64": (f"uint64_t *{name}", ""),
        "out_size": (f"size_t *{name}", f"put_word(&m, {name} != NULL);"),
        "out_sizes": (f"size_t *{name}", f"put_word(&m, {name} != NULL);"),
        "out_list_8": (f"uint32_t n_{name}, void *{name}, uint32_t *count", f"put_word(&m, {name} ? n_{name} : 0);"),
    }[kind]


def _result(entry: Entry) -> tuple[str, str, str]:
    """Return the C result type of an entry, its last parameter, and the expression that sends the call."""
    kinds = entry.parameters
    first = next(iter(kinds), "")
    if entry.result in HANDLES:
        return "void *", ", int32_t *errcode_ret", f"finish_new(&m, {entry.result.upper()}, errcode_ret)"
    outs = [name for name, kind in kinds.items() if kind == "out_size"]
    if entry.result == "pointer":
        targets = f", {', '.join(outs)}" if outs else ", NULL, NULL"
        return "void *", ", int32_t *errcode_ret", f"finish_pointer(&m{targets}, errcode_ret)"
    kind = next((each for each in kinds.values() if each in ("info", "fixed_info")), "")
    if kind:
        return "int32_t", "", f"finish_info(&m, {first}, name, {int(kind == 'fixed_info')}, size, value, size_ret)"
    for name, each in kinds.items():
        if each == "out_list_8":
            return "int32_t", "", f"finish_list(&m, n_{name}, {name}, count, 8)"
        if each == "out_u64":
            return "int32_t", "", f"finish_words(&m, {name}, 1)"
        if each == "out_sizes":
            return "int32_t", "", f"finish_words(&m, {name}, work_dim <= 3 ? work_dim : 3)"
    return "int32_t", "", "finish(&m)"


def c_functions() -> str:
    """Return the C code of the generated functions."""
    lines = ["/* Generated from entry_points.toml. */"]
    for entry in table().entries.values():
        if entry.is_by_hand:
            continue
        parts = [_parameter(name, kind) for name, kind in entry.parameters.items()]
        kind, last, send = _result(entry)
        lines += [
            f"static {kind} {entry.name}({', '.join(each for each, _ in parts) or 'void'}{last}) {{",
            f"    struct message m = {{.op = OP_{entry.name}}};",
            *(f"    {statement}" for _, statement in parts if statement),
            f"    return {send};",
            "}",
        ]
    return "\n".join(lines) + "\n"


def c_dispatch() -> str:
    """Return the C code of the dispatch table, and of the table of functions by name."""
    slots = table().slots
    lines = ["/* Generated from entry_points.toml. */", "static void *const dispatch_table[DISPATCH_SLOTS] = {"]
    for slot, name in slots.items():
        absent = "absent_object" if slot.startswith("clCreate") else "absent_function"
        lines.append(f"    (void *){name or absent},")
    lines += ["};", "static const struct {const char *name; void *function;} function_names[] = {"]
    lines += [f'    {{"{slot}", (void *){name}}},' for slot, name in slots.items() if name]
    lines += ['    {"clIcdGetPlatformIDsKHR", (void *)clIcdGetPlatformIDsKHR},', "};"]
    return "\n".join(lines) + "\n"


def c_constants() -> str:
    """Return the C code of the numbers that platform.c shares with the table, and of the fixed values of queries."""
    known = table()
    lines = ["/* Generated by entry_points.py. */", f"#define DISPATCH_SLOTS {len(known.slots)}"]
    lines += [f"#define OP_{entry.name} {entry.number}" for entry in known.entries.values()]
    lines += [f'#define DEFAULT_AGENTS "{",".join(DEFAULT_AGENTS)}"', "enum object_kind {"]
    lines += [f"    {name.upper()} = {number}," for number, name in enumerate(HANDLES, 1)]
    lines += ["};", "static const int32_t invalid_status[] = {0, " + ", ".join(map(str, INVALID.values())) + "};"]
    lists = (IN_LISTS.get(kind, status) for kind, status in INVALID.items())
    lines.append("static const int32_t invalid_list_status[] = {0, " + ", ".join(map(str, lists)) + "};")
    counts = ", ".join(str(COUNTS.get(kind, 0)) for kind in HANDLES)
    lines.append("static const uint32_t reference_count_query[] = {0, " + counts + "};")
    lines.append(f"#define IS_DEPTH_IMAGE {IS_DEPTH:#x}")
    lines.append("struct fixed_value {uint32_t name, size; const char *bytes;};")
    lines.append("static const struct fixed_value platform_values[] = {")
    lines += _values(platform_info())
    lines.append("};")
    for number, agent in enumerate(PRODUCTS):
        lines.append(f"static const struct fixed_value device_values_{number}[] = {{")
        lines += _values(device_info(agent))
        lines.append("};")
    lines.append("static const struct {const char *name; size_t count; const struct fixed_value *values;} agents[] = {")
    for number, agent in enumerate(PRODUCTS):
        count = f"sizeof device_values_{number} / sizeof *device_values_{number}"
        lines.append(f'    {{"{agent}", {count}, device_values_{number}}},')
    lines.append("};")
    return "\n".join(lines) + "\n"


def _values(found: Mapping[int, bytes]) -> list[str]:
    """Return C initialisers of the values of queries."""
    return [
        f'    {{{name}, {len(data)}, "{"".join(f"{chr(92)}{byte:03o}" for byte in data)}"}},'
        for name, data in found.items()
    ]


# ---- decoding --------------------------------------------------------------------------------------------------------


class Reader:
    """The words and bytes of one call, which are read in order. `find` returns the object with a handle.

    `find` raises `OpenClError` if no object of this kind has the handle.
    """

    __slots__ = ("at", "data", "find")

    def __init__(self, data: bytes, find: Callable[[int, str], Object]) -> None:
        self.data = data
        self.find = find
        self.at = 0

    def word(self) -> int:
        """Return the next word."""
        found: int = WORD.unpack_from(self.data, self.at)[0]
        self.at += 8
        return found

    def words(self, count: int) -> tuple[int, ...]:
        """Return the next `count` words."""
        found = struct.unpack_from(f"<{count}Q", self.data, self.at)
        self.at += 8 * count
        return found

    def array(self) -> tuple[int, ...] | None:
        """Return the next words, whose number comes first; None for NULL."""
        count = self.word()
        return None if count == NULL else self.words(count)

    def blob(self) -> bytes | None:
        """Return the next bytes, whose number comes first; None for NULL."""
        count = self.word()
        if count == NULL:
            return None
        found = self.data[self.at : self.at + count]
        self.at += count + -count % 8
        return found

    def blobs(self) -> list[bytes] | None:
        """Return the next byte strings, whose number comes first; None for NULL."""
        count = self.word()
        return None if count == NULL else [self.blob() or b"" for _ in range(count)]

    def objects(self, kind: str) -> list[Object] | None:
        """Return the objects of a list of handles; None for NULL."""
        found = self.array()
        return None if found is None else [self.find(each, kind) for each in found]

    def value(self, kind: str) -> object:
        """Return the next argument, of a kind of the table."""
        plain = kind.removesuffix("?")
        if plain in HANDLES:
            handle = self.word()
            return None if not handle and kind.endswith("?") else self.find(handle, plain)
        if kind in LISTS:
            return self.objects(LISTS[kind])
        if kind == "i32":
            word = self.word() & 0xFFFFFFFF
            return word - (word >> 31 << 32)
        if kind in ("u32", "u64", "size", "pointer", "out_size", "out_sizes", "out_list_8"):
            return self.word()
        if kind in ("sizes", "dims", "properties", "pointers", "sizes_of"):
            return self.array()
        if kind in ("callback", "build_callback", "new_event"):
            return self.words(2)
        return self.blobs() if kind == "texts" else self.blob()


WITHOUT_VALUE: Final = ("info", "fixed_info", "out_u64")
"""The kinds of parameters that the C function does not send."""


def decoded(entry: Entry, reader: Reader) -> dict[str, object]:
    """Return the arguments of a call by the names of the entry's parameters."""
    return {name: reader.value(kind) for name, kind in entry.parameters.items() if kind not in WITHOUT_VALUE}
