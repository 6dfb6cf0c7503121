"""Notebook cells in OpenCL C and assembly: ``%load_ext softcard`` defines the cell magics ``%%opencl`` and ``%%asm``.

The first line of a cell is ``%%opencl NAME [DEVICE] [OPTION ...]`` or ``%%asm NAME [DEVICE]``. The loaded code becomes
the variable NAME. DEVICE is a variable that holds a `Gpu`, or for ``%%asm`` also a `RefSi`; the default is ``gpu``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, Final, Protocol

from softcard.core.errors import WireError, close_to
from softcard.host.hsa.executable import Executable
from softcard.host.hsa.gpu import Gpu
from softcard.host.refsi.program import Program
from softcard.host.refsi.refsi import RefSi
from softcard.image.assembly.files import assemble_code_object, assemble_program

USUAL_DEVICE: Final = "gpu"


class Shell(Protocol):
    """The part of IPython's shell that the magics use."""

    user_ns: dict[str, Any]

    def register_magic_function(self, func: Callable[..., object], magic_kind: str, magic_name: str) -> None:
        """Define a magic."""


def load_ipython_extension(shell: Shell) -> None:
    """Define the cell magics in an IPython shell, which calls this function for ``%load_ext softcard``."""

    def opencl(line: str, cell: str) -> Executable:
        """Compile OpenCL C and load it: ``%%opencl NAME [DEVICE] [OPTION ...]``."""
        name, device, options = _arguments(shell, "opencl", line)
        if not isinstance(device, Gpu):
            raise WireError(f"%%opencl needs a Gpu, but the device is {device!r}")
        made = shell.user_ns[name] = device.compile(cell, options=options)
        return made

    def asm(line: str, cell: str) -> Executable | Program:
        """Assemble code and load it: ``%%asm NAME [DEVICE]``."""
        name, device, options = _arguments(shell, "asm", line)
        if options:
            raise WireError(f"%%asm has no options, but {' '.join(options)} was given")
        made: Executable | Program
        if isinstance(device, Gpu):
            made = device.load(assemble_code_object(cell, device.device.agent.name))
        elif isinstance(device, RefSi):
            made = device.load_elf(assemble_program(cell))
        else:
            raise WireError(f"%%asm needs a Gpu or a RefSi, but the device is {device!r}")
        shell.user_ns[name] = made
        return made

    for magic in (opencl, asm):
        shell.register_magic_function(magic, "cell", magic.__name__)


def _arguments(shell: Shell, magic: str, line: str) -> tuple[str, object, list[str]]:
    """Return the name, the device and the options on the first line of a cell."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quotation mark without its counterpart
        words = []
    options = [word for word in words if word.startswith("-")]
    names = [word for word in words if word not in options]
    if not 1 <= len(names) <= 2 or not names[0].isidentifier():
        raise WireError(
            f"the cell begins with %%{magic} {line.strip()}".rstrip()
            + f", expected %%{magic} NAME [DEVICE]: the name of the variable for the code, and that of a device"
        )
    name, device = [*names, USUAL_DEVICE][:2]
    if device not in shell.user_ns:
        raise WireError(
            f'no variable {device} exists: open a device, as in {USUAL_DEVICE} = softcard.Gpu.open("gfx900"), or give '
            f"the name of its variable{close_to(device, [*shell.user_ns])}"
        )
    return name, shell.user_ns[device], options
