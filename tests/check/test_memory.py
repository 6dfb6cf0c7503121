"""The check of memory: what becomes of findings, what the host does wrong, and that no result is another one."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softcard.amdcl2 import load
from softcard.core.checks import ALL, CHECKS, checks_of, read_suppressions
from softcard.core.diagnostics import of_finding
from softcard.core.errors import AccessFault, BeyondModel, RuleError, WireError
from softcard.core.findings import Finding, FindingError
from softcard.core.lint import FindingWarning, LintDesk
from softcard.core.memory_check import DOUBLE_FREE, INVALID_FREE, LEAK
from softcard.host.amdcl2.demo import demo_program
from softcard.host.hsa.gpu import Gpu, demo_code
from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.image.elf.lines import Lines, Place
from softcard.report.diagnostic_formats import to_sarif
from softcard.report.diagnostic_text import as_text


def saxpy(gpu: Gpu, items: int, grid: int, **more: Any) -> Any:
    x, y = gpu.array(np.arange(items, dtype=np.float32)), gpu.zeros(items)
    return gpu.run(demo_code(gpu.device.agent.name), "saxpy", grid, args=[2.0, x, y], **more)


# ---- findings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_a_kernel_goes_on_and_its_findings_are_reported(engine: str) -> None:
    with Gpu.open("gfx900", check="memory", engine=engine, threads=1) as gpu:
        assert saxpy(gpu, 200, 200).findings == ()
        result = saxpy(gpu, 200, 256)
        assert result.findings == tuple(gpu.findings)
        assert [(each.access, each.count, each.lanes[0], each.group) for each in result.findings] == [
            ("read", 56, 8, "3,0,0"), ("read", 56, 8, "3,0,0"), ("write", 56, 8, "3,0,0"),
        ]  # fmt: skip
        first = result.findings[0]
        assert first.kernel == "saxpy"
        assert first.allocation is not None
        assert first.allocation.size == 800
        assert first.allocation.made.startswith(f"{__file__}:")
        assert str(first).endswith("read of 4 bytes, 0 bytes past the end of array float32[200], 56 times")
        assert str(first).startswith("saxpy+0x4c (pc 0x")
        assert "lanes 8, 9, 10, 11, 12, 13, 14, 15 and 48 more, wave 0, work-group 3,0,0" in first.place
        assert "lanes 8 to 63, wave 0, work-group 3,0,0" in as_text([first])


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_registers_of_a_finding(engine: str) -> None:
    """They are those before the instruction, in the first lane, as of an error; the wave goes on."""
    with Gpu.open("gfx900", check="memory", engine=engine, threads=1) as gpu:
        saxpy(gpu, 200, 256)
        for found in gpu.findings:
            held = found.registers
            assert held is not None
            assert (held.pc, held.instruction, held.lane) == (found.pc, found.insn, found.lanes[0])
            assert held["exec"] == (1 << 64) - 1
            low, high = re.search(r"v\[(\d+):(\d+)\]", found.insn).groups()  # type: ignore[union-attr]
            assert held[f"v{high}"] << 32 | held[f"v{low}"] == found.address
            assert of_finding(found).registers is held
            assert found.capture is None


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_registers_of_a_hart_at_a_finding(engine: str) -> None:
    with RefSi.open(check="memory", engine=engine) as device:
        device.load_elf(demo_kernels())
        numbers = np.arange(64, dtype=np.int32)
        device.launch("vector_add", 4, [numbers, numbers, np.zeros_like(numbers), 17])
        assert device.findings
        for found in device.findings:
            held = found.registers
            assert held is not None
            assert (held.pc, held.instruction) == (found.pc, found.insn)
            base = re.search(r"\((\w+)\)", found.insn)
            offset = re.search(r"(-?\d+)\(", found.insn)
            assert base is not None
            assert held[base[1]] + int(offset[1] if offset else 0) == found.address


def test_findings_of_one_instruction_are_counted_not_repeated() -> None:
    with Gpu.open("gfx900", check="memory", threads=1) as gpu:
        x, y = gpu.zeros(10), gpu.zeros(640)
        for _ in range(3):
            gpu.run(demo_code(), "saxpy", 640, args=[2.0, x, y])
        (found,) = gpu.findings
        assert found.count == 3 * 630


def test_the_first_finding_is_raised_where_that_is_asked_for() -> None:
    with Gpu.open("gfx900", check="memory", on_finding="raise", threads=1) as gpu:
        with pytest.raises(FindingError, match=r"memory/out-of-bounds: read of 4 bytes .* kernel saxpy") as caught:
            saxpy(gpu, 200, 256)
        assert isinstance(caught.value.finding, Finding)
        assert len(gpu.findings) == 1
        assert saxpy(gpu, 256, 256).findings == ()


def test_a_limit_and_suppressions(tmp_path: Path) -> None:
    with Gpu.open("gfx900", check="memory", finding_limit=1, threads=1) as gpu:
        saxpy(gpu, 200, 256)
        assert len(gpu.findings) == 1
        assert gpu.device.log is not None
        assert gpu.device.log.dropped == 112
    file = tmp_path / "known"
    file.write_text("# known\nmemory/out-* saxpy saxpy+*  # all of it\nmemory/leak\n")
    with Gpu.open("gfx900", check="memory", suppressions=str(file), threads=1) as gpu:
        assert saxpy(gpu, 200, 256).findings == ()
        assert gpu.device.log is not None
        assert gpu.device.log.suppressed == 168


def test_suppressions_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text("memory/leak\na b c d\n")
    with pytest.raises(WireError, match=r"4 patterns, expected up to three: CHECK/KIND, a kernel, a place.*line 2"):
        read_suppressions(file)
    with pytest.raises(WireError, match=r"cannot read .*none: No such file"):
        read_suppressions(tmp_path / "none")
    file.write_bytes(b"\xff")
    with pytest.raises(WireError, match="known is not UTF-8 text"):
        read_suppressions(file)
    file.write_text("*\n" + "[" * 100_000)
    with pytest.raises(WireError, match=r"the line has a pattern of more than 1000 characters.*line 2"):
        read_suppressions(file)
    file.write_text("memroy/leak\n")
    with pytest.raises(WireError, match=r"unknown check .memroy., expected one of memory.*line 1"):
        read_suppressions(file)


def test_findings_as_json_and_sarif() -> None:
    with Gpu.open("gfx900", check="memory", threads=1) as gpu:
        (first, *_) = saxpy(gpu, 200, 256).findings
    plain = json.loads(json.dumps(first.as_dict()))
    assert (plain["check"], plain["kind"], plain["count"]) == ("memory", "out-of-bounds", 56)
    assert plain["allocation"]["size"] == 800
    log = to_sarif(Path("k.co"), [of_finding(first)], "1")
    (result,) = log["runs"][0]["results"]
    assert result["ruleId"] == "memory/out-of-bounds"
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] > 1


# ---- names ---------------------------------------------------------------------------------------------------------


def test_names_of_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks_of("memory, leaks") == {"memory", "leaks"}
    assert checks_of("all") == ALL == frozenset(CHECKS) - {"lanes"}
    assert checks_of("lanes,all") == frozenset(CHECKS)
    with pytest.raises(
        WireError,
        match=r"unknown check 'memroy', expected some of .*, races, lanes, waits, sync, all; did you mean 'memory'",
    ):
        Gpu.open("gfx900", check="memroy")
    monkeypatch.setenv("SOFTCARD_CHECK", "memory")
    with Gpu.open("gfx900", threads=1) as gpu:
        assert saxpy(gpu, 200, 256).findings
    monkeypatch.setenv("SOFTCARD_CHECK", "things")
    with pytest.raises(WireError, match="SOFTCARD_CHECK=things: unknown check 'things'"):
        Gpu.open("gfx900")


def test_what_does_not_go_with_checks() -> None:
    with pytest.raises(
        BeyondModel, match="check 'memory' cannot be used with coherence 'strict': set only one of the two"
    ):
        Gpu.open("gfx900", check="memory", coherence="strict")
    with pytest.raises(WireError, match="finding_limit is 0, expected 1 or more"):
        Gpu.open("gfx900", check="memory", finding_limit=0)


# ---- the host's mistakes -------------------------------------------------------------------------------------------


def test_double_and_invalid_free() -> None:
    with Gpu.open("gfx900", check="memory", threads=1) as gpu:
        block = gpu.device.allocate(100)
        gpu.device.free(block)
        with pytest.raises(RuleError):
            gpu.device.free(block)
        other = gpu.device.allocate(100)
        with pytest.raises(RuleError):
            gpu.device.free(other + 64)
        array = gpu.zeros(8)
        gpu.free(array)
        with pytest.raises(RuleError):
            gpu.free(array)
        assert [each.kind for each in gpu.findings] == [DOUBLE_FREE, INVALID_FREE, DOUBLE_FREE]
        assert "made at" in gpu.findings[0].message
        assert "freed at" in gpu.findings[0].message
        assert f"free of {other + 64:#x}, which lies inside device memory" in gpu.findings[1].message


def test_leaks_are_reported_at_the_end_where_that_is_asked_for() -> None:
    for check, wanted in (("memory", []), ("memory,leaks", [LEAK, LEAK])):
        with Gpu.open("gfx900", check=check, threads=1) as gpu:
            saxpy(gpu, 64, 64)
            findings = gpu.findings
        assert [each.kind for each in findings] == wanted
    with RefSi.open(check="memory,leaks") as device:
        kept = device.zeros(5)
        device.zeros(7).free()
        findings = device.findings
    assert [each.kind for each in findings] == [LEAK]
    assert (
        f"memory was not freed before the device was closed: array float32[5] (20 bytes at {kept.address:#x}"
        in findings[0].message
    )


def test_arrays_of_refsi_are_called_by_their_arguments() -> None:
    with RefSi.open(check="memory") as device, device.zeros(16, np.int32) as kept:
        device.load_elf(demo_kernels())
        x = np.ones(15, np.int32)
        device.launch("vector_add", 1, [x, x, kept, 16])
        found = device.findings
        assert ": 0 bytes past the end of argument 0, array int32[15] (60 bytes at 0x" in found[0].message
        assert found[0].suggestion == "compare the index with the number of elements"  # a RefSi has no work-groups
        device.launch("vector_add", 1, [np.ones(32, np.int32), np.ones(32, np.int32), kept, 17])
        assert ": 0 bytes past the end of array int32[16] (64 bytes at 0x" in found[-1].message


def test_findings_without_a_line_name_the_nearest() -> None:
    """Compilers give code that they have moved the line 0."""
    with RefSi.open(check="memory") as device, device.zeros(16, np.int32) as kept:
        program = device.load_elf(demo_kernels())
        pc = program.image.symbols["vector_add"].address
        rows = [(pc + 2 * n, Place("add.c", 7) if n % 20 == 0 else None) for n in range(100)]
        vars(program)["lines"] = Lines(rows)
        device.launch("vector_add", 1, [np.ones(15, np.int32), np.ones(16, np.int32), kept, 16])
        (found,) = device.findings
    assert found.suggestion.endswith("; the compiler gives this instruction no line, the nearest are add.c:7")


def test_an_array_of_the_host_ends_with_its_last_byte() -> None:
    x, y = np.zeros(200, np.float32), np.zeros(256, np.float32)
    with Gpu.open("gfx900", check="memory", threads=1) as gpu:
        gpu.run(demo_code(), "saxpy", 256, args=[2.0, x, y])  # a guard zone follows the array
        (found,) = gpu.findings
        assert found.allocation is not None
        assert found.allocation.name == "array float32[200]"
        assert found.distance == 1
        with pytest.raises(AccessFault) as caught:
            gpu.run(demo_code(), "saxpy", 1 << 15, args=[2.0, x, y])
        assert any("error[memory/out-of-bounds]: read of 4 bytes" in note for note in caught.value.__notes__)


def test_programs_of_amd_opencl_2() -> None:
    x, y = np.zeros(64, np.float32), np.zeros(60, np.float32)
    with load(demo_program("tonga", 200406), check="memory") as program:
        kernel = program.kernel("saxpy")
        assert kernel.run(60, 60, [x, y, 2.0]).findings == ()
        with pytest.raises(AccessFault):
            kernel.run(64, 64, [x, y, 2.0])
        (found, *_) = program.findings
    assert (found.kernel, found.access, found.lanes) == ("saxpy", "read", (60, 61, 62, 63))
    assert "0 bytes past the end of y (240 bytes" in found.message


# ---- no result is another one ---------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.integers(1, 300),
    grid=st.integers(1, 400),
    group=st.sampled_from([1, 60, 64, 100, 256]),
    agent=st.sampled_from(["gfx700", "gfx803", "gfx900"]),
    engine=st.sampled_from(["jit", "reference"]),
)
def test_launches_of_any_size_give_the_same_with_and_without(
    items: int, grid: int, group: int, agent: str, engine: str
) -> None:
    found = []
    for check in ("", "memory"):
        with Gpu.open(agent, check=check, engine=engine, threads=1) as gpu:
            x, y = gpu.array(np.arange(items, dtype=np.float32)), gpu.zeros(items)
            result = gpu.run(demo_code(agent), "saxpy", grid, group, [3.0, x, y])
            pages = gpu.device.memory.read(gpu.address(y), 2048)  # with what was stored behind it
            found.append((x.tobytes(), y.tobytes(), pages, result.instructions))
            assert bool(result.findings) == (bool(check) and grid > items)
    assert found[0] == found[1]


def test_a_snapshot_has_what_was_allocated() -> None:
    with Gpu.open("gfx900", check="memory", threads=1) as gpu:
        array = gpu.zeros(64)
        state = gpu.snapshot()
        gpu.free(array)
        gpu.restore(state)
        gpu.run(demo_code(), "saxpy", 64, args=[2.0, gpu.zeros(64), array])
        assert gpu.findings == []
        gpu.free(array)
        gpu.reset()
        assert saxpy(gpu, 64, 64).findings == ()


# ---- warnings ------------------------------------------------------------------------------------------------------


def _reported(found: pytest.WarningsRecorder) -> list[str]:
    """Return the warnings to the host, each at a line of this file."""
    assert all((each.category, each.filename) == (FindingWarning, __file__) for each in found)
    return [str(each.message) for each in found]


def test_findings_are_warnings_on_gpus(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always", FindingWarning)
    for execution in ("synchronous", "threaded"):
        with Gpu.open("gfx900", check="memory,leaks", execution=execution, threads=1) as gpu:
            saxpy(gpu, 200, 200)
            assert _reported(recwarn) == []
            result = saxpy(gpu, 200, 256)
            assert _reported(recwarn) == [str(each) for each in result.findings]
            recwarn.clear()
            x, y = gpu.zeros(200), gpu.zeros(200)
            launch = gpu.dispatch(gpu.load(demo_code()).kernels["saxpy"], 256, args=[2.0, x, y])
            assert launch.wait() is launch.wait()
            assert "memory/out-of-bounds" in _reported(recwarn)[0]
            recwarn.clear()
        assert (
            "warning[memory/leak]: memory was not freed" in _reported(recwarn)[0]
        )  # reported when the device is closed
        recwarn.clear()


def test_findings_are_warnings_on_refsi(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always", FindingWarning)
    with RefSi.open(check="memory") as device:
        device.load_elf(demo_kernels())
        buffer = device.zeros(16, np.int32)
        for again in (False, True):
            result = device.launch("vector_add", 1, [np.ones(32, np.int32), np.ones(32, np.int32), buffer, 17])
            (finding,) = result.findings
            assert _reported(recwarn) == ([] if again else [str(finding)])
            assert finding.kernel == "vector_add"
            recwarn.clear()
        device.free(8)
        assert "memory/invalid-free" in _reported(recwarn)[0]
        recwarn.clear()


def test_findings_are_warnings_on_amd_opencl_2(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always", FindingWarning)
    with load(demo_program("tonga", 200406), check="init") as program:
        buffer, x = np.empty(64, np.float32), np.ones(64, np.float32)
        program.kernel("saxpy").run(64, 64, [x, buffer, 2.0])
        assert _reported(recwarn) == []
        program.desk.found(Finding("init", "undefined-branch", "an undefined value"))
        program.kernel("saxpy").run(64, 64, [x, buffer, 2.0])
        assert _reported(recwarn) == ["error[init/undefined-branch]: an undefined value"]
        recwarn.clear()
    with load(demo_program("tonga", 200406), check="memory") as program:
        with pytest.raises(AccessFault) as caught:
            program.kernel("saxpy").run(64, 64, [np.zeros(64, np.float32), np.zeros(60, np.float32), 2.0])
        assert str(program.findings[0]) in caught.value.__notes__
        assert _reported(recwarn) == []


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_findings_are_errors_where_that_is_asked_for(engine: str) -> None:
    """Of one class on every device, with the finding; the device can be used further."""
    with RefSi.open(check="memory", on_finding="raise", engine=engine) as device:
        device.load_elf(demo_kernels())
        a, c = np.ones(32, np.int32), np.zeros(16, np.int32)
        with pytest.raises(FindingError, match="memory/out-of-bounds: write of 4 bytes") as caught:
            device.launch("vector_add", 1, [a, a, c, 17])
        assert [caught.value.finding] == device.findings
        assert device.launch("vector_add", 1, [a, a, c, 16]).findings == ()
    with load(demo_program("tonga", 200406), check="memory", on_finding="raise", engine=engine) as program:
        x = np.ones(64, np.float32)
        with pytest.raises(FindingError, match="memory/out-of-bounds: read of 4 bytes") as caught:
            program.kernel("saxpy").run(64, 64, [np.ones(60, np.float32), x, 2.0])
        assert caught.value.finding is program.findings[0]
        assert program.kernel("saxpy").run(64, 64, [x, x.copy(), 2.0]).findings == ()


def test_warnings_that_are_errors_lose_no_result() -> None:
    with RefSi.open(check="memory") as device, warnings.catch_warnings():
        warnings.simplefilter("error", FindingWarning)
        device.load_elf(demo_kernels())
        a, c = np.ones(32, np.int32), np.zeros(16, np.int32)
        with pytest.raises(FindingWarning, match="memory/out-of-bounds]: write of 4 bytes"):
            device.launch("vector_add", 1, [a, a, c, 17])
        assert c.tolist() == [2] * 16
        assert device.launch("vector_add", 1, [a, a, c, 16]).findings == ()
    with Gpu.open("gfx900", check="memory", threads=1) as gpu, warnings.catch_warnings():
        warnings.simplefilter("error", FindingWarning)
        x, y = gpu.zeros(200), gpu.zeros(200)
        launch = gpu.dispatch(gpu.load(demo_code()).kernels["saxpy"], 256, args=[2.0, x, y])
        with pytest.raises(FindingWarning, match="memory/out-of-bounds]: read of 4 bytes"):
            launch.wait()
        assert len(launch.wait().findings) == 3


def test_whoever_reads_the_list_is_not_warned(recwarn: pytest.WarningsRecorder) -> None:
    with Gpu.open("gfx900", check="memory", on_finding="keep", threads=1) as gpu:
        assert saxpy(gpu, 200, 256).findings
    assert not recwarn


def test_of_many_findings_some_are_reported_one_by_one(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always", FindingWarning)
    desk = LintDesk()
    with desk:
        for number in range(8):
            desk.found(Finding("memory", "out-of-bounds", f"number {number}"))
        assert not recwarn
    reported = _reported(recwarn)
    assert [each.partition(" (")[0] for each in reported] == [
        f"error[memory/out-of-bounds]: number {number}" for number in range(5)
    ]
    assert reported[-1].endswith("number 4 (and 3 more: see `findings` of the device)")
