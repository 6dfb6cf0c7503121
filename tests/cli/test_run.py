"""`softcard run`: kernels of every interface, from the command line."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcard
from softcard.cli import main
from softcard.cli.records import Report
from softcard.core.findings import Finding
from softcard.core.rule import Rule
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from tests.host.amdcl2.rig import FOLDER
from tests.host.hsa.test_small import code

Capture = pytest.CaptureFixture[str]
DATA = Path(softcard.__file__).parent / "data"
CODE = str(DATA / "hsa_kernels-gfx803.co")


OPENCL = """kernel void twice(global int *x) {
    x[get_global_id(0)] *= 2; // twice as much
}
"""
HIP = """__global__ void twice(int *x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; // twice as much
}
"""


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


SAXPY = ["run", CODE, "saxpy", "--arg", "2.5", "--arg", "f32:64:range"]


def test_a_kernel_is_run_and_its_arrays_shown(capsys: Capture) -> None:
    code, out, err = run(capsys, *SAXPY, "--arg", "f32:8x8")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("saxpy: 24 wave instructions in ")
    assert lines[0].endswith("; 512 bytes of arrays (AMD HSA, V2, gfx803, jit)")
    assert lines[1] == "argument 1, float32[64]: 0.0 1.0 2.0 3.0 4.0 5.0 6.0 7.0 ..."
    assert lines[2] == "argument 2, float32[8, 8]: 0.0 2.5 5.0 7.5 10.0 12.5 15.0 17.5 ..."


def test_arrays_from_files_and_into_files(capsys: Capture, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(-9, 9, (64, 16)).astype(np.int32)
    np.save(tmp_path / "in.npy", rows)
    (tmp_path / "in.bin").write_bytes(rows.tobytes())
    np.save(tmp_path / "sorted.npy", np.sort(rows, axis=1))
    out, raw = tmp_path / "out.npy", tmp_path / "out.bin"
    expected = ["--arg", "i32:64x16", "--expect", f"1=@{tmp_path}/sorted.npy"]

    def sort(source: str, *more: str) -> tuple[int, str, str]:
        common = ["run", CODE, "sort_private", "--grid", "64", "--engine", "reference"]
        return run(capsys, *common, "--arg", source, *expected, *more)

    assert sort(f"@{tmp_path}/in.npy", "--save", f"1={out}", "--save", f"1={raw}")[0] == 0
    assert np.array_equal(np.load(out), np.sort(rows, axis=1))
    assert raw.read_bytes() == np.sort(rows, axis=1).tobytes()
    assert "argument 1: is as expected\n" in sort(f"i32:64x16:@{tmp_path}/in.bin")[1]


@pytest.mark.parametrize("tier", ["auto", "first", "optimised"])
def test_tiers_give_the_same(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    made: list[Tier | None] = []
    begin = JitEngine.__init__
    monkeypatch.setattr(
        JitEngine,
        "__init__",
        lambda engine, threads=None, tier=None, **more: made.append(tier) or begin(engine, threads, tier, **more),  # type: ignore[func-returns-value]
    )
    code, out, _ = run(capsys, *SAXPY, "--arg", "f32:64", "--tier", tier)
    assert code == 0
    assert out.splitlines()[2] == "argument 2, float32[64]: 0.0 2.5 5.0 7.5 10.0 12.5 15.0 17.5 ..."
    assert made == [{"auto": None, "first": Tier.THREADED, "optimised": Tier.OPTIMISED}[tier]]


def test_local_memory_types_and_sizes(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "bins.npy"
    arguments = ["--arg", "u8:1000:random", "--arg", "i32=1000", "--arg", "i32:256", "--arg", "local:1024"]
    sizes = ["--grid", "256", "--group", "128"]
    assert run(capsys, "run", CODE, "histogram", *sizes, *arguments, "--save", f"2={out}")[0] == 0
    assert np.load(out).sum() == 1000
    first = np.load(out)
    assert run(capsys, "run", CODE, "histogram", *sizes, *arguments, "--save", f"2={out}")[0] == 0
    assert (np.load(out) == first).all()
    assert run(capsys, "run", CODE, "histogram", *sizes, *arguments, "--save", f"2={out}", "--seed", "9")[0] == 0
    assert (np.load(out) != first).any()


@pytest.mark.oracle
def test_a_source_is_compiled(capsys: Capture) -> None:
    pytest.importorskip("ziglang")
    source = str(DATA / "hsa_kernels.cl")
    code, out, _ = run(capsys, "run", source, "mandelbrot", "--grid", "8x8", "--arg", "u32:8x8", "--arg", "8",
                       "--arg", "30", "--agent", "gfx906")  # fmt: skip
    assert code == 0
    assert "argument 0, uint32[8, 8]: " in out


def test_a_fault_is_an_error_of_the_guest(capsys: Capture) -> None:
    code, _, err = run(capsys, "run", CODE, "broken", "--arg", "f32:64", "--arg", "9")
    assert code == 1
    assert err.startswith("error: write of 4 bytes at ")
    assert " lane 9, wave 0, work-group 0,0,0\n" in err
    assert "kernel broken\n   = note: registers: exec = 0xffffffffffffffff; lane 9: v0 = 0x" in err


def test_code_of_the_small_machine_model(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "small.co"
    file.write_bytes(code("gfx900"))
    arguments = ["--arg", "i32:64:range", "--arg", "i32:64", "--arg", "local:256", "--arg", "7"]
    status, out, err = run(capsys, "run", str(file), "k", "--machine-model", "small", *arguments)
    assert (status, err) == (0, "")
    assert out.splitlines()[2] == "argument 1, int32[64]: 7 8 9 10 11 12 13 14 ..."


def test_a_report_of_a_run(capsys: Capture, tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    kernels = (
        ([*SAXPY, "--arg", "f32:64"], 0, "s_endpgm"),
        (["run", CODE, "saxpy", *("--arg", "2.0", "--arg", "0x100", "--arg", "f32:64")], 1, "queue-errored"),
        (["run", str(DATA / "kernels.elf"), "broken", "--grid", "4", "--arg", "i32:4", "--arg", "0"], 1, "hart-fault"),
    )
    for arguments, status, held in kernels:
        report.unlink(missing_ok=True)
        code, _, err = run(capsys, *arguments, "--report", str(report))
        assert (code, err.splitlines()[0]) == (status, f"report: {report}")
        assert held in content(report)


def test_a_report_has_registers(capsys: Capture, tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    arguments = ["run", CODE, "broken", "--grid", "64", "--arg", "f32:64", "--arg", "4", "--report", str(report)]
    status, _, _ = run(capsys, *arguments, "--registers-at", "broken+0x30", "--registers-at", "fault")
    held = content(report)
    assert status == 1
    assert '["exec","0xffffffffffffffff"]' in held
    assert held.count('"wave 0, group 0,0,0, packet 0, queue 0"') == 2
    kernel = ["run", str(DATA / "kernels.elf"), "vector_add", *("--arg", "i32:16") * 3, "--arg", "16"]
    status, _, _ = run(
        capsys, *kernel, "--registers-at", "vector_add+4", "--registers-at", "end", "--report", str(report)
    )
    assert status == 0
    held = content(report)
    assert (held.count('"before","hart 0"'), held.count('"end","hart 0"')) == (1, 1)
    for wrong, said in (
        (["--registers-at", "nothing"], "unknown symbol 'nothing'"),
        (["--registers-at", "end", "--both-engines"], "only the reference engine takes register snapshots"),
    ):
        status, _, err = run(capsys, *arguments, *wrong)
        assert (status, said in err) == (2, True)
    status, _, err = run(capsys, *arguments[:-2], "--registers-at", "end")
    assert (status, "--registers-at requires --report" in err) == (2, True)


def test_a_report_has_registers_of_opencl_programs(capsys: Capture, tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    arguments = ["run", str(FOLDER / "vadd-tonga-64-200406.clo"), "vadd", "--grid", "64", "--report", str(report)]
    arguments += ["--arg", "u32:64", "--arg", "u32:64", "--arg", "u32:64", "--arg", "64"]
    status, _, err = run(capsys, *arguments, "--registers-at", "vadd", "--registers-at", "end", "--tier", "optimised")
    assert status == 0, err
    held = content(report)
    assert (held.count('"before","wave 0, group 0,0,0"'), held.count('"end","wave 0, group 0,0,0"')) == (1, 1)
    status, _, err = run(capsys, *arguments, "--registers-at", "vadd.cl:3")
    assert (status, "no instruction comes from that line" in err) == (2, True)


def test_a_report_has_what_checks_find(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTCARD_DOCS", "https://d")
    report = tmp_path / "run.html"
    arguments = ["run", CODE, "saxpy", "--arg", "2.0", "--arg", "f32:60", "--arg", "f32:64", "--grid", "64"]
    code, _, _ = run(capsys, *arguments, "--check", "memory", "--report", str(report))
    assert code == 1
    held = content(report)
    assert [(each["what"], each["diagnostic"]["message"]) for each in findings_of(held)] == [
        ("memory/out-of-bounds", "read of 4 bytes, 0 bytes past the end of argument 1"),
    ]  # fmt: skip
    assert '"checkLinks":{"memory/out-of-bounds":"https://d/checks/memory.html#out-of-bounds"}' in held
    assert '"notes":["Instructions were not counted, since --check was on, so all functions are shown.' in held
    assert '"counted":false' in held
    assert '"s_endpgm"' in held


def test_a_report_has_the_clause_of_a_finding() -> None:
    rule = Rule("gcn/lds-result", "Data Dependency Resolution", "text")
    report = Report("run", "https://d")
    report.found([Finding("waits", "unwaited", "v1 is used", pc=16, rule=rule)])
    held = content_of(report.finish())
    (found,) = findings_of(held)
    assert [found[name] for name in ("what", "message", "rule", "clause")] == [
        "waits/unwaited", "v1 is used", rule.id, "",
    ]  # fmt: skip
    assert found["diagnostic"] == {
        "level": "error", "id": "waits/unwaited", "message": "v1 is used", "at": "pc 0x10", "pc": "0x10",
        "code": "pc 0x10",
        "no_registers": (
            "The check reports after the wave or hart has gone on, so the registers at the instruction are lost."
        ),
        "notes": [{"kind": "rule", "text": "gcn/lds-result: text (Data Dependency Resolution)"}],
    }  # fmt: skip
    assert f'["{rule.id}","","","",1,"https://d/checks/waits.html' in held


def test_a_report_of_refsi_has_the_names_of_kernels(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text(".globl five\nfive: addi a2, zero, 5\n sw a2, 0(a1)\n ret\n")
    page = tmp_path / "run.html"
    assert (
        run(capsys, "run", str(tmp_path / "k.s"), "--agent", "rv64gc", "--arg", "i32:4", "--report", str(page))[0] == 0
    )
    held = content_of(page.read_text(encoding="utf-8"))
    assert '"five"' in held
    assert "kernel at 0x" not in held


def test_a_report_has_the_other_place_of_a_finding_and_what_is_advised() -> None:
    report = Report("run", "")
    found = Finding("waits", "unwaited", "v1 is used", pc=16, other="pc 0x8", suggestion="wait", count=1200)
    report.found([found])
    (held,) = findings_of(content_of(report.finish()))
    assert [(each["kind"], each["text"]) for each in held["diagnostic"]["notes"]] == [
        ("note", "the other access: pc 0x8"), ("note", "1,200 occurrences"), ("help", "wait"),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("name", "source"), [("k.cl", OPENCL), ("k.hip", HIP)])
def test_a_report_shows_the_source_that_was_compiled(capsys: Capture, tmp_path: Path, name: str, source: str) -> None:
    (tmp_path / name).write_text(source)
    report = tmp_path / "run.html"
    code, out, _ = run(
        capsys, *("run", str(tmp_path / name), "twice", "--arg", "i32:64:range", "--grid", "64"),
        *("--expect", "0=" + ",".join(str(2 * n) for n in range(64)), "--report", str(report)),
    )  # fmt: skip
    assert (code, "argument 0: is as expected" in out) == (0, True), out
    held = content(report)
    assert json.dumps(str(tmp_path / name)) in held
    assert json.dumps(source.splitlines()[1]) in held


def findings_of(held: str) -> list[dict[str, Any]]:
    """The findings in a report's data."""
    found, _ = json.JSONDecoder().raw_decode(held, held.index('"findings":') + len('"findings":'))
    return found  # type: ignore[no-any-return]


def content(report: Path) -> str:
    """What stands in a report's data."""
    return content_of(report.read_text())


def content_of(page: str) -> str:
    """What stands in a page's data."""
    packed = re.search(r'<script id="data" type="text/plain">(.*?)</script>', page)
    assert packed is not None
    return gzip.decompress(base64.b64decode(packed[1])).decode("utf-8", "replace")


def test_reports_that_cannot_be_written(capsys: Capture, tmp_path: Path) -> None:
    code, out, err = run(capsys, *SAXPY, "--arg", "f32:64", "--report", str(tmp_path / "no" / "run.html"))
    assert (code, out) == (2, "")
    assert err == f"error: cannot write {tmp_path / 'no' / 'run.html'}: No such file or directory\n"
    kept = tmp_path / "kept.html"
    code, _, _ = run(capsys, "run", CODE, "no-such-kernel", "--report", str(kept))
    assert code == 2
    assert not kept.exists()


def test_exact_bounds(capsys: Capture) -> None:
    arguments = ["run", CODE, "saxpy", "--grid", "65", "--arg", "1", "--arg", "f32:64", "--arg", "f32:64"]
    assert run(capsys, *arguments)[0] == 0
    code, _, err = run(capsys, *arguments, "--exact")
    assert code == 1
    assert "array float32[64] ends at" in err


def test_both_engines_and_json(capsys: Capture) -> None:
    code, out, _ = run(capsys, *SAXPY, "--arg", "f32:64:random", "--both-engines", "--json", "--expect", "1=0")
    assert code == 1
    found = json.loads(out)
    assert found["engine"] == "reference and jit"
    assert found["engines"] == ""
    assert found["instructions"] == 24
    assert found["arrays"]["1"] == {"type": "float32", "shape": [64], "first": [0, 1, 2, 3, 4, 5, 6, 7]}
    assert found["expected"] == {"1": "element 1 is 1.0, expected 0.0; 63 of 64 elements differ"}
    assert (
        "the results of both engines are the same" in run(capsys, *SAXPY, "--arg", "f32:64:random", "--both-engines")[1]
    )


def test_engines_that_differ_are_reported(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from softcard.host.hsa.gpu import Gpu

    whole = Gpu.run

    def wrong(gpu: Gpu, code: Any, kernel: str, grid: Any, group: Any, values: Any, **more: Any) -> Any:
        found = whole(gpu, code, kernel, grid, group, values, **more)
        if gpu.device.settings.engine == "jit":
            values[2][5] = -1
        return found

    monkeypatch.setattr(Gpu, "run", wrong)
    code, out, _ = run(capsys, *SAXPY, "--arg", "f32:64", "--both-engines")
    assert code == 1
    assert out.endswith(
        "engines differ: argument 2: element 5 is -1.0, on the reference engine 12.5; 1 of 64 elements differ\n"
    )


def test_tolerance(capsys: Capture) -> None:
    near = [*SAXPY, "--arg", "f32:64:1e-4", "--grid", "1", "--expect", "2=0"]
    assert run(capsys, *near)[0] == 1
    assert run(capsys, *near, "--tolerance", "1e-3")[0] == 0


@pytest.mark.parametrize("name", ["vadd-bonaire-32-180005", "vadd-tonga-64-200406"])
def test_amd_opencl_2_programs(capsys: Capture, name: str) -> None:
    arguments = ["--arg", "u32:100:range", "--arg", "u32:100:2", "--arg", "u32:100", "--arg", "100"]
    code, out, err = run(capsys, "run", str(FOLDER / f"{name}.clo"), *arguments, "--both-engines")
    assert (code, err) == (0, "")
    assert "(AMD OpenCL 2.0, gfx" in out
    assert "argument 2, uint32[100]: 2 3 4 5 6 7 8 9 ...\nthe results of both engines are the same\n" in out
    assert run(capsys, "run", str(FOLDER / f"{name}.clo"), *arguments, "--tier", "first")[0] == 0


def test_programs_of_refsi(capsys: Capture) -> None:
    kernels = str(DATA / "kernels.elf")
    arguments = ["--arg", "i32:64:range", "--arg", "i32:64:100", "--arg", "i32:64", "--arg", "16", "--grid", "4"]
    code, out, err = run(capsys, "run", kernels, "vector_add", *arguments, "--both-engines")
    assert (code, err) == (0, "")
    assert out.startswith("vector_add: 600 instructions in ")
    assert "argument 2, int32[64]: 100 101 102 103 104 105 106 107 ...\n" in out
    code, out, _ = run(capsys, "run", kernels, "hello", "--arg", "u8:4:72,105,33,0")
    assert (code, out.partition("\n")[0]) == (0, "Hi!")
    assert run(capsys, "run", kernels, "hello", "--group", "4")[0] == 2


RAW = """
    s_load_dwordx2 s[0:1], s[0:1], 0x0
    s_lshl_b32 s2, s2, 6
    v_add_u32 v0, s2, v0
    v_lshlrev_b32 v0, 2, v0
    s_waitcnt lgkmcnt(0)
    global_load_dword v1, v0, s[0:1]
    s_waitcnt vmcnt(0)
    v_add_u32 v1, 1, v1
    global_store_dword v0, v1, s[0:1]
    s_endpgm
"""


def test_raw_code_and_assembly(capsys: Capture, tmp_path: Path) -> None:
    text, raw, odd = (tmp_path / name for name in ("a.s", "a.bin", "a"))
    text.write_text(RAW)
    assert run(capsys, "asm", str(text), "-o", str(raw))[0] == 0
    odd.write_bytes(raw.read_bytes())
    header = ["--vgprs", "2", "--sgprs", "8", "--kernarg", "8"]
    for arguments in ([str(text)], [str(raw), *header], [str(odd), "--agent", "gfx906"]):
        code, out, err = run(capsys, "run", *arguments, "--arg", "u32:1000:range", "--both-engines")
        assert (code, err) == (0, "")
        assert "argument 0, uint32[1000]: 1 2 3 4 5 6 7 8 ...\n" in out
    code, _, err = run(capsys, "run", str(odd), "--arg", "u32:64")
    assert code == 1
    assert "expected 7f 45 4c 46 (ELF): for raw code name the target with --agent\n" in err
    assert f"  --> {odd}: byte 0x0\n" in err
    scratch = ["--scratch", "64", "--user-sgpr", "private_segment_buffer", "--user-sgpr", "kernarg_segment_ptr"]
    text.write_text(RAW.replace("s[0:1], s[0:1], 0x0", "s[0:1], s[4:5], 0x0").replace("s2, s2, 6", "s2, s8, 6"))
    code, out, _ = run(capsys, "run", str(text), *scratch, "--arg", "u32:1000:range")
    assert "argument 0, uint32[1000]: 1 2 3 4 5 6 7 8 ...\n" in out


def test_what_has_a_header_takes_no_other(capsys: Capture) -> None:
    for option in (["--vgprs", "8"], ["--user-sgpr", "nonsense"]):
        code, out, err = run(capsys, *SAXPY, "--arg", "f32:64", *option)
        assert (code, out) == (2, "")
        assert err.endswith(f"--user-sgpr require raw GPU code, but {CODE} has its own kernel headers\n")


def test_numbers_without_metadata_need_a_type(capsys: Capture, tmp_path: Path) -> None:
    """That nothing was found is not said of what did not run."""
    path = tmp_path / "a.s"
    path.write_text(RAW)
    for given, typed in (("7", "u32=7"), ("2.5", "f32=2.5")):
        code, out, err = run(capsys, "run", str(path), "--arg", "u32:64", "--arg", given, "--check", "memory")
        text = f"argument 1 is {given}, expected a number with its type, such as "
        assert (code, out, err) == (2, "", f"error: {text}{typed}: the file has no metadata with types of arguments\n")
        assert run(capsys, "run", str(path), "--arg", "u32:64", "--arg", typed)[0] == 0


def test_raw_code_of_risc_v(capsys: Capture, tmp_path: Path) -> None:
    text, raw = tmp_path / "a.s", tmp_path / "a.bin"
    text.write_text("lw a3, 0(a1)\naddi a3, a3, 5\nsw a3, 0(a1)\nret\n")
    assert run(capsys, "asm", str(text), "--agent", "rv64gc", "-o", str(raw), "--format", "binary")[0] == 0
    for file in (text, raw):
        code, out, err = run(capsys, "run", str(file), "--agent", "rv64gc", "--arg", "i32:4:range")
        assert (code, err) == (0, "")
        assert out.endswith("argument 0, int32[4]: 5 1 2 3\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--grid", "x"], 2, "'x' is not a size, expected one like 1024, 64x64 or 8x8x8"),
        (
            ["--arg", "many"],
            2,
            "argument 'many' is not a value, expected a number, array (f32:1024:random), file (@FILE) or local:BYTES",
        ),
        (["--arg", "f33:8:zeros"], 2, "has the unknown type 'f33', expected one of i8, u8"),
        (["--arg", "i32=x"], 2, "'x' is not an integer"),
        (["--arg", "u8=300"], 2, "does not fit uint8"),
        (["--arg", "f32:3:1,2"], 2, "2 values, expected 1 or 3"),
        (["--arg", "f64:99999999999"], 2, "the array would have more than 8589934592 bytes"),
        (["--arg", "@none.npy"], 2, "cannot read none.npy"),
        (["--arg", f"u8:@{__file__}", "--arg", "f32:7:@none.bin"], 2, "cannot read none.bin"),
        (
            ["--arg", "7", "--save", "0=out.npy"],
            2,
            "argument 0 is '7', expected an array: results can be stored only in arrays",
        ),
        (
            ["--save", "0=out.npy"],
            2,
            "--save '0=out.npy': expected an argument below 0, the number of the kernel's arguments",
        ),
        (["--expect", "zero"], 2, "--expect 'zero': expected NUMBER=VALUE with the number of an argument"),
        (["--arg", "f32:2", "--expect", "0=1,2,3"], 2, "3 values are given, but the array has 2"),
        (["--base", "x"], 2, "'x' is not a number"),
        ([], 1, "kernel saxpy takes 3 arguments"),
        (["--agent", "gfx900"], 1, "the code object is for gfx803, but the agent is gfx900"),
        (["--agent", "gfx1"], 2, "unknown agent 'gfx1'"),
        (
            ["--arg", "f32:8:rnadom"],
            2,
            "argument 'f32:8:rnadom' has the unknown content 'rnadom', expected numbers, @FILE, zeros, ones, range, "
            "random; did you mean 'random'",
        ),
        (["--arg", "f23:8"], 2, "f64; did you mean 'f32'"),
    ],
)
def test_mistakes(capsys: Capture, arguments: list[str], code: int, message: str) -> None:
    found, _, err = run(capsys, "run", CODE, "saxpy", *arguments)
    assert found == code
    assert message in err


def test_which_kernel(capsys: Capture) -> None:
    assert run(capsys, "run", CODE)[2].startswith("error: expected the name of the kernel to run: the file has saxpy, ")
    code, _, err = run(capsys, "run", CODE, "saxp")
    assert (code, err) == (2, "error: unknown kernel 'saxp'; did you mean 'saxpy'?\n")


def test_raw_assembly_is_called_what_it_exports(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "mine.s"
    source.write_text(".globl mine\nmine:\nother:\ns_endpgm\n")
    assert run(capsys, "run", str(source), "mine", "--agent", "gfx900")[0] == 0
    code, _, err = run(capsys, "run", str(source), "kernel", "--agent", "gfx900")
    assert (code, err) == (2, "error: unknown kernel 'kernel': the file has mine\n")


PRINTS_AND_FAULTS = """
    .globl k
k:
    auipc t0, 0
    addi a0, t0, 18
    li a7, 1
    ecall
    sw zero, 0(zero)
    .byte 111, 110, 101, 10, 0
"""


@pytest.mark.parametrize("suffix", [".cl", ".hip", ".s", ".bin"])
def test_an_unknown_agent_is_refused_before_the_compiler(capsys: Capture, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"k{suffix}"
    path.write_text("this is nothing\n")
    code, out, err = run(capsys, "run", str(path), "--agent", "gfx99")
    assert (code, out) == (2, "")
    assert err.startswith("error: unknown agent 'gfx99', expected one of rv64gc, gfx700")
    assert "; did you mean 'gfx909'" in err


@pytest.mark.parametrize(("agent", "endless"), [("gfx900", "again: s_branch again\n"), ("rv64gc", "again: j again\n")])
def test_a_time_limit_ends_a_kernel(capsys: Capture, tmp_path: Path, agent: str, endless: str) -> None:
    path = tmp_path / "endless.s"
    path.write_text(endless)
    code, _, err = run(capsys, "run", str(path), "--agent", agent, "--engine", "reference", "--time-limit", "0.2")
    assert code == 1
    assert "did not end within 0.2 s" in err


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_kernel_printed_before_its_fault_is_shown(capsys: Capture, tmp_path: Path, as_json: bool) -> None:
    path = tmp_path / "prints.s"
    path.write_text(PRINTS_AND_FAULTS, "utf-8")
    code, out, err = run(capsys, "run", str(path), "--agent", "rv64gc", *(["--json"] if as_json else []))
    assert code == 1
    assert "write of 4 bytes at 0x0" in err
    assert (json.loads(out)["printed"] if as_json else out) == "one\n"
