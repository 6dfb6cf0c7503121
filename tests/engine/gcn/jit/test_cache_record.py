"""A second process has the machine code without emitting it, as long as nothing that it depends on differs."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softcard.engine.gcn.api import Dispatch
from softcard.engine.gcn.jit import code_metadata
from softcard.engine.gcn.jit.basics import Observed
from softcard.engine.gcn.jit.emit.emit_region import RegionEmitter
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.ir.object_cache import ObjectCache
from tests.engine.gcn.jit.test_jit import store
from tests.engine.gcn.programs import dwords, program
from tests.engine.gcn.rig import CODE

TEXT = "v_mul_u32_u24_e32 v3, {0}, v0 |"


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is emitted on a test's thread: another may be optimising what an earlier test has run."""
    names: list[str] = []
    emit, own = RegionEmitter.emit, threading.get_ident()

    def noted(self: RegionEmitter, name: str) -> str:
        if threading.get_ident() == own:
            names.append(name)
        return emit(self, name)

    monkeypatch.setattr(RegionEmitter, "emit", noted)
    return names


def run(folder: Path, factor: int = 3, tier: Tier | None = None, **options: object) -> Dispatch:
    """The program on an engine of its own, whose cache has nothing but the folder."""
    dispatch = program(TEXT.format(factor) + store(3), poison=0)
    engine = JitEngine(threads=1, tier=tier, cache=ObjectCache(folder), **options)  # type: ignore[arg-type]
    engine.run(dispatch)
    engine.close()
    assert dwords(dispatch, 64) == [factor * lane for lane in range(64)]
    return dispatch


def test_optimised_code_is_taken_up_without_emitting(tmp_path: Path, emitted: list[str]) -> None:
    run(tmp_path, tier=Tier.OPTIMISED)
    assert emitted == ["region"]
    run(tmp_path, tier=Tier.OPTIMISED)
    assert emitted == ["region"]


def test_the_first_tier_emits_no_regions(tmp_path: Path, emitted: list[str]) -> None:
    run(tmp_path, tier=Tier.THREADED)
    run(tmp_path)
    assert emitted == []


@pytest.mark.parametrize("options", [{"factor": 5}, {"lanes": 4}, {"observed": Observed.AT_END}])
def test_other_code_is_emitted(tmp_path: Path, emitted: list[str], options: dict[str, object]) -> None:
    run(tmp_path, tier=Tier.OPTIMISED)
    run(tmp_path, tier=Tier.OPTIMISED, **options)  # type: ignore[arg-type]
    assert emitted == ["region"] * 2


def test_another_version_of_the_program_emits_anew(
    tmp_path: Path, emitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, tier=Tier.OPTIMISED)
    monkeypatch.setattr(code_metadata, "translator_key", lambda: b"another")
    run(tmp_path, tier=Tier.OPTIMISED)
    assert emitted == ["region"] * 2


def test_code_whose_object_is_gone_is_emitted(tmp_path: Path, emitted: list[str]) -> None:
    run(tmp_path, tier=Tier.OPTIMISED)
    for path in tmp_path.iterdir():
        if path.read_bytes()[32:36] == b"\x7fELF":
            path.unlink()
    run(tmp_path, tier=Tier.OPTIMISED)
    assert emitted == ["region"] * 2


def test_segments_that_leave_are_finished_from_what_is_remembered(tmp_path: Path, emitted: list[str]) -> None:
    """A store that crosses the end of memory: the reference engine goes on with the segment's instructions."""
    text = "v_mov_b32_e32 v4, 0x20fffc | v_mov_b32_e32 v5, 0 | global_store_dwordx2 v[4:5], v[0:1], off | s_endpgm"
    errors = []
    for tier in (Tier.OPTIMISED, Tier.OPTIMISED):
        with pytest.raises(Exception, match="no memory there") as caught:
            JitEngine(threads=1, tier=tier, cache=ObjectCache(tmp_path)).run(program(text))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert emitted == ["region"]


def test_the_same_code_at_another_address_is_taken_up(tmp_path: Path, emitted: list[str]) -> None:
    """Jumps, addresses that code asks for, and what resumes a strip: all from where the code lies now."""
    text = "s_getpc_b64 s[8:9] | v_mov_b32_e32 v1, s8 | s_branch over | s_nop 0 | over: |" + store(1)
    for address in (CODE, CODE + 0x1000, 0x7FFF_0000_1000):
        dispatch = program(text, poison=0)
        if address != CODE:
            size = dispatch.memory.plain(CODE, 4).end - CODE  # type: ignore[union-attr]
            dispatch.memory.map(address, np.frombuffer(dispatch.memory.read(CODE, size), np.uint8).copy())
        engine = JitEngine(threads=1, tier=Tier.OPTIMISED, cache=ObjectCache(tmp_path))
        engine.run(replace(dispatch, entry=address))
        engine.close()
        assert dwords(dispatch, 64) == [address + 4 & 0xFFFF_FFFF] * 64
    assert emitted == ["region"]
