"""Hostile cases where a page that may not be touched lies on each side of all device memory: ``python -m
tests.hostile.guarded --cases 20 --kind kernels``.

Memory of devices has a page of its own on each side, so that an access that runs over is harmless, and unseen. Here it
ends the process, and Python's fault handler says where.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import mmap
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from softcard.core import space

PAGE: Final = mmap.PAGESIZE
NO_ACCESS: Final = 0
"""PROT_NONE."""


def guard() -> None:
    """Put guard pages beside all memory that this process makes from now on."""
    library, make = ctypes.CDLL(None, use_errno=True), space._anonymous

    def guarded(size: int) -> mmap.mmap:
        made = make(size)
        if size > 2 * PAGE:
            start = ctypes.addressof(ctypes.c_char.from_buffer(made))
            for page in (start, start + size - PAGE):
                if library.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NO_ACCESS):
                    raise OSError(ctypes.get_errno(), "mprotect")
        return made

    space._anonymous = guarded


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases; the process does not survive an access beside memory."""
    from tests.hostile import fuzz  # after `guard`: some memory is made while modules are loaded

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=fuzz.KINDS, action="append")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for kind in given.kind or list(fuzz.KINDS):
            for number in range(given.first, given.first + given.cases):
                fuzz.run(kind, "guarded", number, Path(folder))
            print(kind, given.cases, flush=True)
    return 0


if __name__ == "__main__":
    faulthandler.enable()
    guard()
    sys.exit(main())
