"""Coverage of source lines and branches by kernels, recorded from every engine."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from softcard import Gpu, RefSi
from softcard.core.errors import WireError
from softcard.core.lint import CoverageWarning
from softcard.coverage import Coverage, FileCoverage, record
from softcard.device.hsa.settings import Settings
from softcard.image.assembly.program import assemble
from softcard.image.elf.lines import Lines, Place

MASKED = """    .amdgcn_target "amdgcn-amd-amdhsa--gfx900"
    .text
    .globl masked
    .p2align 8
    .type masked,@function
masked:
    s_mov_b64 s[4:5], exec
    v_cmp_gt_u32_e32 vcc, 0, v0         ; never
    s_and_b64 exec, exec, vcc
    v_mov_b32_e32 v1, 1                 ; line 10: no lane is active
    s_mov_b32 s6, 3                     ; line 11: scalar, executed
    s_cbranch_execnz 1f                 ; line 12: never taken
    s_mov_b64 exec, s[4:5]
1:  v_mov_b32_e32 v2, 2                 ; line 14
2:  s_sub_u32 s6, s6, 1
    s_cmp_lg_u32 s6, 0
    s_cbranch_scc1 2b                   ; line 17: taken twice, then not
    s_branch 3f
    v_mov_b32_e32 v3, 3                 ; line 19: skipped
3:  s_endpgm
    .section .rodata,"a"
    .p2align 6
    .amdhsa_kernel masked
      .amdhsa_next_free_vgpr 4
      .amdhsa_next_free_sgpr 8
    .end_amdhsa_kernel
"""
HARTS = """    .text
    .globl count
    .type count,@function
count:
    li a5, 3
1:  addi a5, a5, -1
    bnez a5, 1b             # line 7: both ways
    beqz a0, 2f             # line 8: one way
    beqz a5, 2f             # line 9: the other way
    li a6, 1                # line 10: skipped
2:  ret
    .size count, .-count
"""
INLINED = """int triple(int x) {
    return x * 3;
}
int unused(int x) {
    return x * 5;
}
kernel void k(global int *a, int n) {
    int i = get_global_id(0);
    if (i < n)
        a[i] = triple(a[i]);
    if (n > 1000)
        a[i] = 5;
}
"""


def covered_masked(path: Path, **settings: str) -> FileCoverage:
    """The coverage of MASKED by two waves."""
    path.write_text(MASKED)
    code = assemble(MASKED).elf(str(path))
    with record() as recording, Gpu.open("gfx900", **settings) as gpu:  # type: ignore[arg-type]
        gpu.run(code, "masked", grid=128, group=64, args=[])
    return recording.read().files[str(path)]


@pytest.mark.parametrize("settings", [{"engine": "jit"}, {"engine": "reference"}, {"check": "waits"}], ids=str)
def test_a_line_has_run_if_a_lane_was_active(tmp_path: Path, settings: dict[str, str]) -> None:
    found = covered_masked(tmp_path / "masked.s", **settings)
    assert found.lines == {
        7: 2, 8: 2, 9: 2, 10: 0, 11: 2, 12: 2, 13: 2, 14: 2, 15: 6, 16: 6, 17: 6, 18: 2, 19: 0, 20: 2
    }  # fmt: skip
    assert [(line, outcome, taken) for (line, _, outcome), taken in sorted(found.branches.items())] == [
        (12, 0, 2), (12, 1, 0), (17, 0, 2), (17, 1, 4),
    ]  # fmt: skip
    assert found.both_ways() == {17}
    assert found.functions == {"masked": (7, 2)}


@pytest.mark.parametrize(
    "settings",
    [{"engine": "reference"}, {"tier": "first"}, {"tier": "optimised"}, {"tier": "auto"}, {"check": "races"}],
    ids=str,
)
def test_harts(tmp_path: Path, settings: dict[str, str]) -> None:
    path = tmp_path / "count.s"
    path.write_text(HARTS)
    code = assemble(HARTS, "rv64gc").elf(str(path))
    with record() as recording, RefSi.open(**settings) as device:  # type: ignore[arg-type]
        device.load_elf(code)
        device.launch("count", 4, [])
        first = recording.read().files[str(path)].lines[5]
        assert first == 4
    found = recording.read().files[str(path)]
    taken = [(line, outcome, taken) for (line, _, outcome), taken in sorted(found.branches.items())]
    assert found.lines == {5: 4, 6: 12, 7: 12, 8: 4, 9: 3, 10: 0, 11: 4}  # a0 is the number of the instance
    assert taken == [(7, 0, 4), (7, 1, 8), (8, 0, 3), (8, 1, 1), (9, 0, 0), (9, 1, 3)]


def test_inlined_functions_have_their_own_lines(tmp_path: Path) -> None:
    path = tmp_path / "k.cl"
    path.write_text(INLINED)
    a = np.ones(128, np.int32)
    with record() as recording, Gpu.open("gfx900") as gpu:
        gpu.run(gpu.compile(f'#line 1 "{path}"\n{INLINED}'), "k", grid=128, group=64, args=[a, 64])
    found = recording.read().files[str(path)]
    ran = {line: bool(count) for line, count in found.lines.items()}
    assert ran[2]  # in the kernel; the function of its own is left out
    assert not ran[5]  # a function that no kernel calls
    assert ran[9]
    assert not ran[12]
    assert "triple" not in found.functions
    assert found.functions["k"][1] == 2


def test_code_at_the_address_of_unloaded_code(tmp_path: Path) -> None:
    path = tmp_path / "masked.s"
    path.write_text(MASKED)
    code = assemble(MASKED).elf(str(path))
    with record() as recording, Gpu.open("gfx900") as gpu:
        for _ in range(3):
            loaded = gpu.load(code)
            gpu.run(loaded, "masked", grid=64, args=[])
            loaded.unload()
        gpu.reset()
        gpu.run(gpu.load(code), "masked", grid=64, args=[])
        gpu.reset()
        gpu.load(code)
    assert recording.read().files[str(path)].lines[7] == 4


def test_a_device_that_is_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "masked.s"
    path.write_text(MASKED)
    with record() as recording:
        gpu = Gpu.open("gfx900")
        gpu.run(assemble(MASKED).elf(str(path)), "masked", grid=64, args=[])
        assert recording.devices
        del gpu
        gc.collect()
        assert not recording.devices
    assert recording.read().files[str(path)].lines[7] == 1


def test_code_without_lines_is_named() -> None:
    with record() as recording, Gpu.open("gfx900") as gpu:
        gpu.run(assemble(MASKED).elf(), "masked", grid=64, args=[])
    text = "0 of 0 lines of 0 files, none of masked, which has no line table (compile it with -gline-tables-only)"
    assert recording.read().summary() == text


def test_settings_without_coverage() -> None:
    wanted = "the coverage lacks the kernels of a device with {}: record it in a run without this setting"
    with record():
        for settings, text in (
            ({"coherence": "strict"}, "coherence='strict'"),
            ({"check": "memory,races"}, "check='races' on engine 'jit'"),
            ({"check": "init"}, "check='init' on engine 'jit'"),
        ):
            with pytest.warns(CoverageWarning) as caught:
                assert not Settings(**settings).count_instructions  # type: ignore[arg-type]
            assert str(caught[0].message) == wanted.format(text)
        assert Settings(check="memory,waits").count_instructions
        assert Settings(check="init", engine="reference").count_instructions
    assert not Settings().count_instructions


def test_runs_add_up_in_a_file(tmp_path: Path) -> None:
    path, target = tmp_path / "masked.s", tmp_path / "all.info"
    found = covered_masked(path)
    one = Coverage()
    one.files[str(path)] = found
    one.files["/no/such/file"] = FileCoverage({1: 1})
    one.write_lcov(target)
    text = target.read_text()
    assert text.splitlines()[:5] == ["TN:", f"SF:{path}", "FN:7,masked", "FNDA:2,masked", "FNF:1"]
    assert text.splitlines()[-5:] == ["DA:19,0", "DA:20,2", "LF:14", "LH:12", "end_of_record"]
    assert "BRF:4\nBRH:3\n" in text
    assert Coverage.from_lcov(text).lcov() == text
    one.write_lcov(target)
    both = Coverage.from_lcov(target.read_text()).files[str(path)]
    assert both.lines == {line: 2 * count for line, count in found.lines.items()}
    assert both.functions == {"masked": (7, 4)}
    assert sorted(both.branches.values(), key=int) == [0, 4, 4, 8]  # type: ignore[arg-type]


def test_a_branch_that_has_not_run() -> None:
    file = FileCoverage({1: 0}, {(1, 5, 0): None, (1, 5, 1): None})
    file.add(FileCoverage({1: 0}, {(1, 5, 0): None, (1, 5, 1): None}))
    assert set(file.branches.values()) == {None}
    file.add(FileCoverage({1: 3}, {(1, 5, 0): 3, (1, 5, 1): 0}))
    assert file.branches == {(1, 5, 0): 3, (1, 5, 1): 0}


def test_a_file_of_another_kind_stays(tmp_path: Path) -> None:
    target = tmp_path / "notes.txt"
    target.write_text("SF:/a\nDA:some,1\n")
    text = r"line 2 of .*notes.txt is 'DA:some,1', expected a record of LCOV such as DA:12,1: name another file"
    with pytest.raises(WireError, match=text):
        Coverage().write_lcov(target)
    assert target.read_text() == "SF:/a\nDA:some,1\n"


def test_moved_instructions_do_not_count_for_their_line() -> None:
    """The address computation of line 10 is before the branch of line 9, which skips line 10."""
    from softcard.engine.hooks import Executions
    from softcard.image.coverage import CodeLines, Function, Instruction

    def count(own_branch: bool) -> dict[int, int]:
        at = [("k.c", 9)], [("k.c", 10)]
        insns = (
            Instruction(0, tuple(at[0]), is_vector=True),
            Instruction(4, tuple(at[1]), is_vector=True),
            Instruction(8, tuple(at[own_branch]), branch=1),
            Instruction(12, tuple(at[1]), is_vector=True),
        )
        code = object.__new__(CodeLines)
        code.functions = (Function("k", True, insns, frozenset(line for each in insns for line in each.lines)),)
        executions = Executions()
        executions.counts.update({0: 5, 4: 5, 8: 5})
        executions.taken.update({8: 5})
        found = Coverage()
        found.add_code(code, executions)
        (file,) = found.files.values()
        return file.lines

    assert count(own_branch=False) == {9: 5, 10: 0}
    assert count(own_branch=True) == {9: 5, 10: 5}  # as in a division, whose rare part did not run


def test_ranges_of_lines() -> None:
    places = Place("a", 1), Place("a", 2)
    lines = Lines([(16, places[0]), (20, places[1]), (24, None), (32, places[0]), (40, None)])
    assert lines.ranges() == [(16, 24), (32, 40)]
    assert Lines([]).ranges() == []
    place = Place("/usr/include/x.h", 3, ("/usr/include/x.h:3", "b.c:4", "b.c:4", "c.c:5"))
    assert place.user_lines() == (("b.c", 4), ("c.c", 5))
