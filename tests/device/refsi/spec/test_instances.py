"""Instances run as a crowd: what each does, and how it fails, is as when a probe has each told of."""

from __future__ import annotations

from typing import Any

import pytest

from softcard.device.refsi.events import InstanceStarted
from softcard.device.refsi.spec import native_instances, schedule
from softcard.device.refsi.spec.schedule import SpecSchedule
from softcard.isa.riscv.decode import assemble
from softcard.isa.riscv.state import FUEL
from tests.device.refsi.m1 import CODE, OUT, RETURN, Bench

HERE = f"lui t0, {OUT >> 12:#x}; slli t1, a0, 6; add t0, t0, t1"
"""t0: 64 bytes for this instance."""
LIMIT = 3_000_000
"""Some wait for an instance that there is not."""
END = "sd a0, 0(t0); end: jalr x0, 0(ra)"
COUNT = "lui t2, 0x40; loop: addi t2, t2, -1; bne t2, zero, loop"
PROGRAMS = {
    "empty": "jalr x0, 0(ra)",
    "state": f"{HERE}; sd sp, 8(t0); sd ra, 16(t0); sd a1, 24(t0); sd a7, 32(t0); sd s1, 40(t0); addi s1, s1, 1; {END}",
    "fault": f"{HERE}; addi t1, zero, 13; bne a0, t1, on; ld t2, 0(zero); on: {END}",
    "first faults": "ld t2, 0(zero); jalr x0, 0(ra)",
    "exit": f"{HERE}; andi t1, a0, 1; beq t1, zero, on; addi a0, zero, 0; addi a7, zero, 0; ecall; on: {END}",
    "barrier": f"{HERE}; addi a0, zero, 64; addi a7, zero, 2; ecall; ld t1, 0(t0); sd t1, 8(t0); {END}",
    "long": f"{HERE}; andi t1, a0, 7; addi t2, zero, 5; bne t1, t2, on; {COUNT}; on: {END}",
    "waits": f"{HERE}; sd sp, 8(t0); andi t1, a0, 3; bne t1, zero, on; poll: ld t2, 72(t0); beq t2, zero, poll; "
    f"on: {END}",
    "rounding": f"{HERE}; andi t1, a0, 7; csrrw t2, frm, t1; sd t2, 8(t0); {END}",
    "atomic": f"lui t0, {OUT >> 12:#x}; addi t1, zero, 1; amoadd.d t2, t1, (t0); jalr x0, 0(ra)",
}


def outcome(
    program: str, reported: bool, harts: int, count: int, step_limit: int | None = LIMIT, traced: int = 1000
) -> object:
    bench = Bench("spec", engine="jit", threads=1, step_limit=step_limit, trace_instances=traced)
    bench.device.probes._probes, bench.device.probes.active = (), False
    if reported:
        bench.device.probes.subscribe(lambda event: None, InstanceStarted)
    bench.device.write(CODE, assemble(program, CODE))
    bench.device.write(RETURN, assemble("addi a0, zero, 0; addi a7, zero, 0; ecall", RETURN))
    seen = []
    for _ in range(3):
        bench.device.write(OUT, bytes(0x2000))
        status = bench.run(*bench.kernel(CODE, 7, 1 << 63, 3, 4, 5, 6, 9, instances=count, harts=harts))
        error = status.error and (type(status.error), str(status.error))
        place = (status.ok, status.commands, status.steps, status.hart, status.pc, status.instance)
        each = [(list(hart.own_words), dict(hart.csr), hart.privilege) for hart in bench.device.accelerator.harts]
        for words, _, _ in each:
            words[FUEL] = 0  # what was left when it ended
        seen.append((error, place, bench.device.read(OUT, 0x2000), each))
    return seen


@pytest.mark.parametrize("harts", [1, 3, 4])
@pytest.mark.parametrize("program", PROGRAMS)
def test_crowds(program: str, harts: int) -> None:
    for count in (1, 5, 50, 100):
        results = [outcome(PROGRAMS[program], reported, harts, count) for reported in (True, False)]
        results.append(outcome(PROGRAMS[program], True, harts, count, traced=count // 3))
        assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("limit", [1, 30, 97, 900, 1_000_000, 2_000_000])
@pytest.mark.parametrize("program", ["empty", "long", "state", "waits"])
def test_crowds_under_a_limit(program: str, limit: int) -> None:
    results = [outcome(PROGRAMS[program], reported, 0, 100, limit) for reported in (True, False)]
    assert results[0] == results[1]


def test_a_crowd_is_run_as_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above would hold if none ever were."""
    groups: list[int] = []
    group = SpecSchedule._group

    def counted(self: SpecSchedule, plan: Any, instances: range, begun: Any = None) -> None:
        groups.append(instances.start)
        group(self, plan, instances, begun)

    monkeypatch.setattr(SpecSchedule, "_group", counted)
    outcome(PROGRAMS["state"], False, 4, 100)
    assert len(groups) < 30
    groups.clear()
    outcome(PROGRAMS["state"], True, 4, 100)
    assert len(groups) == 75


def test_crowds_end_for_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outcome(PROGRAMS["state"], True, 4, 100)
    for name, module, value in (("AT_ONCE", native_instances, 3), ("CROWD_SLICE", schedule, 100)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            assert outcome(PROGRAMS["state"], False, 4, 100) == expected
