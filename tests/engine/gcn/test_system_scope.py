"""Litmus tests at system scope: two agents and the host share memory, of every type that fine and coarse grains have.

All parties run side by side in small steps, in an order that a seed draws. Agents have page tables of their own over
the same memory of the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from softcard.core.order import Prng
from softcard.engine.gcn.api import Dispatch, StepLimit
from softcard.engine.gcn.memory import GpuMemory, MemoryType, Mtype
from softcard.engine.gcn.strict.caches import System
from softcard.engine.gcn.strict.coherence import StrictEngine
from softcard.engine.gcn.strict.findings import Finding, Host
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import DATA
from tests.engine.gcn.strict.test_coherence import HEAD, RECEIVER, SENDER, litmus, reads, without

SEEDS = range(24)
X, Y, OUT = 0, 0x400, 0x800
FINE = (Mtype.UC, Mtype.CC)
fine = pytest.mark.parametrize("mtype", FINE)

PAUSE = ["s_nop 0"] * 24
"""Time for others."""
Actor = Callable[["Bus"], Iterator[None]]


class Bus:
    """Memory that agents and the host share, and those who are at work on it."""

    def __init__(self, mtype: Mtype, seed: int) -> None:
        self.data = np.zeros(4096, np.uint8)
        self.words = self.data.view(np.uint32)
        self.type = MemoryType(mtype)
        self.system, self.seed = System(), seed
        self.engines: list[StrictEngine] = []
        self.findings: list[Finding] = []
        self.unfinished = 0

    def agent(self, text: str, groups: int = 1, name: str = "gfx803") -> Iterator[None]:
        """A kernel on an agent of its own."""
        memory = GpuMemory()
        memory.map(DATA, self.data, name="shared", type=self.type)
        dispatch = program(text, name, memory=memory, groups=[(n, 0, 0) for n in range(groups)], step_limit=500)
        engine = StrictEngine(units=groups, seed=self.seed + len(self.engines), system=self.system)
        self.engines.append(engine)
        return self.steps(engine, dispatch)

    def steps(self, engine: StrictEngine, dispatch: Dispatch) -> Iterator[None]:
        try:
            with contextlib.suppress(StepLimit):
                self.unfinished += 1
                yield from engine.steps(dispatch)
                self.unfinished -= 1
        finally:
            self.findings += engine.findings

    def load(self, offset: int) -> int:
        """A load of the host; stores that have not come there are told of."""
        for caches in self.system.caches:
            for at, store in caches.unseen(DATA + offset, 4):
                assert store is not None
                self.findings.append(Finding("not released", Host(f"the host's load at {offset:#x}"), store.place, at))
        return int(self.words[offset // 4])

    def run(self, *actors: Iterator[None]) -> None:
        """All of them to their end."""
        left, chance = list(actors), Prng(self.seed ^ 77)
        while left:
            actor = left[chance.below(len(left))]
            if next(actor, actor) is actor:
                left.remove(actor)


def outcomes(mtype: Mtype, count: int, *actors: Actor) -> tuple[set[tuple[int, ...]], list[Finding]]:
    """What was left in OUT over many seeds, and the findings. Runs that never end leave -1."""
    seen: set[tuple[int, ...]] = set()
    findings = []
    for seed in SEEDS:
        bus = Bus(mtype, seed)
        bus.run(*[actor(bus) for actor in actors])
        seen.add((-1,) if bus.unfinished else tuple(bus.words[OUT // 4 : OUT // 4 + count].tolist()))
        findings += bus.findings
    return seen, findings


def kernel(lines: Sequence[str]) -> Actor:
    return lambda bus: bus.agent(litmus(lines))


def reported(findings: list[Finding], kind: str, where: int) -> list[str]:
    """Findings of a kind about a word."""
    return [str(finding) for finding in findings if finding.kind == kind and finding.address == DATA + where]


# ---- message passing


def host_sends(bus: Bus) -> Iterator[None]:
    """Data, then the flag: the host's stores are in order."""
    for _ in range(12):
        yield
    bus.words[X // 4] = 1
    yield
    bus.words[Y // 4] = 1


def host_receives(bus: Bus) -> Iterator[None]:
    while not bus.words[Y // 4]:
        yield
    bus.words[OUT // 4] = bus.load(X)


@pytest.mark.one_in(3)
@fine
def test_agent_to_agent(mtype: Mtype) -> None:
    seen, findings = outcomes(mtype, 1, kernel(SENDER), kernel(RECEIVER))
    assert seen == {(1,)}
    assert reported(findings, "no wait", X) == []


@pytest.mark.one_in(3)
@fine
def test_host_to_agent(mtype: Mtype) -> None:
    seen, _ = outcomes(mtype, 1, host_sends, kernel(RECEIVER))
    assert seen == {(1,)}


@pytest.mark.one_in(3)
@fine
def test_agent_to_host(mtype: Mtype) -> None:
    seen, findings = outcomes(mtype, 1, kernel(SENDER), host_receives)
    assert seen == {(1,)}
    assert findings == []


@pytest.mark.one_in(3)
@fine
@pytest.mark.parametrize("receiver", [kernel(RECEIVER), host_receives])
def test_without_the_wait_the_flag_overtakes_the_data(mtype: Mtype, receiver: Actor) -> None:
    seen, findings = outcomes(mtype, 1, kernel(without(SENDER, 1)), receiver)
    assert seen == {(0,), (1,)}
    kind = "not released" if receiver is host_receives else "late store"
    assert any("flat_store_dword v[20:21], v1" in each for each in reported(findings, kind, X))


@pytest.mark.one_in(3)
@fine
@pytest.mark.parametrize("sender", [kernel(SENDER), host_sends])
def test_without_the_invalidation_data_is_old(mtype: Mtype, sender: Actor) -> None:
    seen, findings = outcomes(mtype, 1, sender, kernel(without(RECEIVER, 8)))
    assert (0,) in seen
    store = "the host, or another agent" if sender is host_sends else "(flat_store_dword v[20:21], v1)"
    assert any(f"which was stored to since: {store}" in e or store in e
               for e in reported(findings, "stale line", X))  # fmt: skip


@pytest.mark.one_in(3)
@fine
@pytest.mark.parametrize("sender", [kernel([*PAUSE, *SENDER]), host_sends])
def test_without_glc_the_flag_is_not_seen(mtype: Mtype, sender: Actor) -> None:
    seen, findings = outcomes(mtype, 1, sender, kernel([line.replace(" glc", "") for line in RECEIVER]))
    assert (-1,) in seen
    assert reported(findings, "stale line", Y)


@pytest.mark.one_in(3)
@fine
def test_without_the_wait_behind_a_load_its_value_is_not_there(mtype: Mtype) -> None:
    _, findings = outcomes(mtype, 1, host_sends, kernel(without(RECEIVER, 4)))
    assert any("v_readfirstlane_b32" in str(each) for each in findings if each.kind == "no wait")


# ---- the same with a read-modify-write as the flag: release before it, acquire behind it

RMW_SENDER = ["flat_store_dword v[20:21], v1", "s_waitcnt vmcnt(0)", "flat_atomic_add v[22:23], v1"]
RMW_RECEIVER = [
    "flat_load_dword v10, v[20:21]",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "v_mov_b32_e32 v2, 0",
    "again:",
    "flat_atomic_add v11, v[22:23], v2 glc",
    "s_waitcnt vmcnt(0) & lgkmcnt(0)",
    "v_readfirstlane_b32 s8, v11",
    "s_cmp_eq_u32 s8, 0",
    "s_cbranch_scc1 again",
    "buffer_wbinvl1_vol",
    *RECEIVER[9:],
]


@pytest.mark.one_in(3)
@fine
def test_read_modify_writes_pass_messages(mtype: Mtype) -> None:
    assert outcomes(mtype, 1, kernel(RMW_SENDER), kernel(RMW_RECEIVER))[0] == {(1,)}
    assert outcomes(mtype, 1, kernel(RMW_SENDER), host_receives)[0] == {(1,)}
    assert outcomes(mtype, 1, host_sends, kernel(RMW_RECEIVER))[0] == {(1,)}


@pytest.mark.one_in(3)
@fine
def test_without_their_wait_or_invalidation_they_do_not(mtype: Mtype) -> None:
    seen, findings = outcomes(mtype, 1, kernel(without(RMW_SENDER, 1)), kernel(RMW_RECEIVER))
    assert (0,) in seen
    assert reported(findings, "late store", X)
    seen, findings = outcomes(mtype, 1, kernel(RMW_SENDER), kernel(without(RMW_RECEIVER, 9)))
    assert (0,) in seen
    assert reported(findings, "stale line", X)


# ---- store buffering


def buffering(mine: str, other: str, offset: int) -> list[str]:
    return [
        f"flat_store_dword {mine}, v1",
        "s_waitcnt vmcnt(0)",
        f"flat_load_dword v10, {other} glc",
        *PAUSE[:16],
        "s_waitcnt vmcnt(0) & lgkmcnt(0)",
        f"v_add_u32_e32 v24, vcc, {offset}, v24",
        "flat_store_dword v[24:25], v10",
    ]


def host_buffers(bus: Bus) -> Iterator[None]:
    for _ in range(bus.seed % 10):
        yield
    bus.words[Y // 4] = 1
    yield
    bus.words[OUT // 4 + 1] = bus.load(X)


FIRST, SECOND = buffering("v[20:21]", "v[22:23]", 0), buffering("v[22:23]", "v[20:21]", 4)


@pytest.mark.one_in(3)
@fine
@pytest.mark.parametrize("second", [kernel(SECOND), host_buffers])
def test_store_buffering_is_forbidden(mtype: Mtype, second: Actor) -> None:
    seen, _ = outcomes(mtype, 2, kernel(FIRST), second)
    assert (0, 0) not in seen
    assert len(seen) > 1


@pytest.mark.one_in(3)
@fine
def test_store_buffering_shows_without_the_wait(mtype: Mtype) -> None:
    seen, findings = outcomes(mtype, 2, kernel(without(FIRST, 1)), kernel(without(SECOND, 1)))
    assert (0, 0) in seen
    assert reported(findings, "late store", X) + reported(findings, "late store", Y)
    seen, findings = outcomes(mtype, 2, kernel(without(FIRST, 1)), host_buffers)
    assert (0, 0) in seen
    assert reported(findings, "not released", X)


@pytest.mark.one_in(3)
@fine
def test_store_buffering_shows_without_glc(mtype: Mtype) -> None:
    """Where the line was cached before."""
    cached = ["flat_load_dword v12, v[22:23]", "s_waitcnt vmcnt(0)", *PAUSE, *FIRST]
    seen, findings = outcomes(mtype, 2, kernel([line.replace(" glc", "") for line in cached]), host_buffers)
    assert (0, 0) in seen
    assert reported(findings, "stale line", Y)


# ---- independent reads of independent writes: the host and an agent write, two agents read


def host_writes(bus: Bus) -> Iterator[None]:
    for _ in range(6):
        yield
    bus.words[Y // 4] = 1


def independent(mtype: Mtype, glc: str) -> tuple[set[tuple[int, ...]], list[Finding]]:
    writer = ["flat_store_dword v[20:21], v1", "s_waitcnt vmcnt(0)"]
    one, two = reads("v[20:21]", "v[22:23]", 0, glc), reads("v[22:23]", "v[20:21]", 8, glc)
    readers = (kernel([*each[:2], *PAUSE, *each[2:]]) for each in (one, two))
    return outcomes(mtype, 4, kernel([*PAUSE[:8], *writer]), host_writes, *readers)


@pytest.mark.one_in(3)
@fine
def test_all_agree_on_independent_writes(mtype: Mtype) -> None:
    seen, _ = independent(mtype, " glc")
    assert (1, 0, 1, 0) not in seen
    assert len(seen) > 2


@pytest.mark.one_in(3)
@fine
def test_without_glc_they_need_not_agree(mtype: Mtype) -> None:
    seen, findings = independent(mtype, "")
    assert (1, 0, 1, 0) in seen
    assert reported(findings, "stale line", X) + reported(findings, "stale line", Y)


# ---- coarse-grained memory is not shared while kernels run


def test_coarse_grained_memory_does_not_show_the_hosts_stores() -> None:
    """The host's flag stays unseen behind the line that the second level has."""
    seen, findings = outcomes(Mtype.NC, 1, host_sends, kernel(RECEIVER))
    assert (-1,) in seen
    found = reported(findings, "host store", Y)
    assert any("read a stale line of the second-level cache" in each and "since: the host, or another agent" in each
               for each in found)  # fmt: skip


def test_coarse_grained_memory_does_not_show_another_agents_stores() -> None:
    seen, findings = outcomes(Mtype.NC, 1, kernel([*PAUSE, *SENDER, *PAUSE]), kernel(RECEIVER))
    assert (-1,) in seen
    assert any("flat_store_dword v[22:23], v1" in each for each in reported(findings, "not released", Y))


def counts(bus: Bus) -> Iterator[None]:
    return bus.agent(HEAD + "\n".join(["flat_atomic_add v[20:21], v1"] * 5 + ["s_endpgm"]))


@pytest.mark.parametrize("mtype", [*FINE, Mtype.NC])
def test_read_modify_writes_of_two_agents(mtype: Mtype) -> None:
    """They happen in fine-grained memory, and each in its agent's cache where memory is coarse-grained."""
    sums, kinds = set(), set()
    for seed in SEEDS:
        bus = Bus(mtype, seed)
        bus.run(counts(bus), counts(bus))
        sums.add(int(bus.words[X // 4]))
        kinds |= {finding.kind for finding in bus.findings}
    assert sums == ({10} if mtype in FINE else {5, 10})
    assert kinds == (set() if mtype in FINE else {"not released", "host store"})
