"""Random programs whose waves meet marks now and then, in assembly text: in a loop, in a strip, in some lanes, in none.

Accesses, order and what is stored in the end are those of `race_programs`. Between accesses it is computed with what
was loaded, and seldom something is decided by it. Some registers are undefined at first, some operations approximate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from softcard.core.findings import Finding, FindingLog
from softcard.engine.gcn.api import Dispatch, Engine
from softcard.engine.gcn.hooks import Checks
from softcard.engine.gcn.instrumentation import Instrumentation
from softcard.engine.gcn.memory import GpuMemory
from softcard.engine.gcn.races.watch import RaceWatch
from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.shadow.check import EngineShadow
from softcard.engine.gcn.shadow.device_shadow import KINDS, DeviceShadow
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.engine.gcn.tiered.translation import Tier
from tests.agree.gcn.race_programs import Maker
from tests.engine.gcn.programs import program
from tests.engine.gcn.rig import DATA, DATA_BYTES

VALUES: Final = range(8, 16)
"""Vector registers that are computed with, beside what `Maker` has."""
SCALARS: Final = (9, 12)


class ShadowMaker(Maker):
    """Writes one program. `rough`: how often an operation is approximate; `decides`: how often marks may matter."""

    fewest, most = 1, 4

    def __init__(self, rng: np.random.Generator, name: str) -> None:
        super().__init__(rng, name)
        self.rough, self.decides = (float(rng.choice([0.0, 0.0, p])) for p in (0.1, 0.2))
        some = float(rng.choice([0.0, 0.0, 0.2]))
        self._put(*(f"v_mov_b32 v{n}, {n}" for n in VALUES if not self._chance(some)))
        self._put(*(f"s_mov_b32 s{n}, {n}" for n in SCALARS if not self._chance(some)))
        self._put("v_cmp_gt_u32 vcc, 40, v0")

    def _access(self) -> None:
        for _ in range(int(self.rng.integers(0, 5))):
            self._value()
        if self._chance(0.3):  # in another place each time round
            self._put("s_lshl_b32 s15, s20, 8", "v_lshlrev_b32 v3, 2, v0")
            self._add("v3", "s15", "v3")
            self._add("v4", "s4", "v3")
            self._put(f"flat_load_{self._pick('dword', 'ubyte')} {self._any()}, v[4:5]", "s_waitcnt vmcnt(0)")
        if self._chance(self.decides):
            self._decide()
        super()._access()

    def _any(self) -> str:
        return f"v{int(self.rng.choice(VALUES))}"

    def _value(self) -> None:
        to, a, b, scalar = self._any(), self._any(), self._any(), f"s{int(self.rng.choice(SCALARS))}"
        if self._chance(self.rough):
            self._put(f"v_rcp_f32 {to}, {a}")
        if self._chance(0.15):
            self._add(to, scalar, b)
        if self._chance(0.1):
            self._put(f"s_mov_b64 exec, {self._pick('vcc', '-1', '0x7f')}")
        self._put(
            self._pick(
                f"v_xor_b32 {to}, {a}, {b}",
                f"v_mul_f32 {to}, {a}, {b}",
                f"v_and_b32 {to}, 0xff, {a}",
                f"v_lshlrev_b32 {to}, 3, {a}",
                f"v_mad_f32 {to}, {a}, {b}, {to}",
                f"v_mov_b32 {to}, {scalar}",
                f"v_mov_b32 {to}, 0",
                f"v_cndmask_b32 {to}, {a}, {b}, vcc",
                "v_cmp_gt_u32 vcc, 20, v0",
                f"v_cmp_gt_u32 s[16:17], {a}, {b}",
                f"v_readlane_b32 {scalar}, {a}, 3",
                f"v_writelane_b32 {to}, {scalar}, 5",
                f"ds_swizzle_b32 {to}, {a} offset:0x401f",
                f"s_add_u32 {scalar}, s4, {scalar}",
                f"s_mov_b32 {scalar}, 0",
            )
        )
        if self._chance(0.5):
            self._put("s_mov_b64 exec, -1")

    def _decide(self) -> None:
        """Marks may matter: to a lane, to a branch, to an address in LDS."""
        value, label = self._any(), f"go{len(self.lines)}"
        self._put(
            *(
                (f"v_cmp_gt_u32 vcc, {value}, v0", "s_and_b64 exec, exec, vcc"),
                ("s_cmp_gt_u32 s12, 5", f"s_cbranch_scc1 {label}", "s_nop 0", f"{label}:"),
                (f"v_and_b32 {value}, 0xfc, {value}", f"ds_read_b32 v13, {value}"),
            )[int(self.rng.integers(3))]
        )


def met(name: str, lanes: int, seed: Sequence[int]) -> tuple[list[str], tuple[int, int, int]]:
    """What differs for a program on both engines, or without checks.

    And how much code was made, how much of it has met marks where it takes registers for unmarked, and how many
    instructions are told of.
    """
    rng = np.random.default_rng(list(seed))
    text = ShadowMaker(rng, name).text() + "|s_endpgm"
    groups = [(n, 0, 0) for n in range(int(rng.integers(1, 4)))]
    options = {"groups": groups, "size": (int(rng.choice([64, 100, 128, 192])), 1, 1), "lds_bytes": 1024}
    shadowed = [(int(rng.integers(0x400)), int(rng.integers(1, 200))) for _ in range(int(rng.integers(4)))]
    races, engine = bool(rng.random() < 0.3), JitEngine(threads=1, lanes=lanes, tier=list(Tier)[sum(seed) % 2])
    dispatch, other, plain = (program(text, name, **options) for _ in range(3))
    mine, theirs = _seen(engine, dispatch, shadowed, races), _seen(ReferenceEngine(), other, shadowed, races)
    lines = [part for part in mine if mine[part] != theirs[part]]
    for _ in range(2):
        ReferenceEngine().run(plain)
    if mine["launch 1, data"] != plain.memory.read(DATA, DATA_BYTES):
        lines.append("data, without checks")
    code = engine.code(dispatch.target, dispatch.memory, _instrumentation(dispatch.memory, races))
    counts = len(code._installed), len(code._replaced), len(mine["launch 1, uses"])
    engine.close()
    return [*lines, *text.split("|")] if lines else [], counts


def _seen(engine: Engine, made: Dispatch, shadowed: Sequence[tuple[int, int]], races: bool) -> dict[str, Any]:
    """What is to be seen of two launches: the second one finds what the first has left, but for some bytes."""
    device_shadow, reported = DeviceShadow(made.memory, KINDS), list[Finding]()
    watch = RaceWatch(made.memory, FindingLog(reported)) if races else None
    checks = Checks(EngineShadow(device_shadow), *([watch] if watch else []))
    seen: dict[str, Any] = {}
    for number in range(2):
        for at, size in shadowed[number::2]:
            device_shadow.undefined(DATA + at, size)
        if watch is not None:
            watch.begin()
        engine.run(replace(made, checks=checks))
        shadow_memories = {
            kind: shadow_memory.read(DATA, DATA_BYTES)
            for kind, shadow_memory in zip(KINDS, device_shadow.shadow_memories, strict=True)
        }
        parts = {"uses": device_shadow.uses.counts(), "data": made.memory.read(DATA, DATA_BYTES), **shadow_memories}
        seen |= {f"launch {number}, {name}": part for name, part in parts.items()}
    return {**seen, "races": [each.as_dict() for each in reported]}


def _instrumentation(memory: GpuMemory, races: bool) -> Instrumentation:
    checks = EngineShadow(DeviceShadow(memory, KINDS)), *([RaceWatch(memory, FindingLog([]))] if races else [])
    return Checks(*checks).instrumentation
