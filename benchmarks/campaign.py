"""What does a campaign cost beside what it runs, how well do workers share processors, and how fast are programs run?

In CPU time, of client and scheduler (one process), workers, and their children: other work of the machine does not
change it. Tasks that do nothing show the bookkeeping; tasks that compute show what a second worker adds to each. What
two workers do by the clock needs a machine with nothing else to do. And what a hundred devices of a process take.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from harness import Row, Samples, cpu, latency, main

TITLE: Final = "Campaigns: bookkeeping, two workers, and programs a second"
QUESTION: Final = "campaign"
RATE_TARGET: Final = 200.0
EFFICIENCY_TARGET: Final = 0.85
SHARE_TARGET: Final = 5.0
TASK_S: Final = 0.13
"""CPU time of a task, compilation included, that bookkeeping is held against."""
BUSY_S: Final = 0.02
PROGRAMS: Final = 40
DEVICES: Final = 100
KERNEL: Final = "s_endpgm"


def child(seconds: float) -> None:
    """Be a worker's child, whose tasks take so long."""
    from softcard.campaign.worker import serve

    def perform(tasks: Sequence[Any], data: bytes) -> list[dict[str, Any]]:
        end = time.process_time() + seconds
        while seconds and time.process_time() < end:
            pass
        return [{"outcome": "ok", "digest": "0"} for _ in tasks]

    serve(perform)


def worker_seconds() -> tuple[float, float]:
    """In a worker: CPU seconds of it, and of its children that have ended."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


def campaign(tasks: int, batch: int, workers: int, seconds: float) -> tuple[float, float]:
    """CPU seconds that client and scheduler, and the workers, have taken for so many tasks."""
    from softcard.campaign.cluster import connected, run
    from softcard.campaign.dataset import Dataset
    from softcard.campaign.plan import parse_plan

    text = f"[campaign]\nbatch = {batch}\n[[matrix]]\nprograms = ['generate:gcn']\nseeds = '0..{tasks - 1}'"
    command = (sys.executable, str(Path(__file__).resolve()), "child", str(seconds))
    with tempfile.TemporaryDirectory() as folder, connected("", workers) as client:
        client.wait_for_workers(workers)
        before = sum(own for own, _ in client.run(worker_seconds).values())
        began = time.process_time()
        done = run(parse_plan(text, "c.toml", Path(folder)), Dataset(Path(folder)), client, command)
        own = time.process_time() - began
        assert done.outcomes == {"ok": tasks}
        return own, sum(own for own, _ in client.run(worker_seconds).values()) - before


def bookkeeping(quick: bool) -> list[Row]:
    tasks, rows = (2_000 if quick else 10_000), []
    for batch in (16, 64, 256):
        own, workers = campaign(tasks, batch, 2, 0.0)
        for who, spent in (("client and scheduler", own), ("workers", workers)):
            rows.append(_ms(f"a task that does nothing, {batch} in a batch: {who}", spent / tasks))
        share = 100 * (own + workers) / tasks / TASK_S
        rows.append(Row(QUESTION, f"the same of a task that takes {TASK_S * 1e3:.0f} ms, {batch} in a batch", "%",
                        share, share, target=SHARE_TARGET, lower=True))  # fmt: skip
    return rows


def efficiency(quick: bool) -> list[Row]:
    """What tasks of 20 ms leave of two processors to themselves: the rest is what brings and places them."""
    tasks = 200 if quick else 1_000
    found = BUSY_S / (BUSY_S + sum(campaign(tasks, 16, 2, BUSY_S)) / tasks)
    what = f"two workers: part of all CPU time that is spent in tasks of {BUSY_S * 1e3:.0f} ms"
    pairs = [(by_the_clock(tasks, 1), by_the_clock(tasks, 2)) for _ in range(1 if quick else 3)]
    gains = sorted(one / (2 * two) for one, two in pairs)
    best = min(one for one, _ in pairs) / (2 * min(two for _, two in pairs))
    clock = f"two workers by the clock, of twice as many tasks of {BUSY_S * 1e3:.0f} ms a second as one does"
    return [
        Row(QUESTION, what, "of 1", found, found, target=EFFICIENCY_TARGET),
        Row(QUESTION, clock, "of 1", best, gains[len(gains) // 2], target=EFFICIENCY_TARGET),
    ]


def by_the_clock(tasks: int, workers: int) -> float:
    """Seconds that so many tasks of 20 ms take on workers whose children have begun."""
    from softcard.campaign.cluster import connected, run
    from softcard.campaign.dataset import Dataset
    from softcard.campaign.plan import parse_plan

    command = (sys.executable, str(Path(__file__).resolve()), "child", str(BUSY_S))
    with tempfile.TemporaryDirectory() as folder, connected("", workers) as client:
        client.wait_for_workers(workers)
        took = 0.0
        for count in (32 * workers, tasks):
            text = f"[campaign]\nbatch = 16\n[[matrix]]\nprograms = ['generate:gcn']\nseeds = '0..{count - 1}'"
            results = Path(folder) / str(count)
            results.mkdir()
            began = time.perf_counter()
            done = run(parse_plan(text, "c.toml", results), Dataset(results), client, command)
            took = time.perf_counter() - began
            assert done.outcomes == {"ok": count}
        return took


def devices() -> list[Row]:
    """What each of a hundred devices takes that are open at once: time to make it, and memory that it adds."""
    from softcard.host.acceldev.acceldev import Acceldev
    from softcard.host.hsa.gpu import Gpu
    from softcard.host.refsi.refsi import RefSi

    def gpu_that_ran() -> Gpu:
        made = Gpu.open("gfx900", threads=1)
        made.run(made.load(assembled), "k", 64, 64, [])
        return made

    assembled = _assembled()
    kinds: dict[str, Callable[[], Any]] = {
        "HSA agent": lambda: Gpu.open("gfx900", threads=1),
        "HSA agent that has run a kernel": gpu_that_ran,
        "RefSi": RefSi.open,
        "Acceldev": Acceldev.open,
    }
    rows = []
    for name, make in kinds.items():
        with make():  # what all of a kind share
            before, began = _resident(), time.process_time()
            made = [make() for _ in range(DEVICES)]
            took, more = time.process_time() - began, _resident() - before
            for each in made:
                each.close()
        rows.append(_ms(f"each of {DEVICES} devices, {name}: making it", took / DEVICES))
        grown = more / DEVICES / (1 << 20)
        rows.append(Row(QUESTION, f"each of {DEVICES} devices, {name}: memory", "MiB", grown, grown, lower=True))
    return rows


def _assembled() -> bytes:
    from softcard.image.hsa.writer import bare_code_object
    from softcard.isa.gcn.asm.assembler import assemble
    from softcard.isa.gcn.target import target

    return bare_code_object(assemble(target("gfx900"), KERNEL), "gfx900", name="k", kernarg_bytes=0)


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def programs(quick: bool) -> list[Row]:
    """Programs a second and processor, without compilation by clang: new ones, and once their code is there."""
    from softcard.campaign.combined import combined_source
    from softcard.campaign.compilation import compile_generated
    from softcard.campaign.generators.registry import GENERATORS
    from softcard.campaign.perform import assembled, perform, run_generated, run_kernel, run_rv64
    from softcard.campaign.task import Task

    count, rows = (10 if quick else PROGRAMS), []

    def sources(first: int) -> str:
        return combined_source("opencl", [GENERATORS["opencl-small"].seeded(first + n).text() for n in range(count)])

    def kernels(first: int) -> Callable[[], None]:
        code = compile_generated(sources(first).encode(), "opencl", "gfx900", "ziglang", "-O2").code
        return lambda: [run_kernel(code, "gfx900", task, f"k_{n}") for n in range(count)] and None

    def generated(name: str) -> Callable[[], None]:
        each = [Task(f"generate:{name}", "1", seed=seed) for seed in range(count)]
        return lambda: [perform(one, b"", run_generated) for one in each] and None

    task = Task("a", "0")
    for first in range(5):  # instructions that many programs have are compiled once
        kernels(1000 * first)()
    new = [kernels(10_000 + 1000 * batch) for batch in range(3)]
    others = [(name, generated(name)) for name in ("refsi", "acceldev", "aql")]
    texts = [GENERATORS["gcn"].seeded(seed).text() for seed in range(count)]
    codes = [assembled(text, "gfx900") for text in texts]
    others.append(("gcn without assembling it", lambda: [run_kernel(code, "gfx900", task) for code in codes] and None))
    for what in ("small OpenCL C, -O2, never run before", "the same once more"):
        rows.append(_rate(what, count, Samples(tuple(cpu(each) for each in new)), target=RATE_TARGET))
    printed = combined_source("rv64", [GENERATORS["rv64-small"].seeded(seed).text() for seed in range(count)])
    elf = compile_generated(printed.encode(), "rv64", "", "ziglang", "-O2").code
    others.append(("small RV64 C, -O2, one behind the other", lambda: run_rv64(elf, task) and None))
    for name, run in others:
        run()
        rows.append(_rate(f"{name}, run before", count, Samples(tuple(cpu(run) for _ in range(9))), target=RATE_TARGET))
    return rows


def _ms(what: str, seconds: float) -> Row:
    return latency(QUESTION, what, "ms", Samples((seconds,)))


def _rate(what: str, count: int, samples: Samples, **more: Any) -> Row:
    return Row(
        QUESTION, f"programs a second and processor: {what}", "/s", count / samples.best, count / samples.median, **more
    )


def measure(quick: bool = False) -> list[Row]:
    return [*programs(quick), *bookkeeping(quick), *efficiency(quick), *devices()]


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(float(sys.argv[2]))
    else:
        main(measure, TITLE)
