"""Record what the real generator and the real run-time library make of designs: maps.json and writes.json.

    python3.9 -m venv V && V/bin/pip install 'numpy<1.24' pyfletchgen==0.0.20 pyfletcher==0.0.20 vhdmmio==0.0.3
    python record.py V

Not run by the tests, which only read the two files. Needs pyarrow, a C compiler, and the environment V.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

HERE = Path(__file__).parent
ROWS = 3
I16, UTF8 = pa.int16(), pa.utf8()

PLATFORM = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef uint64_t u64;
static u64 next = 0x100000000;
u64 platformGetName(char *b, size_t n) { strncpy(b, "record", n); return 0; }
u64 platformInit(void *a) { return 0; }
u64 platformTerminate(void *a) { return 0; }
u64 platformWriteMMIO(u64 i, uint32_t v) { printf("W %u %u\n", (unsigned)i, v); return fflush(stdout); }
u64 platformReadMMIO(u64 i, uint32_t *v) { *v = 5; return 0; }
u64 platformDeviceMalloc(u64 *a, int64_t s) { *a = next; next += 0x1000; return 0; }
u64 platformDeviceFree(u64 a) { return 0; }
u64 platformCopyHostToDevice(const uint8_t *h, u64 d, int64_t s) { return 0; }
u64 platformCopyDeviceToHost(u64 d, uint8_t *h, int64_t s) { return 0; }
u64 platformCacheHostBuffer(const uint8_t *h, u64 *d, int64_t s) { return platformDeviceMalloc(d, s); }
u64 platformPrepareHostBuffer(const uint8_t *h, u64 *d, int64_t s, int *a)
{ *a = 1; return platformDeviceMalloc(d, s); }
"""

HOST = """
import sys, pyarrow, pyfletcher
platform = pyfletcher.Platform("record", False)
platform.init()
context = pyfletcher.Context(platform)
for path in sys.argv[1:]:
    context.queue_record_batch(pyarrow.ipc.open_file(path).get_batch(0))
context.enable()
pyfletcher.Kernel(context).start()
"""


def field(name: str, kind: pa.DataType, nullable: bool = False, **metadata: str) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata=metadata or None)


def items(kind: pa.DataType, nullable: bool = False, name: str = "item") -> pa.DataType:
    return pa.list_(field(name, kind, nullable))


def struct(*fields: pa.Field) -> pa.DataType:
    return pa.struct(list(fields))


def schema(*fields: pa.Field, name: str = "R", mode: str = "read") -> pa.Schema:
    return pa.schema(fields, metadata={"fletcher_name": name, "fletcher_mode": mode})


def batch(made: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([value(each, row) for row in range(ROWS)], each.type) for each in made]
    return pa.RecordBatch.from_arrays(columns, schema=made)


def value(of: pa.Field, row: int) -> Any:
    kind = of.type
    if (of.nullable and row == 1) or pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        return {each.name: value(each, row) for each in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [value(kind.value_field, row + index) for index in range(2)]
    if pa.types.is_map(kind):
        return [(1, 2)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "ab"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return b"ab"
    return bool(row) if pa.types.is_boolean(kind) else row * (86_400_000 if pa.types.is_date64(kind) else 1)


TYPES = {
    "bool": pa.bool_(), "large_utf8": pa.large_utf8(), "large_list": pa.large_list(field("item", I16)),
    "fixed_size_list": pa.list_(field("item", I16), 2), "fixed_size_binary": pa.binary(2), "duration": pa.duration("s"),
    "map": pa.map_(I16, I16), "decimal": pa.decimal128(9, 2), "float16": pa.float16(), "date32": pa.date32(),
    "date64": pa.date64(), "timestamp": pa.timestamp("us"), "time32": pa.time32("s"), "time64": pa.time64("us"),
    "uint8": pa.uint8(), "double": pa.float64(), "empty_struct": pa.struct([]),
}  # fmt: skip

FIELDS = {
    "nullable_utf8": field("s", UTF8, True),
    "nullable_binary": field("t", pa.binary(), True),
    "list_nullable_item": field("l", items(I16, True)),
    "nullable_list": field("l", items(I16), True),
    "nullable_list_nullable_item": field("l", items(I16, True), True),
    "list_list": field("l", items(items(I16))),
    "list_utf8": field("l", items(UTF8)),
    "list_struct": field("l", items(struct(field("x", I16), field("n", UTF8)))),
    "list_nullable_struct": field("l", items(struct(field("x", I16, True), field("n", UTF8, True)), True)),
    "list_struct_list": field("l", items(struct(field("a", items(I16)), field("b", I16)))),
    "list_struct_list_struct": field("l", items(struct(field("a", items(struct(field("c", UTF8))))))),
    "struct_struct": field("p", struct(field("q", struct(field("x", I16), field("y", UTF8))), field("z", I16))),
    "struct_nullable_child": field("p", struct(field("x", I16, True), field("y", UTF8))),
    "struct_nullable_struct": field("p", struct(field("q", struct(field("x", I16)), True))),
    "struct_list_struct": field("p", struct(field("l", items(struct(field("c", UTF8), field("d", I16)))))),
    "struct_bool": field("p", struct(field("x", I16), field("y", pa.bool_()), field("z", I16))),
    "list_fixed_size_binary": field("l", items(pa.binary(2))),
    "fixed_size_binary_epc": field("a", pa.binary(2), True, fletcher_epc="2"),
    "list_fixed_size_binary_epc": field("l", items(pa.binary(2)), fletcher_epc="2"),
    "list_fixed_size_binary_lepc": field("l", items(pa.binary(2)), fletcher_lepc="2"),
    "list_fixed_size_binary_item_epc": field("l", pa.list_(field("item", pa.binary(2), fletcher_epc="2"))),
    "list_struct_fixed_size_binary_epc": field("l", items(struct(field("x", pa.binary(2), fletcher_epc="2")))),
    "named_values": field("values", I16),
    "named_offsets": field("offsets", UTF8, True),
    "member_values": field("p", struct(field("values", I16, True))),
    "no_name": field("", I16),
    "dash": field("a-b", I16),
    "digit": field("1x", I16),
    "ignored": field("a", I16, fletcher_ignore="true"),
    "ignored_list_utf8": field("a", items(UTF8), fletcher_ignore="true"),
    "ignored_fixed_size_binary": field("a", pa.binary(2), fletcher_ignore="true"),
    "ignored_fixed_size_list": field("a", pa.list_(field("item", I16), 2), fletcher_ignore="true"),
    "epc_text": field("a", I16, fletcher_epc="four"),
    "epc_struct": field("a", struct(field("x", I16)), fletcher_epc="2"),
    "lepc_list": field("a", items(struct(field("x", I16))), fletcher_lepc="2"),
    "epc_utf8": field("a", UTF8, fletcher_epc="4", fletcher_lepc="2"),
}
"""Each stands before an int16 called last."""


def profiled() -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    names = (
        "nullable_utf8 nullable_binary list_nullable_item list_struct list_struct_list list_struct_list_struct "
        "struct_struct struct_nullable_child struct_list_struct"
    )
    for name in names.split():
        each = FIELDS[name]
        made = each.with_metadata({"fletcher_profile": "true"})
        yield f"profile_{name}", [schema(made, field("last", I16), name="P")], {}
    lists = field("p", struct(field("l", items(I16, name="element"))), fletcher_profile="true")
    yield "profile_struct_list", [schema(lists, mode="write")], {}
    yield "profile_ignored", [schema(field("a", I16, fletcher_profile="true", fletcher_ignore="true"))], {}
    yield "profile_true_in_capitals", [schema(field("a", I16, fletcher_profile="True"))], {}


def custom(*texts: str, **options: Any) -> dict[str, Any]:
    return {"custom": list(texts), **options}


def maps() -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Name, schemas and RecordBatches, options."""
    one = schema(field("a", I16))
    for name, kind in TYPES.items():
        yield f"type_{name}", [schema(field("a", kind), field("last", I16))], {}
    for name, each in FIELDS.items():
        yield name, [schema(each, field("last", I16))], {}
    for name in ("list_nullable_item", "nullable_list_nullable_item", "list_list", "struct_nullable_child",
                 "struct_nullable_struct", "list_nullable_struct", "member_values", "struct_bool",
                 "ignored_fixed_size_list"):  # fmt: skip
        yield f"batch_{name}", [batch(schema(FIELDS[name], field("last", I16)))], {}
    nullable = schema(FIELDS["struct_nullable_child"])
    yield "batch_and_schema", [nullable, batch(nullable)], {}
    yield "batch_bool", [batch(schema(field("a", pa.bool_()), field("last", I16)))], {}
    yield from profiled()
    yield "nameless", [pa.schema([field("a", I16)]), one], {}
    yield "only_nameless", [pa.schema([field("a", I16)])], {}
    yield "no_fields", [schema()], {}
    yield "same_twice", [one, one], {}
    yield "same_name", [one, schema(field("b", I16))], {}
    yield "same_column", [schema(field("a", I16), field("a", I16))], {}
    yield "same_column_in_capitals", [schema(field("a", I16), field("A", I16))], {}
    yield "same_register", [schema(field("b_c", I16), name="A"), schema(field("c", I16), name="A_b")], {}
    yield "same_port", [schema(field("a", I16), field("a_cmd", I16))], {}
    names = ("b", "B2", "a1", "C", "_", "Z")
    yield "order", [schema(field("x", I16), name=f"n{name}", mode="write" if name in ("b", "C") else "read")
                    for name in names], {}  # fmt: skip
    yield "mode_in_capitals", [schema(field("x", I16), name="B", mode="Write"), schema(field("x", I16), name="A")], {}
    yield "name_digit", [schema(field("x", I16), name="1R")], {}
    yield "offset", [one], {"offset": 4}
    yield "offset_large", [one], custom("c:8:x", offset=1000)
    yield "offset_odd", [one], {"offset": 6}
    yield "offset_behind", [one], {"offset": 2**32 - 16}
    yield "wide_bus", [schema(field("a", I16), field("b", UTF8))], custom("c:8:x", "c:16:y", "s:64:z", bus_width=64)
    yield "wide_bus_offset", [one], custom("c:8:x", "c:16:y", bus_width=64, offset=8)
    yield "wide_bus_offset_odd", [one], {"bus_width": 64, "offset": 4}
    yield "wide_bus_conflict", [one], custom("c:8:x", "s:64:z", "c:8:y", bus_width=64)
    yield "wide_bus_conflict_last", [one], custom("c:8:x", "s:33:z", bus_width=64)
    yield "wide_bus_conflict_at_0", [one], custom("c:65:x", bus_width=64)
    yield "wide_bus_96", [one], custom("c:8:x", "s:96:z", bus_width=64)
    yield "wide_bus_33", [one], custom("s:33:z", "c:1:y", bus_width=64)
    yield "words", [one], custom("c:832:x")
    yield "words_too_many", [one], custom("c:833:x")
    yield "words_wide_bus", [one], custom("c:1664:x", bus_width=64)
    yield "custom_init", [one], custom("c:8:x:0x1F", "s:32:y:")
    yield "custom_same", [one], custom("c:8:x", "s:8:x")
    yield "custom_start", [one], custom("c:8:start")
    yield "custom_capitals", [one], custom("c:8:START")
    yield "custom_clock", [one], custom("c:8:kcd")
    yield "custom_field", [one], custom("c:8:R_a")
    yield "custom_written", [one], custom("s:8:x", "c:8:x_write")
    yield "custom_behavior", [one], custom("q:8:x")
    yield "custom_width", [one], custom("c:0x10:x")
    for word in ("off", "Yes", "NULL", "y"):
        yield f"custom_{word}", [one], custom(f"c:8:{word}")
    yield "custom_none", [pa.schema([field("a", I16)])], custom("c:8:x")


def writes() -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """Name and RecordBatches in queue order."""
    for name, kind in TYPES.items():
        for nullable in (False, True):
            made = schema(field("a", kind, nullable), field("last", I16))
            yield f"type_{name}" + ("_nullable" if nullable else ""), [batch(made)]
    for name, each in FIELDS.items():
        if name.startswith(("list", "nullable", "struct")):
            yield name, [batch(schema(each, field("last", I16)))]
    one = batch(schema(field("a", I16)))
    yield "cut_in_the_middle", [batch(schema(field("a", I16), field("b", pa.bool_()), field("c", I16)))]
    yield "cut_then_another", [batch(schema(field("a", pa.bool_()), field("b", I16))), one]
    yield "nameless", [one.replace_schema_metadata(None)]
    yield "same_twice", [one, one]
    order = [("Z", "read", I16), ("A", "write", UTF8), ("B", "read", I16)]
    yield "order", [batch(schema(field("x", kind, True), name=name, mode=mode)) for name, mode, kind in order]


# ---- the tools -----------------------------------------------------------------------------------------------------


def save(path: Path, each: pa.Schema | pa.RecordBatch) -> Path:
    if isinstance(each, pa.Schema):
        path.write_bytes(each.serialize().to_pybytes())
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, each.schema) as writer:
            writer.write_batch(each)
    return path


def run_generator(venv: Path, folder: Path, inputs: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    command = [str(venv / "bin/fletchgen"), "-n", "K"]
    for flag, kind in (("-i", pa.Schema), ("-r", pa.RecordBatch)):
        paths = [save(folder / f"{flag}{n}", each) for n, each in enumerate(inputs) if isinstance(each, kind)]
        command += [flag, *map(str, paths)] if paths else []
    command += ["-s", "out.srec"] if "-r" in command else []
    command += ["--regs", *options["custom"]] if "custom" in options else []
    command += ["--mmio64"] if options.get("bus_width") == 64 else []
    command += ["--mmio-offset", str(options.get("offset", 0))]
    path = os.pathsep.join((str(venv / "bin"), os.environ["PATH"]))
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if done.returncode:
        return {"stops": done.returncode}
    yaml = (folder / "fletchgen.mmio.yaml").read_text()
    pattern = r"address: (\d+)\n    name: (\S+)\n(?:    doc: .*\n)?    bitrange: (\S+)\n    behavior: (\S+)"
    return {"fields": [" ".join(found) for found in re.findall(pattern, yaml)]}


def run_host(venv: Path, folder: Path, batches: list[pa.RecordBatch]) -> list[str]:
    paths = [str(save(folder / f"{n}.batch", each)) for n, each in enumerate(batches)]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder.parent)}
    command = [str(venv / "bin/python"), "-c", HOST, *paths]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [line[2:] for line in done.stdout.splitlines() if line.startswith("W ") and not line.startswith("W 0 ")]


def encoded(each: pa.Schema | pa.RecordBatch, folder: Path) -> str:
    return base64.b64encode(save(folder / "saved", each).read_bytes()).decode()


def main(venv: Path) -> None:
    with tempfile.TemporaryDirectory() as top:
        library = Path(top, "libfletcher_record.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=PLATFORM, text=True, check=True)
        folder = Path(top, "run")
        found: list[dict[str, Any]] = []
        for name, inputs, options in maps():
            with_folder(folder)
            record = {"name": name, "inputs": [encoded(each, folder) for each in inputs], "options": options}
            found.append({**record, **run_generator(venv, folder, inputs, options)})
        write("maps.json", found)
        found = []
        for name, batches in writes():
            with_folder(folder)
            record = {"name": name, "batches": [encoded(each, folder) for each in batches]}
            found.append({**record, "writes": run_host(venv, folder, batches)})
        write("writes.json", found)


def with_folder(folder: Path) -> None:
    if folder.exists():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    folder.mkdir(exist_ok=True)


def write(name: str, records: list[dict[str, Any]]) -> None:
    text = ",\n".join(json.dumps(record) for record in records)
    (HERE / name).write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
