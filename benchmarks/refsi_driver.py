"""How fast is an unmodified host program of RefSi's driver, on the library that takes the real one's place?

`softcard exec --device refsi` and the C program in kernels/refsi_host.c: a matrix multiplication from the program's
start to its result, and what single calls take. The peers are the reference's published figures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from harness import FOLDER, REFERENCE, ROOT, Row, Samples, latency, main
from softcard.attach.refsi import build_library

TITLE: Final = "RefSi: host programs on librefsidrv"
QUESTION: Final = "refsi_driver"
HOST: Final = FOLDER / "kernels" / "refsi_host.c"
KERNELS: Final = ROOT / "tests" / "vectors" / "refsi" / "kernels.elf"
EXEC: Final = "import sys; from softcard.cli import main; sys.exit(main(['exec', '--device', 'refsi', *sys.argv[1:]]))"
SIZE: Final = 512
REFERENCE_S: Final = 11.4
TARGET_S: Final = 2
CALLS: Final = (
    ("submit and wait, FINISH alone", 15.0),
    ("submit and wait, 4 empty instances", None),
    ("read 8 bytes of DRAM", None),
    ("allocate and free", None),
)
"""What the program measures, in its order, and what the reference takes in microseconds at best."""


def said(program: str, profile: str, *words: str) -> list[float]:
    """The numbers that the host program prints."""
    command = [sys.executable, "-c", EXEC, "--profile", profile, "--quiet", "--", program, str(KERNELS), *words]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def measure(quick: bool) -> list[Row]:
    """The rows of this benchmark."""
    rounds, size = (2, 128) if quick else (5, SIZE)
    compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "host"))
        flags = build_library().flags.split()
        subprocess.run([compiler, "-O2", "-ffp-contract=off", str(HOST), "-o", program, *flags], check=True)
        for profile in ("refsidrv", "spec"):
            totals = [said(program, profile, "matmul", str(size))[1] for _ in range(rounds)]
            peer = {} if quick else {"peer_name": REFERENCE, "peer": REFERENCE_S}
            more = {**peer, "target": TARGET_S, "absolute": True}
            samples = Samples(tuple(totals))
            found.append(latency(QUESTION, f"matmul f32 {size}, profile {profile}", "s", samples, **more))
        rows = [said(program, "refsidrv", "calls", "500" if quick else "4000") for _ in range(rounds)]
    for column, (what, reference) in enumerate(CALLS):
        samples = Samples(tuple(row[column] / 1e6 for row in rows))
        peer = {} if reference is None else {"peer_name": REFERENCE, "peer": reference}
        found.append(latency(QUESTION, what, "us", samples, **peer))
    return found


if __name__ == "__main__":
    main(measure, TITLE)
