"""Stores to the page of the driver's mailboxes are messages to it: waves may send them in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.engine import JitEngine
from tests.engine.gcn.programs import program

PAGE, BYTES = 0x20_1000, 0x8000
SEND = (
    "s_mov_b64 exec, 1|v_mov_b32 v4, {:#x}|v_mov_b32 v5, 0|v_mov_b32 v6, 37|v_mov_b32 v7, 0|"
    "flat_store_dwordx2 v[4:5], v[6:7]|s_waitcnt vmcnt(0)|s_sendmsg sendmsg(MSG_INTERRUPT)|s_endpgm"
)
engines = pytest.mark.parametrize(
    "make", [ReferenceEngine, lambda: JitEngine(threads=1), lambda: JitEngine(threads=2)],
    ids=["reference", "jit", "threads"],
)  # fmt: skip


def found_at(make: Callable[[], Any], address: int, groups: int, *, early: bool = True) -> list[Finding]:
    """What is found where each wave sends a message, and the driver takes each before the next one."""
    found = list[Finding]()
    made = program(SEND.format(address), "gfx803", groups=[(n, 0, 0) for n in range(groups)], size=(128, 1, 1))
    watch = RaceWatch(made.memory, FindingLog(found))
    if early:
        watch.set_mailboxes(PAGE, BYTES)
    watch.begin()

    def take(*_: Any) -> None:
        made.memory.write(address, bytes([255]) * 8)

    dispatch = replace(made, checks=Checks(watch), on_hint=take)
    make().run(dispatch)
    if not early:
        watch.forget()
        found.clear()
        watch.set_mailboxes(PAGE, BYTES)
        watch.begin()
        make().run(dispatch)
    return found


@engines
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("early", [True, False], ids=["before", "between kernels"])
def test_messages_are_no_races(make: Callable[[], Any], groups: int, early: bool) -> None:
    for address in (PAGE, PAGE + 8 * 37, PAGE + BYTES - 8):
        assert found_at(make, address, groups, early=early) == []


@engines
@pytest.mark.parametrize("address", [PAGE - 8, PAGE + BYTES], ids=["before the page", "past its end"])
def test_the_same_stores_elsewhere_are(make: Callable[[], Any], address: int) -> None:
    (found,) = found_at(make, address, 1)
    assert found.kind == "write-write"
    assert f"write of 8 bytes at {address:#x}" in found.message
