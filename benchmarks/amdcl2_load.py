"""How long until a 1 MB program of AMD OpenCL 2.0 is loaded?

Three programs, written here: many small kernels (the usual kind, with 10 arguments each), one long kernel, and one with
relocations all over its data. Measured: reading the container; reading and loading it for an address, relocated; all of
it with the metadata of every kernel; and a program object that is ready to run. Peer: none is public.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness import Row, cpu, latency, main, repeat
from softcard.host.amdcl2 import Program
from softcard.image.amdcl2.build import Features, KernelNeeds, build_kernel, pointer, vector
from softcard.image.amdcl2.container import READ_ONLY, read_container
from softcard.image.amdcl2.load import load
from softcard.image.amdcl2.writer import CodeRelocation, KernelSource, ProgramSource, write_container

SIZE: Final = 1_000_000
TARGET_MS: Final = 100
TITLE: Final = "AMD OpenCL 2.0: loading a program of 1 MB"
DEVICE: Final = ("tonga", 252700, 64)
S_NOP: Final = bytes.fromhex("000080bf")
S_ENDPGM: Final = bytes.fromhex("000081bf")
ARGUMENTS: Final = (
    *(pointer(f"buffer{n}", "float4*") for n in range(4)),
    *(
        vector(f"value{n}", type_name)
        for n, type_name in enumerate(("int", "float", "uint4", "long", "short2", "char"))
    ),
)


def kernel(name: str, code_bytes: int, relocations: tuple[CodeRelocation, ...] = ()) -> KernelSource:
    """A kernel of so many bytes."""
    code = S_NOP * (code_bytes // 4 - 1) + S_ENDPGM
    features = Features(usesetup=True, useargs=True)
    return build_kernel(*DEVICE, name, code, ARGUMENTS, features, KernelNeeds(), relocations=relocations)


def written(kernels: tuple[KernelSource, ...], **options: Any) -> bytes:
    """The container."""
    return write_container(ProgramSource(*DEVICE, kernels, **options))


def programs() -> dict[str, bytes]:
    """The three programs by what is special about them."""
    one = len(written((kernel("k000", 2048), kernel("k001", 2048)))) - len(written((kernel("k000", 2048),)))
    many = tuple(kernel(f"k{n:03}", 2048) for n in range(SIZE // one))
    count = 10_000
    relocations = tuple(CodeRelocation(8 * n, READ_ONLY, n, bool(n & 1)) for n in range(count))
    related = (kernel("k", SIZE // 2, relocations),)
    filler = bytes(SIZE - len(written(related, read_only=b"data")))
    return {
        f"{len(many)} kernels": written(many),
        "one kernel": written((kernel("k", SIZE - 4000),)),
        f"{count:,} relocations": written(related, read_only=filler),
    }


def everything(data: bytes) -> None:
    """Read, load, and look at all metadata."""
    container = read_container(data)
    load(container, 0x1000_0000)
    for name in container.kernels:
        _ = container.metadata(name).layout


def measure(quick: bool = False) -> list[Row]:
    rounds = 3 if quick else 20
    rows = []
    for what, data in programs().items():
        steps: dict[str, Callable[[], Any]] = {
            "read": lambda data=data: read_container(data),
            "read, load": lambda data=data: load(read_container(data), 0x1000_0000),
            "read, load, all metadata": lambda data=data: everything(data),
            "ready to run": lambda data=data: Program(read_container(data)),
        }
        for step, action in steps.items():
            action()
            samples = repeat(rounds, lambda action=action: cpu(action))
            name = f"{what}, {len(data) / 1e6:.2f} MB: {step}"
            rows.append(latency("amdcl2_load", name, "ms", samples, target=TARGET_MS))
    return rows


if __name__ == "__main__":
    main(measure, TITLE)
