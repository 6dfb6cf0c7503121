"""Every planted mistake is told of at its instruction, and nothing is told of its corrected twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from softcard.engine.gcn.api import Engine
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow
from softcard.engine.gcn.shadow.origins import origin_of
from softcard.engine.gcn.shadow.uses import QUOTA
from softcard.engine.gcn.tiered.engine import JitEngine
from tests.engine.gcn.programs import program
from tests.engine.gcn.shadow.planted import CASES, Planted

ENGINES: dict[str, Engine] = {
    "reference": ReferenceEngine(),
    "jit": JitEngine(threads=1),
}
PAIRS = [(case, target) for case in CASES for target in case.targets]
NAMES = [f"{case.name}, {target}" for case, target in PAIRS]


def counts(text: str, target: str, engine: str, options: dict[str, Any]) -> dict[tuple[str, str, str], int]:
    """What is told of a program: check, what happens, mnemonic; and how often."""
    dispatch = program(text, target, **options)
    device_shadow = DeviceShadow(dispatch.memory, KINDS)
    ENGINES[engine].run(replace(dispatch, checks=Checks(EngineShadow(device_shadow))))
    uses = device_shadow.uses
    return {(*site[:2], uses.sites[site].insn.name): count for site, count in uses.counts().items()}


@pytest.mark.parametrize(("case", "target"), PAIRS, ids=NAMES)
def test_planted(case: Planted, target: str) -> None:
    """The mistake is found where it is, by both engines, in as many lanes."""
    found, again = (counts(case.wrong, target, engine, case.options) for engine in ENGINES)
    assert (case.check, case.what, case.insn) in found
    assert found == again


@pytest.mark.parametrize(("case", "target"), PAIRS, ids=NAMES)
def test_corrected(case: Planted, target: str) -> None:
    """Nothing is told of the corrected twin."""
    assert [counts(case.right, target, engine, case.options) for engine in ENGINES] == [{}, {}]


def test_origin() -> None:
    """A register that nothing has written is named, through what was computed with it."""
    dispatch = program("v_add_u32 v3, v9, v0 | v_cmp_gt_u32 vcc, v3, v0 | s_and_b64 exec, exec, vcc | s_endpgm")
    device_shadow = DeviceShadow(dispatch.memory, KINDS)
    shadowed = replace(dispatch, checks=Checks(EngineShadow(device_shadow)))
    ENGINES["jit"].run(shadowed)
    (use,) = device_shadow.uses.sites.values()
    assert origin_of(shadowed, use.insn, "init", device_shadow.uses) == "v9, which nothing has written"


def test_an_origin_names_each_place_once() -> None:
    """Also a place that a loop loads, and stores to, again and again."""
    step = "ds_read_b32 v3, v1 | s_waitcnt lgkmcnt(0) | v_add_u32 v3, v3, v0 | ds_write_b32 v1, v3"
    text = (
        f"v_mov_b32 v1, 0 | {step} | {step} | {step} | v_cmp_gt_u32 vcc, v3, v0 | s_and_b64 exec, exec, vcc | s_endpgm"
    )
    dispatch = program(text, lds_bytes=512)
    device_shadow = DeviceShadow(dispatch.memory, KINDS)
    shadowed = replace(dispatch, checks=Checks(EngineShadow(device_shadow)))
    ENGINES["reference"].run(shadowed)
    *_, use = device_shadow.uses.sites.values()
    origin = origin_of(shadowed, use.insn, "init", device_shadow.uses)
    assert origin.startswith(
        "4 bytes at offset 0x0 of LDS, which are uninitialised, loaded by ds_read_b32 v3, v1 at pc"
    )
    assert origin.count("through 4 bytes at offset 0x0 of LDS") <= 1


def test_counted_beyond_the_quota() -> None:
    """Translated code leaves for an instruction some times only; then it counts, and goes on by itself."""
    groups = [(n, 0, 0) for n in range(400)]
    text = "v_cmp_gt_u32 vcc, v5, v0 | s_and_b64 exec, exec, vcc | s_endpgm"
    results = []
    for engine in ENGINES.values():
        dispatch = program(text, groups=groups)
        device_shadow = DeviceShadow(dispatch.memory, KINDS)
        statistics = engine.run(replace(dispatch, checks=Checks(EngineShadow(device_shadow))))
        results.append(list(device_shadow.uses.counts().values()))
    assert results == [[64 * 400]] * 2
    assert statistics.interpreted <= QUOTA + 1


@pytest.mark.parametrize(
    ("target", "insn", "choice"),
    [
        ("gfx90a", "v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], 0", ""),
        ("gfx942", "v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[2:3], 0", ""),
        ("gfx942", "v_smfmac_f32_16x16x32_f16 v[8:11], v[0:1], v[2:5], v6", "gcn/matrix-sums"),
        ("gfx950", "v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[2:3], 0", "gcn/matrix-sums"),
        ("gfx950", "v_mfma_f32_16x16x4_f32 v[8:11], v0, v1, v[8:11]", "gcn/matrix-sums"),
        ("gfx950", "v_mfma_i32_16x16x32_i8 v[8:11], v[0:1], v[2:3], 0", ""),
        (
            "gfx950",
            "v_mfma_scale_f32_16x16x128_f8f6f4 v[8:11], v[0:7], v[0:7], v[8:11], v6, v6 op_sel_hi:[0,0,0]",
            "gcn/matrix-scales",
        ),
    ],
)
def test_sums_of_matrices_by_choice_are_approximate(target: str, insn: str, choice: str) -> None:
    """The check `fidelity` tells sums that were measured on hardware from those that a named choice defines."""
    zeros = "".join(f"v_mov_b32 v{n}, 0 | " for n in range(12))
    text = f"{zeros}s_nop 7 | {insn} | s_nop 15 | v_cmp_gt_f32 vcc, 1.0, v9 | s_and_b64 exec, exec, vcc | s_endpgm"
    for engine in ENGINES.values():
        dispatch = program(text, target)
        device_shadow = DeviceShadow(dispatch.memory, ("fidelity",))
        shadowed = replace(dispatch, checks=Checks(EngineShadow(device_shadow)))
        engine.run(shadowed)
        told = [
            origin_of(shadowed, use.insn, "fidelity", device_shadow.uses) for use in device_shadow.uses.sites.values()
        ]
        start = f"{insn.split()[0]} "
        assert [each.startswith(start) and each.split(", whose sums ")[1] for each in told] == [
            f"the choice {choice} defines: no measurement is published"
        ][: bool(choice)]
