"""How long does a register access take an unmodified Fletcher host program?

`softcard serve fletcher` in a process of its own, and the C program of examples/fletcher, which loads the platform
library as the run-time does. Each round makes many reads and writes. The peer is the bare round trip: two processes
that only pass a few bytes back and forth over such a socket, asleep between them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from harness import ROOT, Row, Samples, latency, main
from softcard.attach.fletcher import build_library
from vfio_user import bare

TITLE: Final = "Fletcher: a register access of a host program"
QUESTION: Final = "fletcher_mmio"
TARGET_US: Final = 20
HOST: Final = ROOT / "examples" / "fletcher" / "sum_host.c"
SERVE: Final = "import sys; from softcard.cli import main; sys.exit(main(['serve', 'fletcher', *sys.argv[1:]]))"
COLUMNS: Final = ("read, median", "read, p99", "write, median", "write, p99")


def timings(profile: str) -> list[list[float]]:
    """Microseconds as the host program prints them: rounds of `COLUMNS`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
    with tempfile.TemporaryDirectory() as folder:
        program, path = Path(folder, "host"), Path(folder, "socket")
        subprocess.run([compiler, "-O2", str(HOST), "-o", str(program), "-ldl"], check=True)
        command = [sys.executable, "-c", SERVE, "--socket", str(path), "--profile", profile, "--once", "--quiet"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        server.stdout.readline()
        environment = {**os.environ, **build_library().environment(path)}
        done = subprocess.run(
            [str(program), "--time", "softcard"], env=environment, capture_output=True, text=True, check=True
        )
        server.stdout.close()
        server.wait(20)
    return [[float(number) for number in line.split()] for line in done.stdout.splitlines()]


def measure(quick: bool) -> list[Row]:
    """The rows of this benchmark."""
    reads = 500 if quick else 4000
    peers = [bare(reads) for _ in range(2 if quick else 5)]
    found = []
    for profile in ("spec", "hardware"):
        rounds = timings(profile)
        for column, name in enumerate(COLUMNS):
            samples = Samples(tuple(line[column] / 1e6 for line in rounds))
            place = 0.99 if "p99" in name else 0.5
            peer = min(seconds[int(len(seconds) * place)] for seconds in peers) * 1e6
            target = None if "p99" in name else TARGET_US
            more = {"peer_name": "bare", "peer": peer, "target": target, "absolute": True}
            found.append(latency(QUESTION, f"{profile}: {name}", "us", samples, **more))
    return found


if __name__ == "__main__":
    main(measure, TITLE)
