"""Programs for tests: the vectors, and kernels assembled here for any device, size of addresses and driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from understudy.engine.gcn.api import Engine
from understudy.host.amdcl2 import Program
from understudy.image.amdcl2.arguments import Argument
from understudy.image.amdcl2.build import Described, build_kernel
from understudy.image.amdcl2.code_object import Features, KernelNeeds
from understudy.image.amdcl2.container import read_container
from understudy.image.amdcl2.generations import ISA_VERSIONS, level_of, target_of
from understudy.image.amdcl2.writer import CodeRelocation, KernelSource, ProgramSource, write_container
from understudy.isa.gcn.assembler import assemble

FOLDER = Path(__file__).parent / "vectors" / "amdcl2"
DEVICES = ("bonaire", "tonga", "gfx900")
SETUP = Features(usesetup=True, useargs=True)
NEWEST = 252700


def vectors(kernel: str = "") -> list[str]:
    """Names of the binaries, without .clo."""
    return sorted(path.stem for path in FOLDER.glob(f"{kernel}*.clo"))


def vector(name: str) -> bytes:
    """The bytes of a binary."""
    return (FOLDER / f"{name}.clo").read_bytes()


def parts(name: str) -> tuple[str, str, int, int]:
    """Kernel, device, bits, driver of a binary."""
    kernel, device, bits, driver = name.split("-")
    return kernel, device, int(bits), int(driver)


def for_device(device: str, text: str) -> str:
    """Text with what differs between devices filled in: {sm} scales scalar offsets, {add}, {gid}, {gidy}."""
    level = level_of(device)
    first = 10 if level == 9 else 8
    add = {7: "v_add_i32", 8: "v_add_u32", 9: "v_add_co_u32"}[level]
    addc = {7: "v_addc_u32", 8: "v_addc_u32", 9: "v_addc_co_u32"}[level]
    names = {"add": add, "addc": addc, "gid": f"s{first}", "gidy": f"s{first + 1}"}
    out = text
    for name, value in names.items():
        out = out.replace(f"{{{name}}}", value)
    scale = 1 if level == 7 else 4
    while "{o:" in out:  # an offset in dwords
        start = out.index("{o:")
        end = out.index("}", start)
        out = f"{out[:start]}{int(out[start + 3 : end]) * scale:#x}{out[end + 1 :]}"
    return out


def kernel(
    device: str,
    name: str,
    text: str,
    arguments: Sequence[Argument],
    *,
    driver: int = NEWEST,
    bits: int = 64,
    features: Features = SETUP,
    needs: KernelNeeds | None = None,
    described: Described | None = None,
    relocations: tuple[CodeRelocation, ...] = (),
) -> KernelSource:
    """A kernel assembled for a device."""
    code = assemble(target_of(ISA_VERSIONS[device]), for_device(device, text))
    needs = needs if needs is not None else KernelNeeds(sgprs=96, vgprs=64)
    return build_kernel(device, driver, bits, name, code, arguments, features, needs, described, relocations)


def program(
    device: str, *kernels: KernelSource, driver: int = NEWEST, bits: int = 64, engine: str | Engine = "reference",
    **options: Any,
) -> Program:  # fmt: skip
    """A program of kernels, written to a container and read again."""
    data = write_container(ProgramSource(device, driver, bits, kernels, **options))
    return Program(read_container(data), engine)


def matrix() -> Iterator[list[str]]:
    """Rows of the truth table."""
    for line in (FOLDER / "matrix.tsv").read_text(encoding="utf-8").splitlines():
        yield line.split("\t")
