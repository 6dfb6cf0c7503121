"""Registers of waves at chosen moments: which ones, what they hold, and what goes together with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from softcard import Gpu, RefSi, load
from softcard.amdcl2 import demo_program
from softcard.core.errors import BeyondModel, SoftcardError, WireError
from softcard.core.event import Event
from softcard.device.hsa.wave_events import RegistersLeftOut, RegistersTaken
from softcard.engine.gcn.tracepoints import Tracepoints
from softcard.host.snapshot_points import addresses_of
from softcard.hsa import demo_code
from softcard.image.elf.lines import Place
from softcard.refsi import demo_kernels
from softcard.trace.timeline import Timeline
from softcard.trace.values import to_object


def ran(choose: Callable[[Tracepoints, int], object], good: int = 384, **options: Any) -> list[Event]:
    """The events of a launch of which work-item `good`, and those after it, write to where no memory is."""
    events: list[Event] = []
    with Gpu.open("gfx900", **{"snapshots": 8, **options}) as gpu:
        gpu.device.probes.subscribe(events.append)
        code = gpu.load(demo_code("gfx900"))
        assert gpu.device.tracepoints is not None
        choose(gpu.device.tracepoints, code.kernel("broken").image.entry + code.base)
        data = gpu.array(np.zeros(768, np.float32))
        if good < 768:
            with pytest.raises(SoftcardError, match=r"no memory there|no allocation is near"):
                gpu.run(code, "broken", 768, 256, [data, good])
        else:
            gpu.run(code, "broken", 768, 256, [data, good])
    return [each for each in events if isinstance(each, RegistersTaken | RegistersLeftOut)]


def taken(events: Sequence[Event]) -> list[RegistersTaken]:
    return [each for each in events if isinstance(each, RegistersTaken)]


def lanes(it: RegistersTaken, name: str) -> np.ndarray:
    return np.array([int(word, 16) for word in it.vectors[name].split()], np.uint32)


@pytest.mark.parametrize("check", ["", "memory"])
def test_where_a_wave_fails(check: str) -> None:
    options: dict[str, Any] = {"check": check, "on_finding": "raise"} if check else {}
    [it] = taken(ran(lambda tracepoints, entry: None, **options))
    assert (it.why, it.queue, it.index, it.group, it.wave) == ("fault", 0, 0, (1, 0, 0), 2)
    assert it.instruction == "global_store_dword v[0:1], v2, off"
    assert it.scalars["exec"] == "0xffffffffffffffff"
    assert (np.diff(lanes(it, "v0").astype(np.int64)) == 4).all()
    assert lanes(it, "v2").view(np.float32).tolist() == list(range(384, 448))


def test_before_an_instruction() -> None:
    events = ran(lambda tracepoints, entry: tracepoints.pcs.add(entry + 0x30), good=768, snapshots=5)
    found = taken(events)
    assert [(each.group, each.wave) for each in found] == [((0, 0, 0), each) for each in range(4)] + [((1, 0, 0), 0)]
    assert {(each.why, each.instruction) for each in found} == {("before", "s_mul_i32 s8, s8, s2")}
    assert (found[0].scalars["s8"], found[4].scalars["s8"], found[4].scalars["s2"]) == (
        *("0x00000000", "0x00000001"),
        "0x00000100",
    )
    assert lanes(found[1], "v0").tolist() == list(range(64, 128))
    [left] = [each for each in events if isinstance(each, RegistersLeftOut)]
    assert (left.queue, left.index, left.moments) == (0, 0, 7)


def test_at_the_end_of_waves() -> None:
    found = taken(ran(lambda tracepoints, entry: setattr(tracepoints, "at_end", True), good=768, snapshots=100))
    assert len(found) == 12
    assert {(each.why, each.instruction) for each in found} == {("end", "s_endpgm")}


def test_what_does_not_go_together() -> None:
    with pytest.raises(BeyondModel, match="snapshots cannot be used with check 'init': set only one of the two"):
        Gpu.open("gfx900", snapshots=1, check="init")
    with pytest.raises(BeyondModel, match="snapshots cannot be used with coherence 'strict'"):
        Gpu.open("gfx900", snapshots=1, coherence="strict")
    with pytest.raises(WireError, match="snapshots is -1, expected 0 or more"):
        Gpu.open("gfx900", snapshots=-1)
    with Gpu.open("gfx900") as gpu:
        assert gpu.device.tracepoints is None


def test_counts_and_results_are_the_same() -> None:
    counts = []
    for snapshots in (0, 3):
        with Gpu.open("gfx900", snapshots=snapshots, count_instructions=True) as gpu:
            code, data = gpu.load(demo_code("gfx900")), gpu.array(np.zeros(300, np.float32))
            if gpu.device.tracepoints is not None:
                gpu.device.tracepoints.pcs.add(code.base + code.kernel("broken").image.entry)
            gpu.run(code, "broken", 300, 256, [data, 300])
            counts.append({pc - code.base: count for pc, count in gpu.instruction_counts().items()})
            assert (data == np.arange(300)).all()
    assert counts[0] == counts[1]


def test_a_report_keeps_registers_beside_the_events() -> None:
    records = [to_object(each) for each in ran(lambda tracepoints, entry: None)]
    about, _ = Timeline(records).columns()
    [[event, why, place, pc, text, scalars, vectors]] = about["snapshots"]
    assert (event, why, place) == (0, "fault", "wave 2, group 1,0,0, packet 0, queue 0")
    assert (pc[:2], text[:12]) == ("0x", "global_store")
    assert ["exec", "0xffffffffffffffff"] in scalars
    assert [name for name, _ in vectors] == ["v0", "v1", "v2", "v3"]
    names = {column["name"] for table in about["tables"] for column in table}
    assert not names & {"scalars", "vectors"}
    assert about["tracks"][0][0] == "queue 0 wave 2"


def test_places_of_the_command_line() -> None:
    places = {0x100: Place("/a/k.cl", 3), 0x104: Place("/a/k.cl", 3), 0x108: Place("/a/k.cl", 4)}
    places |= {0x10C: Place("/a/k.cl", 3)}

    def at(text: str) -> list[int]:
        return addresses_of(text, {"k": 0x100}, range(0x100, 0x110, 4), places.get)

    assert (at("0x44"), at("k"), at("k+0x10"), at("k+8")) == ([0x44], [0x100], [0x110], [0x108])
    assert (at("k.cl:3"), at("a/k.cl:4")) == ([0x100, 0x10C], [0x108])
    for text, said in (
        ("k.cl:9", "no instruction comes from that line"),
        ("l", "unknown symbol 'l'"),
        ("k+x", "'x' is not a number"),
    ):
        with pytest.raises(WireError, match=said):
            at(text)


def test_hosts_choose_points_by_text():
    """As the command line does: by symbol and offset, by line, or at the end."""
    with Gpu.open("gfx900", snapshots=8) as gpu:
        events: list[Event] = []
        gpu.device.probes.subscribe(events.append, RegistersTaken)
        code = gpu.load(demo_code("gfx900"))
        code.snapshot_at(["saxpy+0", "end"])
        gpu.run(code, "saxpy", 64, 64, [2.0, gpu.zeros(64), gpu.zeros(64)])
        entry = code.kernel("saxpy").image.entry + code.base
        taken = [each for each in events if isinstance(each, RegistersTaken)]
        assert [each.pc for each in taken][:1] == [entry]
        assert len(taken) == 2
        with pytest.raises(WireError, match="sax: unknown symbol 'sax'; did you mean 'saxpy'"):
            code.snapshot_at(["sax"])
    with Gpu.open("gfx900") as gpu, pytest.raises(WireError, match="the device takes no snapshots of registers"):
        gpu.load(demo_code("gfx900")).snapshot_at(["saxpy"])


def test_programs_of_the_other_hosts_choose_points_too():
    with load(demo_program("tonga", 200406), snapshots=8) as program:
        (name, *_) = program.kernels
        program.snapshot_at([f"{name}+8"])
        assert program.tracepoints is not None
        header = program.container.kernel(name).header
        assert program.tracepoints.pcs == {program.code.kernels[name] + header.kernel_code_entry_byte_offset + 8}
    with RefSi.open(snapshots=8) as device:
        loaded = device.load_elf(demo_kernels())
        loaded.snapshot_at(["vector_add"])
        assert device.port.tracepoints is not None
        assert device.port.tracepoints.pcs == {loaded.kernel("vector_add").entry}
