"""The text of what `report.hsa_code` found in a code object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from understudy.image.hsa.records import CodeProperties, DescriptorProperties, Rsrc1, Rsrc2

Document = dict[str, Any]

ROUND_MODES: Final = ("NEAR_EVEN", "PLUS_INFINITY", "MINUS_INFINITY", "ZERO")
DENORM_MODES: Final = ("FLUSH_SRC_DST", "FLUSH_DST", "FLUSH_SRC", "FLUSH_NONE")
OS_ABIS: Final = {0: "none", 64: "HSA", 65: "PAL", 66: "mesa3d"}
SEGMENT_TYPES: Final = {1: "LOAD", 2: "DYNAMIC", 4: "NOTE", 6: "PHDR", 0x6474E551: "GNU_STACK", 0x6474E552: "GNU_RELRO"}
LDS_GRANULE: Final = 512


def _power(value: int) -> str:
    return f"{1 << value if value < 64 else value} bytes"


MEANINGS: Final[dict[str, Callable[[int], str]]] = {
    "granulated_workitem_vgpr_count": lambda n: f"{4 * (n + 1)} VGPRs",
    "granulated_wavefront_sgpr_count": lambda n: f"{8 * (n + 1)} SGPRs",
    "float_mode_round_32": lambda n: ROUND_MODES[n],
    "float_mode_round_16_64": lambda n: ROUND_MODES[n],
    "float_mode_denorm_32": lambda n: DENORM_MODES[n],
    "float_mode_denorm_16_64": lambda n: DENORM_MODES[n],
    "enable_vgpr_workitem_id": lambda n: ("X", "X, Y", "X, Y, Z", "undefined")[n],
    "granulated_lds_size": lambda n: f"{n * LDS_GRANULE} bytes",
    "private_element_size": lambda n: f"{2 << n} bytes",
    "amd_machine_kind": lambda n: {0: "UNDEFINED", 1: "AMDGPU"}.get(n, "unknown"),
    "kernarg_segment_alignment": _power,
    "group_segment_alignment": _power,
    "private_segment_alignment": _power,
    "wavefront_size": lambda n: f"{1 << n if n < 16 else n} work-items",
    "call_convention": lambda n: "no indirect functions" if n == -1 else "",
}
"""What a field's number means."""
ALWAYS: Final = frozenset({
    "granulated_workitem_vgpr_count", "granulated_wavefront_sgpr_count", "float_mode_round_32",
    "float_mode_round_16_64", "float_mode_denorm_32", "float_mode_denorm_16_64", "user_sgpr_count",
    "enable_vgpr_workitem_id",
})  # fmt: skip
"""Fields that are shown when they are 0, too."""
PLACES: Final = {
    slot.name: f"[{slot.spec.high}:{slot.spec.low}]" if slot.spec.high > slot.spec.low else f"[{slot.spec.low}]"
    for record in (Rsrc1, Rsrc2, CodeProperties, DescriptorProperties)
    for slot in record.slots
}


def lines(document: Document, zeros: bool = False) -> Iterator[str]:
    """The text, line by line. Fields that are 0 and mean nothing by that are left out, unless `zeros`."""
    yield from _head(document)
    for kernel in document["kernels"]:
        yield ""
        yield from _kernel(kernel, zeros)
    yield from _table("Symbols", document["symbols"], (
        ("address", _address), ("bytes", str), ("kind", str), ("binding", str), ("visibility", str), ("name", str),
    ))  # fmt: skip
    yield from _table("Relocations", document["relocations"], (
        ("offset", hex), ("type", str), ("addend", str), ("section", str), ("symbol", str),
    ))  # fmt: skip
    if document.get("code"):
        yield ""
        yield "Disassembly"
        for chunk in document["code"]:
            yield from _chunk(chunk)


def _head(document: Document) -> Iterator[str]:
    elf = document["elf"]
    features = ", ".join(f"{name} {setting}" for name, setting in document["features"].items())
    yield f"{document['format']} {document['version']} for {document['target'] or 'an unnamed processor'}" + (
        f" ({features})" if features else ""
    )
    abi = OS_ABIS.get(elf["os_abi"], "unknown")
    kind = f"ELF {elf['type']}, OS/ABI {elf['os_abi']} ({abi}), ABI version {elf['abi_version']}"
    yield f"{kind}, e_flags {elf['flags']:#x}"
    for name, value in document["notes"].items():
        yield f"note {name}: {value}"
    for name in document["missing"]:
        yield f"undefined symbol {name}: its address must be given when it is loaded"
    for text in document["warnings"]:
        yield f"warning: {text}"
    yield from _table("Segments", elf["segments"], (
        ("type", lambda n: SEGMENT_TYPES.get(n, hex(n))), ("flags", str), ("offset", hex), ("address", hex),
        ("file_bytes", hex), ("memory_bytes", hex),
    ))  # fmt: skip
    yield from _table("Sections", elf["sections"], (
        ("offset", hex), ("address", hex), ("bytes", hex), ("name", str),
    ))  # fmt: skip


def _kernel(kernel: Document, zeros: bool) -> Iterator[str]:
    yield f"Kernel {kernel['name']}"
    yield f"  {kernel['header']['type']} at {kernel['address']:#x}, entry at {kernel['entry']:#x}"
    stack = ", dynamic call stack" if kernel["dynamic_stack"] else ""
    yield (
        f"  {kernel['vgprs']} VGPRs, {kernel['sgprs']} SGPRs, group segment {kernel['group_bytes']} bytes, "
        f"private segment {kernel['private_bytes']} bytes{stack}, kernarg segment {kernel['kernarg_bytes']} bytes"
    )
    yield "  Initial registers"
    for each in kernel["registers"]:
        yield f"    {each['registers']:<8} {each['holds']}"
    if kernel["arguments"] is not None:
        columns = (
            ("offset", hex), ("bytes", str), ("kind", str), ("type_name", str), ("address_space", str), ("access", str),
            ("name", str),
        )  # fmt: skip
        yield from _table("Arguments", kernel["arguments"], columns, "  ")
    else:
        yield "  No metadata: the arguments are not described"
    if kernel["metadata"]:
        shown = {name: value for name, value in kernel["metadata"].items() if name not in ("name", "symbol")}
        yield "  Metadata"
        for name, value in shown.items():
            yield f"    {name} = {value}"
    yield "  Header"
    yield from _fields(kernel["header"], zeros, "    ")


def _fields(fields: Document, zeros: bool, indent: str) -> Iterator[str]:
    for name, value in fields.items():
        if name in ("type", "value"):
            continue
        if isinstance(value, dict):
            if "value" in value:
                yield f"{indent}{name} = {value['value']:#010x}"
                yield from _fields(value, zeros, indent + "  ")
            elif zeros or any(_is_set(each) for each in value.values()):
                yield f"{indent}{name}"
                yield from _fields(value, zeros, indent + "  ")
            continue
        if not zeros and not _is_set(value) and name not in ALWAYS:
            continue
        place = PLACES.get(name, "")
        meaning = MEANINGS[name](value) if name in MEANINGS else ""
        yield f"{indent}{f'{place:<8}' if place else ''}{name} = {_shown(value)}" + (f" ({meaning})" if meaning else "")


def _is_set(value: Any) -> bool:
    return any(value) if isinstance(value, list) else bool(value)


def _shown(value: Any) -> str:
    if isinstance(value, int) and value > 9:
        return f"{value} ({value:#x})" if value > 255 else str(value)
    return str(value)


def _address(value: int | None) -> str:
    return "-" if value is None else hex(value)


def _table(
    title: str, rows: Sequence[Document], columns: Sequence[tuple[str, Callable[[Any], str]]], indent: str = ""
) -> Iterator[str]:
    """Aligned columns; those that are empty everywhere are left out."""
    if not rows:
        return
    kept = [(name, show) for name, show in columns if any(row.get(name) not in ("", None) for row in rows)]
    cells = [[show(row[name]) if name in row else "" for name, show in kept] for row in rows]
    heads = [name.replace("_", " ") for name, _ in kept]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    yield from ("", f"{title}") if not indent else (f"{indent}{title}",)
    for row in (heads, *cells):
        yield (indent + "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))).rstrip()


def _chunk(chunk: Document) -> Iterator[str]:
    yield ""
    for name in chunk["names"]:
        yield f"{name}:"
    for line in chunk["lines"]:
        if "label" in line:
            yield f"{line['label']}:"
        code = bytes.fromhex(line["code"])
        words = " ".join(f"{int.from_bytes(code[at : at + 4], 'little'):08x}" for at in range(0, len(code), 4))
        yield f"    {line['text']:<56}// {line['pc']:#x}: {words}"
