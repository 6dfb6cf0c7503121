"""The part of `understudy demo` that needs hipcc: a HIP program as it is, on a GPU that is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from rich.console import Console

from understudy.cli.attachments import ATTACHMENTS, Wanted

AGENT: Final = "gfx900"
LACKS: Final = (
    "hipcc, which compiles its program, is not here: apt-get install hipcc libamdhip64-dev (Debian 12 or later)"
)


def show_hip(console: Console) -> bool:
    """Compile a program and run it on a virtual GPU; whether all is right, or hipcc is not there."""
    hipcc = shutil.which("hipcc")
    if hipcc is None:
        console.print(LACKS)
        return True
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        program = str(Path(folder, "vector_add"))
        with as_file(files("understudy") / "data" / "rocm" / "vector_add.hip") as source:
            command = [hipcc, "-x", "hip", f"--offload-arch={AGENT}", "-O2", str(source), "-o", program]
            environment = {**os.environ, "HIP_PLATFORM": "amd"}
            compiled = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if compiled.returncode:
            console.print(f"hipcc refused the program:\n{compiled.stderr}", markup=False)
            return False
        console.print(f"$ understudy exec --agent {AGENT} -- ./vector_add", markup=False)
        with ATTACHMENTS["rocm"](Wanted(agents=(AGENT,)), lambda line: console.print(line, markup=False)) as found:
            done = subprocess.run([program], env={**os.environ, **found}, capture_output=True, text=True, check=False)
        console.print((done.stdout + done.stderr).rstrip(), markup=False)
    return done.returncode == 0
