"""Code in reports: what ran how often, how true it is, and where it comes from."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softcard import Gpu, RefSi
from softcard.core.diagnostics import link, of_finding
from softcard.core.errors import SoftcardError, WireError
from softcard.device.fletcher.kernel import Kernel as VirtualKernel
from softcard.host.amdcl2.program import Program
from softcard.host.compiling import CompileError
from softcard.host.refsi.compile import compile_kernels, riscv_compilers
from softcard.hsa import demo_code
from softcard.refsi import demo_kernels
from softcard.trace import HtmlTrace
from softcard.trace.code import COMMANDS, CommandCode, listing_of
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


# ---- code of all interfaces ------------------------------------------------------------------------------------------


def test_sources_of_kernels_in_python() -> None:
    def total(job: object) -> int:
        """Return nothing of interest."""
        return 0

    listing = listing_of(VirtualKernel("sum", total), None)
    [function] = listing.functions
    [(file, lines)] = listing.sources.items()
    assert (file, listing.target, listing.is_source, listing.is_counted) == (__file__, "Python", True, False)
    assert [row.text.strip().partition(" ")[0] for row in function.rows] == ["def", '"""Return', "return"]
    assert all(row.place is not None and lines[row.place.line - 1] == row.text for row in function.rows)
    assert not listing_of(VirtualKernel("len", len), None).functions  # type: ignore[arg-type]
    text: dict[str, Any] = {}
    exec("def entered(job):\n    return 0\n", text)
    assert not listing_of(VirtualKernel("entered", text["entered"]), None).functions


def test_source_text_of_a_program_is_shown() -> None:
    with Gpu.open("gfx900") as gpu:
        try:
            program = gpu.compile("kernel void one(global int *x)\n{\n    *x = 1;\n}\n")
        except CompileError as error:
            pytest.skip(f"no compiler: {error}")
        assert listing_of(program, None).sources == {"kernel.cl": program.source_lines}


def test_commands_of_code_buffers() -> None:
    """Equal buffers are listed once; one that failed is listed alone, and the next run begins a new one."""
    code = CommandCode()
    for run in range(5):
        code.take(0, 0, "FILL")
        code.take(1, 0, "COPY")
        if run == 3:
            assert code.fail(0) == "run 4+0x0"
        else:
            code.take(0, 0x14, "FENCE")
    assert code.fail(7) == ""
    first, second = code.listings()
    assert (first.name, first.target, first.is_counted) == ("context 0", COMMANDS, True)
    listed = {each.name: [(row.address, row.text, row.count) for row in each.rows] for each in first.functions}
    assert list(listed.items()) == [
        ("run 1 and 3 more", [("run 1+0x0", "FILL", 4), ("run 1+0x14", "FENCE", 4)]),
        ("run 4", [("run 4+0x0", "FILL", 0)]),
    ]  # fmt: skip
    [function] = second.functions
    assert (function.name, [row.address for row in function.rows]) == ("run 1 and 4 more", ["context 1, run 1+0x0"])


def test_a_report_of_a_followed_device_shows_its_code_and_findings(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    with Gpu.open("gfx900", check="memory", on_finding="keep") as gpu, HtmlTrace(path).follow(gpu) as trace:
        x = gpu.zeros(100)
        gpu.run(gpu.load(demo_code("gfx900")), "saxpy", grid=128, group=64, args=[2.0, x, x])
    about = header(path)
    [listing] = about["code"]
    assert [name for name, _, _ in listing["functions"] if name == "saxpy"] == ["saxpy"]
    assert {each["what"] for each in about["findings"]} == {"memory/out-of-bounds"}
    assert all(about["snapshots"][each["snapshot"]][3] == each["pc"] for each in about["findings"])

    with Gpu.open("gfx900", check="memory", on_finding="keep") as gpu, HtmlTrace(path).follow(gpu) as trace:
        loaded = gpu.load(demo_code("gfx900"))
        gpu.run(loaded, "saxpy", grid=128, group=64, args=[2.0, gpu.zeros(100), gpu.zeros(100)])
        trace.code(loaded, None, "mine")
        trace.finding(of_finding(gpu.findings[0]))
    about = header(path)
    assert [each["name"] for each in about["code"]] == ["mine"]  # what the program adds itself is not added again
    assert len(about["findings"]) == 1


def header(path: Path) -> dict[str, Any]:
    """The header of a report's data."""
    data = re.search(r'<script id="data" type="text/plain">([^<]*)<', path.read_text(encoding="utf-8"))
    assert data is not None
    packed = gzip.decompress(base64.b64decode(data[1]))
    return json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])  # type: ignore[no-any-return]
