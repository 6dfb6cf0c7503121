"""Code in reports: what ran how often, how true it is, and where it comes from."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softcard import Gpu, RefSi
from softcard.core.diagnostics import link
from softcard.core.errors import SoftcardError, WireError
from softcard.host.amdcl2.program import Program
from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.hsa import demo_code
from softcard.refsi import demo_kernels
from softcard.trace import HtmlTrace
from softcard.trace.code import listing_of
from tests.host.amdcl2.test_queue import CHILD, DEVICES, ENQUEUE, PARENT, SECOND, kernel, pointer, program

SOURCE = """#include <stdint.h>

static __attribute__((noinline)) int square(int x)
{
    return x * x;
}

void squares(uint64_t id, int *out, const int *in, uint64_t n)
{
    for (uint64_t i = id; i < n; i += 4)
        out[i] = square(in[i]);
}

void never(uint64_t id, int *out) { out[id] = 0; }
"""


def test_kernels_of_hsa() -> None:
    with Gpu.open("gfx900", count_instructions=True) as gpu:
        x = np.ones(1000, np.float32)
        loaded = gpu.load(demo_code("gfx900"))
        result = gpu.run(loaded, "saxpy", grid=1000, group=64, args=[2.0, x, x])
        listing = listing_of(loaded, gpu.instruction_counts(), "demo")
    assert (listing.name, listing.target) == ("demo", "gfx900")
    [function] = listing.functions
    assert (function.name, function.count) == ("saxpy", result.instructions)
    assert {row.count for row in function.rows} <= {0, 16}
    assert function.rows[0].text.startswith("s_load_dword")
    assert listing.operations()["s_endpgm", "exact", ""] == 16


def test_without_counts_all_functions_are_shown() -> None:
    with Gpu.open("gfx900") as gpu:
        loaded = gpu.load(demo_code("gfx900"))
        listing = listing_of(loaded, None)
    assert not listing.is_counted
    assert {each.name for each in listing.functions} == set(loaded.kernels)
    assert (listing.silent, sum(each.count for each in listing.functions)) == ((), 0)


def test_what_is_not_exact_is_reported() -> None:
    from softcard.image.hsa.writer import bare_code_object
    from softcard.isa.gcn.asm.assembler import assemble
    from softcard.isa.gcn.target import target

    text = "v_rcp_f32_e32 v1, v0\nv_mul_f32_e32 v1, v1, v1\ns_endpgm\ns_nop 0\ns_nop 0"
    with Gpu.open("gfx900", count_instructions=True, engine="reference") as gpu:
        loaded = gpu.load(bare_code_object(assemble(target("gfx900"), text), "gfx900", name="k", vgprs=4))
        gpu.run(loaded, "k", grid=64, group=64, args=[])
        [function] = listing_of(loaded, gpu.instruction_counts()).functions
    found = [(row.operation, row.count, row.fidelity, row.bound) for row in function.rows]
    assert found == [
        ("v_rcp_f32", 1, "approximate", "1 ULP"), ("v_mul_f32", 1, "exact", ""), ("s_endpgm", 1, "exact", ""),
    ]  # fmt: skip


def test_the_instruction_that_failed_is_shown() -> None:
    """It has not retired; nothing behind it is."""
    from softcard.image.hsa.writer import bare_code_object
    from softcard.isa.gcn.asm.assembler import assemble
    from softcard.isa.gcn.target import target

    text = "v_mov_b32_e32 v1, 0\nglobal_load_dword v0, v[0:1], off\ns_nop 0\ns_endpgm"
    with Gpu.open("gfx900", count_instructions=True, engine="reference") as gpu:
        loaded = gpu.load(bare_code_object(assemble(target("gfx900"), text), "gfx900", name="k", vgprs=4))
        with pytest.raises(SoftcardError):
            gpu.run(loaded, "k", grid=64, group=64, args=[])
        [function] = listing_of(loaded, gpu.instruction_counts()).functions
    assert [(row.operation, row.count) for row in function.rows] == [("v_mov_b32", 1), ("global_load_dword", 0)]


def test_kernels_of_opencl_and_what_they_enqueue() -> None:
    out = pointer("out", "uint*")
    parent = kernel(DEVICES[0], "parent", PARENT, [out], features=ENQUEUE)
    child = kernel(DEVICES[0], "child", CHILD.replace("CHILDGID", "{gid}"), [out], described=SECOND)
    made = program(DEVICES[0], parent, child)
    with pytest.raises(WireError, match="count_instructions=True"):
        made.instruction_counts()
    with pytest.raises(WireError, match="count_instructions requires engine='jit' or 'reference'"):
        Program(made.container, made.engine, count_instructions=True)
    counts = []
    for engine in ("reference", "jit"):
        with Program(made.container, engine, count_instructions=True) as counting:
            result = counting.kernel("parent").run(1, 1, [np.zeros(128, np.uint32)])
            listing = listing_of(counting, counting.instruction_counts())
        assert [each.name for each in listing.functions] == ["parent", "child"]
        assert sum(each.count for each in listing.functions) == result.instructions
        counts.append([row.count for each in listing.functions for row in each.rows])
    assert counts[0] == counts[1]


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_source_lines_of_refsi(profile: str, tmp_path: Path) -> None:
    if not riscv_compilers():
        pytest.skip("no compiler for RISC-V")
    (tmp_path / "k.c").write_text(SOURCE)
    data = compile_kernels(tmp_path / "k.c")
    with RefSi.open(profile=profile, count_instructions=True) as device:
        loaded = device.load_elf(data)
        values = np.arange(100, dtype=np.int32)
        device.launch("squares", 4, [np.zeros_like(values), values, 100])
        listing = listing_of(loaded, device.port.instruction_counts())  # type: ignore[attr-defined]
    assert "never" in listing.silent
    rows = [row for function in listing.functions for row in function.rows]
    assert {"squares", "square"} <= {function.name for function in listing.functions}
    assert listing.sources == {str(tmp_path / "k.c"): tuple(SOURCE.splitlines())}
    times = {row.place.line: max(row.count, 0) for row in rows if row.place is not None and row.operation == "mulw"}
    assert times == {5: 100}


def test_a_device_that_does_not_count_says_so() -> None:
    with RefSi.open() as device, pytest.raises(WireError, match="count_instructions=True"):
        device.instruction_counts()


def test_files_that_are_no_sources_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from softcard.trace import code

    secret = tmp_path / "secret.txt"
    secret.write_text("nobody's business")
    (tmp_path / "folder.c").mkdir()
    (tmp_path / "large.c").write_text("x" * 99)
    (tmp_path / "k.c").write_text("int x;\n")
    monkeypatch.setattr(code, "MOST_SOURCE_BYTES", 50)
    names = [str(tmp_path / name) for name in ("secret.txt", "folder.c", "large.c", "none.c", "k.c")]
    assert dict(code._sources(names)) == {str(tmp_path / "k.c"): ("int x;",)}


def test_a_report_of_a_run_in_python(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    with RefSi.open(count_instructions=True) as device, HtmlTrace(path).follow(device.port.probes) as trace:
        loaded = device.load_elf(demo_kernels())
        with pytest.raises(SoftcardError):
            device.launch("broken", 4, [np.zeros(4, np.int32), 0])
        trace.code(loaded, device.port.instruction_counts())  # type: ignore[attr-defined]
    text = path.read_text()
    assert "<title>run · Softcard</title>" in text
    assert not re.search(r'(src|href)="https?:', text)


@pytest.mark.parametrize(
    ("docs", "wanted"),
    [
        ("", ""),
        ("https://docs.example", "https://docs.example/refsi.html#refsi/memory-map"),
        ("https://forge.example/x/blob/main/docs/", "https://forge.example/x/blob/main/docs/refsi.md#:~:text=refsi%2Fmemory%2Dmap"),
    ],
)  # fmt: skip
def test_links_into_the_docs(docs: str, wanted: str) -> None:
    assert link(docs, "refsi", "refsi/memory-map") == wanted
