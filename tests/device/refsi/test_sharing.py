"""Harts that wait for each other: locks, barriers, flags, rings, stacks, in turns and on threads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from softcard.core.errors import AccessFault, SoftcardError
from softcard.core.event import Event
from softcard.device.refsi.accelerator import StepLimit
from softcard.device.refsi.events import ConsoleOutput, DmaTransfer, InstanceStarted
from softcard.host.refsi.launch import LaunchResult
from softcard.host.refsi.refsi import RefSi
from softcard.isa.riscv.decode import assemble

PROGRAM = Path(__file__).parents[2] / "vectors" / "refsi" / "sharing.elf"
LIMIT = 60_000_000
COUNT, TURN, PLAIN, SUM, NODES = 2, 3, 6, 25, 27
"""Words of the data that kernels share."""
ENDS = {
    "k_barrier": (60, COUNT, 240),
    "k_spinlock": (300, PLAIN, 1200),
    "k_ticket": (40, PLAIN, 160),
    "k_cas": (300, COUNT, 1200),
    "k_token": (20, TURN, 80),
    "k_ring": (100, SUM, 2 * (sum(range(100)) + 100)),
    "k_backoff": (200, PLAIN, 800),
}
"""Rounds, and the word and its value after them."""
WAYS = [("spec", "jit", 1), ("spec", "jit", 4), ("spec", "reference", 1), ("refsidrv", "jit", 1)]


def run(device: RefSi, kernel: str, rounds: int) -> tuple[LaunchResult, np.ndarray]:
    device.load_elf(PROGRAM)
    data = device.zeros(256, np.uint64)
    return device.launch(kernel, 4, [data, rounds]), data.array.copy()


@pytest.mark.parametrize(("profile", "engine", "threads"), WAYS)
@pytest.mark.parametrize("kernel", ENDS)
def test_harts_that_wait_for_each_other_end(kernel: str, profile: str, engine: str, threads: int) -> None:
    rounds, word, value = ENDS[kernel]
    with RefSi.open(profile=profile, engine=engine, threads=threads, step_limit=LIMIT) as device:
        result, data = run(device, kernel, rounds)
    assert data[word] == value
    assert result.instructions < 2_000_000
    if kernel == "k_barrier":
        assert not any(data[NODES : NODES + 8 : 2]), "a hart passed before another had come"


@pytest.mark.parametrize(("rounds", "helpers"), [(20_000, 0), (40_000, 1)])
def test_harts_go_on_threads_after_their_first_turn(rounds: int, helpers: int) -> None:
    """Eight instructions a round: less than a turn of 200,000, and less than two."""
    before = set(threading.enumerate())
    with RefSi.open(threads=2) as device:
        result, _ = run(device, "k_alone", rounds)
        started = [each for each in set(threading.enumerate()) - before if each.name.startswith("softcard-hart")]
    assert helpers * 4 * 200_000 < result.instructions < (helpers + 1) * 4 * 200_000
    assert len(started) == helpers


@pytest.mark.parametrize("kernel", [*ENDS, "k_stack"])
def test_counts_depend_on_neither_threads_nor_engine(kernel: str) -> None:
    """Even where harts race: turns end at the same instruction everywhere."""
    found = []
    for engine, threads in (("jit", 1), ("jit", 1), ("jit", 3), ("reference", 1)):
        with RefSi.open(engine=engine, threads=threads, step_limit=LIMIT) as device:
            result, data = run(device, kernel, 20)
            found.append((result.instructions, data.tobytes()))
    assert len(set(found)) == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_a_stack_without_locks_that_needs_sc_to_fail(threads: int) -> None:
    with RefSi.open(threads=threads, step_limit=LIMIT) as device:
        _, data = run(device, "k_stack", 20_000)
    uses = data[NODES + 1 : NODES + 16 : 2]
    assert sum(uses) == 4 * 20_000, "every node that was taken was put back"
    assert not any(data[-256 + 155 : -256 + 159]), "two harts had one node"


@pytest.mark.parametrize(
    ("work", "ways"),
    [(0x40, (("jit", 1), ("jit", 4), ("reference", 1))), (0x200, (("jit", 1), ("jit", 2), ("jit", 4)))],
)
def test_long_harts_leave_threads_to_synchronize(work: int, ways: tuple[tuple[str, int], ...]) -> None:
    """After much work of their own: a fence, then a lock."""
    alone = f"addi t0, zero, 0; lui t1, {work:#x}; loop: addi t0, t0, 1; bne t0, t1, loop"
    lock = """
        again: addi t2, zero, 1
        wait: amoswap.w.aq t2, t2, (a1)
        bne t2, zero, wait
        ld t3, 8(a1)
        addi t3, t3, 1
        sd t3, 8(a1)
        amoswap.w.rl zero, zero, (a1)
        addi a2, a2, -1
        bne a2, zero, again
        jalr zero, 0(ra)
    """
    found: set[tuple[int, int]] = set()
    for engine, threads in ways:
        with RefSi.open(engine=engine, threads=threads) as device:
            program = device.load_elf(PROGRAM)
            data = device.zeros(4, np.uint64)
            code = assemble(f"{alone}\nfence\n{lock}")
            place = device.array(np.frombuffer(code.ljust(-(-len(code) // 8) * 8, b"\0"), np.uint64))
            kernel = type(program.kernel("k_alone"))("mine", place.address, program)
            result = device.launch(kernel, 4, [data, 500])
            found.add((result.instructions, int(data.array[1])))
    ((_, count),) = found
    assert count == 2000


def test_a_launch_uses_threads() -> None:
    """The console of a launch listens to output only."""
    before = set(threading.enumerate())
    with RefSi.open(threads=2) as device:
        run(device, "k_alone", 1_000_000)
        started = [t for t in threading.enumerate() if t not in before and t.name.startswith("softcard-hart")]
        assert 1 + len(started) == 2, "the calling thread is the other one"
    with RefSi.open(threads=2) as device:
        before = set(threading.enumerate())
        seen: list[Event] = []
        device.port.probes.subscribe(seen.append, InstanceStarted)
        cancel = device.port.probes.subscribe(seen.append, DmaTransfer)
        run(device, "k_alone", 1_000_000)
        mine = [t for t in threading.enumerate() if t not in before and t.name.startswith("softcard-hart")]
        assert not mine, "transfers are told in the order of turns"
        assert [type(event) for event in seen] == [InstanceStarted] * 4
        cancel()
        assert not device.port.probes.wants(DmaTransfer, ConsoleOutput)


def test_a_step_limit_reports_who_was_not_served() -> None:
    with RefSi.open(step_limit=1000) as device, pytest.raises(StepLimit) as caught:
        run(device, "k_alone", 1_000_000)
    assert (
        "not ended after 1000 instructions (step_limit; time_limit_seconds is 300); of the harts that still run, "
        "hart 0 had 1 time slice, hart 1 had no time slice, hart 2 had no time slice, hart 3 had no time slice: "
        "those with no time slice have executed nothing yet, and others may wait for them"
    ) in str(caught.value)
    with RefSi.open(step_limit=1_000_000) as device, pytest.raises(StepLimit) as caught:
        run(device, "k_never", 0)
    assert "of the harts that still run, hart 0 had 4" in str(caught.value)
    assert "no time slice" not in str(caught.value)


# -- barriers that kernels make themselves

BARRIER = """
    addi sp, sp, -64
    addi s0, sp, 64
    sd a1, -24(s0)
    addi t0, zero, 0
    round: xori t0, t0, 1
    addi t1, zero, 1
    amoadd.d.aqrl t1, t1, (a1)
    addi t2, zero, 3
    beq t1, t2, last
    {wait}
    jal zero, next
    last: sd zero, 0(a1)
    ld t1, 16(a1)
    addi t1, t1, 1
    sd t1, 16(a1)
    fence
    sd t0, 8(a1)
    next: addi a2, a2, -1
    bne a2, zero, round
    addi sp, sp, 64
    jalr zero, 0(ra)
"""
"""The last of four harts counts, and changes a word that the others wait for."""
WAITS = {
    "plain": "wait: fence; ld t1, 8(a1); fence; bne t1, t0, wait",
    "atomic": "wait: amoor.d t1, zero, (a1); addi t2, a1, 8; amoor.d t1, zero, (t2); bne t1, t0, wait",
    "that counts": "wait: addi t3, t3, 1; ld t1, 8(a1); bne t1, t0, wait",
    "with a limit": "lui t3, 0x8000; wait: addi t3, t3, -1; beq t3, zero, last; ld t1, 8(a1); bne t1, t0, wait",
    "with pauses": (
        "wait: ld t1, 8(a1); beq t1, t0, next; addi t3, zero, 20; pause: addi t3, t3, -1; bne t3, zero, pause; "
        "jal zero, wait"
    ),
    "not optimised": "wait: ld t1, -24(s0); ld t1, 8(t1); fence; sd t1, -40(s0); ld t1, -40(s0); bne t0, t1, wait",
}
CROSSINGS = 60


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize(("engine", "threads"), [("jit", 1), ("jit", 4), ("reference", 1)])
def test_a_barrier_costs_thousands_of_instructions(engine: str, threads: int, wait: str) -> None:
    """No more than where harts take turns of 5000, as in the reference driver: 15,000 for a crossing."""
    code = assemble(BARRIER.format(wait=WAITS[wait]))
    with RefSi.open(engine=engine, threads=threads, step_limit=LIMIT) as device:
        program = device.load_elf(PROGRAM)
        place = device.array(np.frombuffer(code.ljust(-(-len(code) // 8) * 8, b"\0"), np.uint64))
        data = device.zeros(4, np.uint64)
        kernel = type(program.kernel("k_alone"))("mine", place.address, program)
        result = device.launch(kernel, 4, [data, CROSSINGS])
        assert data.array[2] == CROSSINGS
    assert result.instructions < CROSSINGS * 15_000


# -- reservations

KEEP = """
    lr.d t0, (a1)
    addi t1, zero, 1
    sd t1, 8(a1)
    wait: ld t2, 16(a1)
    beq t2, zero, wait
    sc.d t3, a2, (a1)
    sd t3, 24(a1)
    jalr zero, 0(ra)
"""
"""Reserve, say so, wait for the others, and store."""
OTHERS = {
    "the same value": "sd t0, 0(a1)",
    "another and back": "addi t4, zero, 7; sd t4, 0(a1); sd t0, 0(a1)",
    "an atomic": "amoadd.d zero, zero, (a1)",
    "a narrow store": "sb t0, 0(a1)",
}


@pytest.mark.parametrize("store", OTHERS)
@pytest.mark.parametrize(("profile", "engine", "threads"), WAYS)
def test_sc_fails_after_another_harts_store(profile: str, engine: str, threads: int, store: str) -> None:
    other = f"""
        wait: ld t2, 8(a1)
        beq t2, zero, wait
        ld t0, 0(a1)
        {OTHERS[store]}
        addi t1, zero, 1
        sd t1, 16(a1)
        jalr zero, 0(ra)
    """
    assert _pair(KEEP, other, profile, engine, threads) == [5, 1, 1, 1]


def _pair(first: str, second: str, profile: str, engine: str, threads: int, before: str = "") -> list[int]:
    """Hart 0 runs `first`, hart 1 `second`, after much work of their own where there are threads."""
    work = "lui t5, 0x200; busy: addi t5, t5, -1; bne t5, zero, busy" if threads > 1 else "addi t5, zero, 0"
    with RefSi.open(profile=profile, engine=engine, threads=threads, step_limit=LIMIT) as device:
        program = device.load_elf(PROGRAM)
        words = []
        for text in (first, second):
            code = assemble(f"{work}\n{text}")
            words.append(code + bytes(-len(code) % 8))
        choose = assemble(f"beq a0, zero, .+8; jal zero, .+{4 + len(words[0])}")
        place = device.array(np.frombuffer(choose + words[0] + words[1], np.uint64))
        data = device.array(np.array([5, 0, 0, 9], np.uint64))
        kernel = type(program.kernel("k_alone"))("mine", place.address, program)
        device.launch(kernel, 2, [data, 99])
        return [int(word) for word in data.array]


@pytest.mark.parametrize("engine", ["jit", "reference"])
def test_sc_fails_after_a_transfer_to_its_granule(engine: str) -> None:
    """DMA is another device: it takes the reservation, however the bytes compare."""
    for distance, failed in ((0, 1), (8, 0)):
        text = f"""
            lr.d t0, (a1)
            lui t1, 0x20002
            addi t2, a1, {32 + distance}
            sd t2, 24(t1)
            addi t2, a1, {distance}
            sd t2, 32(t1)
            addi t2, zero, 8
            sd t2, 40(t1)
            addi t2, zero, 0x11
            sd t2, 0(t1)
            ld t2, 8(t1)
            sd t2, 16(t1)
            sc.d t3, a2, (a1)
            sd t3, 24(a1)
            jalr zero, 0(ra)
        """
        with RefSi.open(engine=engine, step_limit=LIMIT) as device:
            program = device.load_elf(PROGRAM)
            code = assemble(text)
            place = device.array(np.frombuffer(code + bytes(-len(code) % 8), np.uint64))
            data = device.array(np.array([5, 0, 0, 9, 5, 0, 0, 0], np.uint64))
            kernel = type(program.kernel("k_alone"))("mine", place.address, program)
            for _ in range(4):
                device.launch(kernel, 1, [data, 5])
                assert data.array[3] == failed


def test_an_error_is_the_same_on_threads() -> None:
    for threads in (1, 4):
        with RefSi.open(threads=threads, step_limit=LIMIT) as device, pytest.raises(SoftcardError) as caught:
            _fault_after_work(device)
        assert "0x8" in str(caught.value)


def _fault_after_work(device: RefSi) -> None:
    program = device.load_elf(PROGRAM)
    code = assemble("lui t5, 0x200; busy: addi t5, t5, -1; bne t5, zero, busy; ld t0, 8(zero); jalr zero, 0(ra)")
    place = device.array(np.frombuffer(code + bytes(-len(code) % 8), np.uint64))
    device.launch(type(program.kernel("k_alone"))("mine", place.address, program), 4)


@pytest.mark.parametrize("engine", ["jit", "reference"])
@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
@pytest.mark.parametrize(
    ("text", "cause"), [("lr.d t0, (t1)", "load"), ("sc.d t0, a0, (t1)", "store"), ("lr.w t0, (t2)", "load")]
)
def test_registers_cannot_be_reserved(text: str, cause: str, profile: str, engine: str) -> None:
    with RefSi.open(profile=profile, engine=engine) as device:
        program = device.load_elf(PROGRAM)
        code = assemble(f"lui t1, 0x20002\naddi t1, t1, 24\nlui t2, 0x20100\n{text}\njalr zero, 0(ra)")
        place = device.array(np.frombuffer(code + bytes(-len(code) % 8), np.uint64))
        kernel = type(program.kernel("k_alone"))("mine", place.address, program)
        with pytest.raises(AccessFault) as caught:
            device.launch(kernel, 1)
    expected = "holds registers, expected memory" if profile == "spec" else f"reserved {cause} of"
    assert expected in str(caught.value)
    assert text.replace(" (", "(").replace(", ", ",") in str(caught.value).replace(" (", "(")


@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_other_atomics_reach_registers(profile: str) -> None:
    with RefSi.open(profile=profile) as device:
        program = device.load_elf(PROGRAM)
        code = assemble(
            "lui t1, 0x20002\nld t0, 24(t1)\namoadd.d t0, a0, (t1)\njalr zero, 0(ra)".replace("(t1)\nj", "(t1)\nj")
        )
        place = device.array(np.frombuffer(code + bytes(-len(code) % 8), np.uint64))
        assert device.launch(type(program.kernel("k_alone"))("mine", place.address, program), 1).status.ok
