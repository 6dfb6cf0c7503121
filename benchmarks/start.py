"""How long until the first result?

Each number comes from new processes: one with an empty folder for compiled code (cold), then others with what the
first left there (warm). Python's bytecode is there in both. The kernel, made here,
is about 1,000 instructions of straight-line code in loops.
"""

from __future__ import annotations

import json
import sys
import time
from random import Random
from typing import Final

from harness import Row, Samples, latency, main
from processes import cold_and_warm

BLOCKS: Final = 28
STRAIGHT: Final = 34
"""BLOCKS loops of STRAIGHT instructions and two that count: with start and end about 1,000."""
TRIPS: Final = 20
DATA: Final = 0x5000_0000
CODE: Final = 0x6000_0000
STACK_TOP: Final = 0x4800_0000
RETURN_ADDRESS: Final = 0xDEAD_0000
COLD_TARGET_MS: Final = 100
WARM_TARGET_MS: Final = 20
TITLE: Final = "Start: times of new processes"


def kernel_text() -> str:
    """Assembly text: loops one after the other, each with arithmetic, loads and stores in its body."""
    random = Random(1)
    lines = ["slli t0,a0,12", "add a1,a1,t0"]
    lines += [f"addi {register},zero,{number}" for number, register in enumerate(("t1", "t2", "t3", "t4"), 1)]
    for block in range(BLOCKS):
        lines += [f"addi t0,zero,{TRIPS}", f"loop{block}:"]
        for _ in range(STRAIGHT):
            to, one, two = (random.choice(("t1", "t2", "t3", "t4")) for _ in range(3))
            offset = 8 * random.randrange(256)
            lines.append(
                random.choice(
                    (
                        f"add {to},{one},{two}",
                        f"xor {to},{one},{two}",
                        f"sub {to},{one},{two}",
                        f"mul {to},{one},{two}",
                        f"slli {to},{one},{random.randrange(1, 20)}",
                        f"srli {to},{one},{random.randrange(1, 20)}",
                        f"ld {to},{offset}(a1)",
                        f"sd {one},{offset}(a1)",
                    )
                )
            )
        lines += ["addi t0,t0,-1", f"bne t0,zero,loop{block}"]
    return "\n".join([*lines, "jalr zero,0(ra)"])


def child() -> None:
    """In a new process: print seconds of importing, opening, the first launch and a second one, as JSON."""
    begin = time.perf_counter()
    from softcard.device.refsi.device import RefSiDevice
    from softcard.device.refsi.toolkit.builder import CommandBuffer

    imported = time.perf_counter()
    device = RefSiDevice(profile="spec")
    opened = time.perf_counter()
    from softcard.isa.riscv.assembler import assemble

    code = assemble(kernel_text(), CODE)
    device.write(CODE, code)
    buffer = CommandBuffer().sync_cache().kernel(CODE, stack_top=STACK_TOP, return_address=RETURN_ADDRESS)
    data = buffer.run_instances(4, DATA).finish().to_bytes()
    address = device.allocate(len(data), 4096)
    device.write(address, data)

    def launch() -> float:
        before = time.perf_counter()
        device.submit(address, len(data))
        (status,) = device.wait()
        if status.error is not None:
            raise status.error
        device.read(DATA, 8)
        return time.perf_counter() - before

    first, second = launch(), launch()
    facts = {"import": imported - begin, "open": opened - imported, "first": first, "second": second}
    print(json.dumps(facts | {"instructions": len(code) // 4}))


def measure(quick: bool = False) -> list[Row]:
    cold, warm = cold_and_warm(__file__, quick)

    def row(what: str, runs: list[dict[str, float]], name: str, **more: object) -> Row:
        return latency("start", what, "ms", Samples(tuple(run[name] for run in runs)), **more)

    size = f"{cold[0]['instructions']:.0f} instructions"
    return [
        row(f"cold: launch to first result, {size}", cold, "first", target=COLD_TARGET_MS),
        row("cold: the same launch again", cold, "second"),
        row(f"warm (code on disk): launch to first result, {size}", warm, "first", target=WARM_TARGET_MS),
        row("warm: the same launch again", warm, "second"),
        row("import", warm, "import"),
        row("opening a device", warm, "open"),
        row("whole process, cold", cold, "process"),
        row("whole process, warm", warm, "process"),
    ]


if __name__ == "__main__":
    if "--child" in sys.argv:
        child()
    else:
        main(measure, TITLE)
