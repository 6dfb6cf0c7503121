"""Kernel metadata of all code object versions in one common form.

V2 (YAML) and V3 to V6 (MessagePack) have different names for equal facts; here the names of V3 are used. V2 lacks the
offset of an argument, which follows from the layout of the kernarg segment: arguments in order, each at the next
multiple of its alignment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from softcard.core.errors import WireError
from softcard.core.words import align_up
from softcard.image.hsa.msgpack import Elements

MAX_ARGUMENTS: Final = 4096


@dataclass(frozen=True, slots=True)
class Argument:
    """A kernel argument of `size` bytes at `offset` of the kernarg segment.

    `kind` is the metadata's ".value_kind" in snake case. `is_const`, `is_restrict` and `is_volatile` are the qualifiers
    of a pointer's type in the source, if the metadata has them.
    """

    name: str
    offset: int
    size: int
    kind: str
    type_name: str = ""
    address_space: str = ""
    access: str = ""
    pointee_align: int = 0
    is_const: bool = False
    is_restrict: bool = False
    is_volatile: bool = False

    @property
    def is_hidden(self) -> bool:
        """True if the run-time, not the caller, sets the value of the argument."""
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class KernelMetadata:
    """The metadata of a kernel; missing facts are 0 or "". Launches depend on the kernel's header instead."""

    name: str
    symbol: str
    arguments: tuple[Argument, ...]
    kernarg_size: int = 0
    kernarg_align: int = 0
    group_size: int = 0
    private_size: int = 0
    sgprs: int = 0
    vgprs: int = 0
    wavefront_size: int = 0
    max_workgroup_size: int = 0
    required_workgroup_size: tuple[int, ...] = ()
    workgroup_size_hint: tuple[int, ...] = ()
    vector_type_hint: str = ""
    language: str = ""

    @cached_property
    def explicit(self) -> tuple[Argument, ...]:
        """The arguments that a caller passes, in order."""
        return tuple(each for each in self.arguments if not each.is_hidden)

    @cached_property
    def hidden(self) -> tuple[Argument, ...]:
        """The arguments whose values the run-time sets, in order."""
        return tuple(each for each in self.arguments if each.is_hidden)

    @cached_property
    def hidden_kinds(self) -> frozenset[str]:
        """The value kinds of hidden arguments."""
        return frozenset(each.kind for each in self.hidden)

    @cached_property
    def end(self) -> int:
        """The offset of the end of the last argument in the kernarg segment."""
        return max((each.offset + each.size for each in self.arguments), default=0)


# The later names of those V2 names for which they are not simply snake case.
_V2_NAMES: Final = {
    "AddrSpaceQual": ".address_space", "AccQual": ".access", "ActualAccQual": ".actual_access",
    "KernargSegmentSize": ".kernarg_segment_size", "GroupSegmentFixedSize": ".group_segment_fixed_size",
    "PrivateSegmentFixedSize": ".private_segment_fixed_size", "KernargSegmentAlign": ".kernarg_segment_align",
    "NumSGPRs": ".sgpr_count", "NumVGPRs": ".vgpr_count", "MaxFlatWorkGroupSize": ".max_flat_workgroup_size",
    "ReqdWorkGroupSize": ".reqd_workgroup_size", "SymbolName": ".symbol", "ValueKind": ".value_kind",
    "WorkGroupSizeHint": ".workgroup_size_hint",
}  # fmt: skip


def from_msgpack(document: dict[str, Any]) -> tuple[list[KernelMetadata], list[str]]:
    """Return the kernels' metadata in V3 to V6 metadata, and messages about malformed kernels that are left out."""
    return _all(document.get("amdhsa.kernels", []), lambda kernel: kernel)


def from_yaml(document: dict[str, Any]) -> tuple[list[KernelMetadata], list[str]]:
    """Return the kernels' metadata in V2 metadata, and messages about malformed kernels that are left out."""
    return _all(document.get("Kernels", []), _later_names)


def _all(kernels: Any, rename: Any) -> tuple[list[KernelMetadata], list[str]]:
    found, warnings = [], []
    if kernels is None:
        kernels = []
    if not isinstance(kernels, list | Elements):
        return [], ["metadata: the kernels must be a list"]
    for number, kernel in enumerate(kernels):
        try:
            found.append(_kernel(rename(_map(kernel))))
        except WireError as error:
            warnings.append(f"metadata of kernel {number}: {error}")
    return found, warnings


_PLAIN: Final = re.compile(r"(?!(?:None|True|False|inf|nan)$)[A-Za-z_.$@][\w.$@]*", re.ASCII)
"""The pattern of names that are strings in YAML and MessagePack alike, and whose bytes need no escapes."""


class Described:
    """The metadata of an object's kernels, found by the kernel's symbol or name, and decoded on demand.

    `yaml` holds the V2 documents and `msgpack` those of V3 to V6."""

    _FEW: ClassVar[int] = 16
    """The number of kernels that are decoded one by one; a further access decodes all at once."""

    def __init__(self, yaml: Sequence[dict[str, Any]], msgpack: Sequence[dict[str, Any]]) -> None:
        self._yaml = yaml
        self._msgpack = msgpack
        self._visited = 0

    def get(self, name: str) -> KernelMetadata | None:
        """Return the metadata of the kernel with this symbol or name; None if the object has none for it."""
        self._visited += 1
        if self._yaml or self._visited > self._FEW or not _PLAIN.fullmatch(name):
            return self._all[0].get(name)
        near: list[Any] = []
        for document in self._msgpack:
            kernels = document.get("amdhsa.kernels")
            if not isinstance(kernels, Elements):
                return self._all[0].get(name)
            near += [kernels[number] for number in kernels.containing(name)]
        return _by_name(_all(near, lambda kernel: kernel)[0]).get(name)

    @property
    def problems(self) -> list[str]:
        """Messages about kernels that are left out because their metadata is malformed."""
        return self._all[1]

    @cached_property
    def _all(self) -> tuple[dict[str, KernelMetadata], list[str]]:
        documents = [*map(from_yaml, self._yaml), *map(from_msgpack, self._msgpack)]
        kernels = [kernel for found, _ in documents for kernel in found]
        return _by_name(kernels), [text for _, problems in documents for text in problems]


def _by_name(kernels: Iterable[KernelMetadata]) -> dict[str, KernelMetadata]:
    found: dict[str, KernelMetadata] = {}
    for kernel in kernels:
        found.setdefault(kernel.name, kernel)
        found[kernel.symbol] = kernel
    found.pop("", None)
    return found


def _later_names(kernel: dict[str, Any]) -> dict[str, Any]:
    """Return a V2 kernel's metadata with the key names and the nesting of V3."""
    flat = {_later(key): value for key, value in kernel.items() if key not in ("Args", "CodeProps", "Attrs")}
    for part in ("CodeProps", "Attrs"):
        flat |= {_later(key): value for key, value in _map(kernel.get(part) or {}).items()}
    arguments = kernel.get("Args") or []
    flat[".args"] = [{_later(key): value for key, value in _map(each).items()} for each in _list(arguments)]
    return flat


def _later(name: str) -> str:
    return _V2_NAMES.get(name) or "." + snake(str(name))


def snake(text: str) -> str:
    """Return a camel-case name in snake case: ``GlobalBuffer`` becomes ``global_buffer``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()


def _kernel(kernel: dict[str, Any]) -> KernelMetadata:
    raw = _list(kernel.get(".args") or [])
    if len(raw) > MAX_ARGUMENTS:
        raise WireError(f"the kernel has {len(raw)} arguments, expected at most {MAX_ARGUMENTS}")
    arguments: list[Argument] = []
    end = 0
    for each in raw:
        argument = _argument(_map(each), end)
        arguments.append(argument)
        end = argument.offset + argument.size
    return KernelMetadata(
        name=_string(kernel, ".name"),
        symbol=_string(kernel, ".symbol"),
        arguments=tuple(arguments),
        kernarg_size=_number(kernel, ".kernarg_segment_size"),
        kernarg_align=_number(kernel, ".kernarg_segment_align"),
        group_size=_number(kernel, ".group_segment_fixed_size"),
        private_size=_number(kernel, ".private_segment_fixed_size"),
        sgprs=_number(kernel, ".sgpr_count"),
        vgprs=_number(kernel, ".vgpr_count"),
        wavefront_size=_number(kernel, ".wavefront_size"),
        max_workgroup_size=_number(kernel, ".max_flat_workgroup_size"),
        required_workgroup_size=_sizes(kernel, ".reqd_workgroup_size"),
        workgroup_size_hint=_sizes(kernel, ".workgroup_size_hint"),
        vector_type_hint=_string(kernel, ".vec_type_hint"),
        language=_string(kernel, ".language"),
    )


def _sizes(kernel: dict[str, Any], name: str) -> tuple[int, ...]:
    return tuple(_number({"n": n}, "n") for n in _list(kernel.get(name) or []))


def _argument(each: dict[str, Any], end: int) -> Argument:
    size = _number(each, ".size")
    align = _number(each, ".align") or 1
    if align & align - 1:
        raise WireError(f"the alignment of an argument is {align}, expected a power of two")
    offset = _number(each, ".offset") if ".offset" in each else align_up(end, align)
    return Argument(
        name=_string(each, ".name"),
        offset=offset,
        size=size,
        kind=snake(_string(each, ".value_kind")).replace("multi_grid", "multigrid"),  # V2: HiddenMultiGridSyncArg
        type_name=_string(each, ".type_name"),
        address_space=_string(each, ".address_space").lower(),
        access=_string(each, ".access").lower(),
        pointee_align=_number(each, ".pointee_align"),
        is_const=each.get(".is_const") is True,
        is_restrict=each.get(".is_restrict") is True,
        is_volatile=each.get(".is_volatile") is True,
    )


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WireError(f"a value is {value!r:.40}, expected a map")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WireError(f"a value is {value!r:.40}, expected a list")
    return value


def _number(where: dict[str, Any], key: str) -> int:
    value = where.get(key, 0)
    if not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise WireError(f"{key} is {value!r:.40}, expected a number of 32 bits")
    return int(value)


def _string(where: dict[str, Any], key: str) -> str:
    value = where.get(key, "")
    return value if isinstance(value, str) else str(value)[:256]
