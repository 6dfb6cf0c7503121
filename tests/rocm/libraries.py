"""Code objects of ROCm libraries as Debian has them: what tools/rocm-kernels.sh has put into archives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from softcard.engine.gcn.threaded.flow import Flow, flow_of
from softcard.engine.gcn.threaded.frontend import Frontend
from softcard.image.hsa.code_object import CodeObject, Kernel, read_code_object
from softcard.isa.gcn.state import Mode
from softcard.isa.gcn.target import target

BUILD = Path(__file__).parents[2] / "build"
SMALL = BUILD / "rocm-kernels" / "kernels.zip"
"""rocRAND and rocSPARSE."""
LARGE = BUILD / "rocblas-kernels" / "kernels.zip"
"""rocBLAS; only where somebody asked for it."""
PROCESSORS = ("gfx803", "gfx900", "gfx906")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A kernel of a library's object, and the loaded image of that as dwords."""

    library: str
    processor: str
    code: CodeObject
    kernel: Kernel
    image: npt.NDArray[np.uint32]

    def __str__(self) -> str:
        return f"{self.library}, {self.processor}: {self.kernel.name}"


def flow(chosen: Chosen, frontends: dict[int, Frontend]) -> Flow:
    """What the threaded tier makes of a kernel; `frontends` by MODE, of one processor."""
    gpu, entry = target(chosen.processor), chosen.kernel.entry
    mode = Mode.of_rsrc1(int.from_bytes(chosen.kernel.header.compute_pgm_rsrc1.pack(), "little")).encode()
    return flow_of(
        gpu, chosen.image[entry // 4 :], entry, mode, lambda bits: frontends.setdefault(bits, Frontend(gpu, bits))
    )


@cache
def _archive(path: Path) -> ZipFile:
    return ZipFile(path)


def members(path: Path, processor: str) -> list[str]:
    """The code objects for a processor in an archive, by name."""
    return sorted(name for name in _archive(path).namelist() if name.split("/")[1] == processor)


def read(path: Path, name: str) -> bytes:
    """One of them."""
    return _archive(path).read(name)


def kernels(path: Path, processor: str, objects: int, each: int) -> Iterator[Chosen]:
    """Every so many-th object for a processor and of that every so many-th kernel: 1 and 1 give all."""
    for name in members(path, processor)[::objects]:
        code = read_code_object(read(path, name))
        data = bytes(code.load(0).data)
        image = np.frombuffer(data + bytes(-len(data) % 4), np.uint32)
        for kernel in list(code.kernels.values())[::each]:
            yield Chosen(name.split("/")[0], processor, code, kernel, image)
