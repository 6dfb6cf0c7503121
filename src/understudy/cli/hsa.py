"""`understudy hsa`: kernels of AMD code objects on a virtual agent."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.engines import Engine, EngineOption, Tier, TierOption
from understudy.cli.exits import UsageError
from understudy.cli.files import MAX_CODE_BYTES, read_file, writing

SHOWN = 8
"""Elements of an array that are printed."""

app = typer.Typer(help="AMD HSA agents: run kernels of code objects.", no_args_is_help=True)


class Model(StrEnum):
    """How wide pointers are."""

    LARGE = "large"
    SMALL = "small"


@app.callback()
def _hsa() -> None:
    """AMD HSA agents: run kernels of code objects."""


@app.command()
def agents() -> None:
    """List the agents that can be had."""
    from understudy.device.hsa.agents import AGENTS

    for each in AGENTS.values():
        units = f"{each.compute_units} CUs, {each.waves_per_cu} waves each, {each.double_rate} double rate"
        print(f"{each.name}  {units:<48}{'; '.join(part for part in (each.note, each.products) if part)}")


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="A code object, or an OpenCL source (.cl), which is compiled.")],
    kernel: Annotated[str, typer.Argument(help="The kernel's name.")],
    grid: Annotated[str, typer.Option(help="Work-items: 1024, 64x64 or 8x8x8.")],
    group: Annotated[str, typer.Option(help="Work-items of a work-group; by default as the kernel says, or 64.")] = "",
    arguments: Annotated[list[str] | None, typer.Option("--arg", help="See below.")] = None,
    agent: Annotated[str, typer.Option(help="The agent; by default the one that the code object is for.")] = "",
    engine: EngineOption = Engine.JIT,
    tier: TierOption = Tier.AUTO,
    exact: Annotated[bool, typer.Option("--exact", help="The first byte behind an array is a fault.")] = False,
    machine_model: Annotated[Model, typer.Option(help="Small: the code's pointers have 32 bits.")] = Model.LARGE,
) -> None:
    """Dispatch a kernel through an AQL queue, wait for it, and print what its arrays hold then.

    Arguments, one --arg for each: 7, 2.5, 0x10; i32:7 with its type; zeros:f32:1024, range:u8:64x64 or random:f64:100
    for an array; @FILE.npy for one from a file; local:1024 for bytes of LDS; null. Behind an array, =FILE.npy says
    where to save it afterwards. Exit status 1 where the kernel fails.
    """
    import numpy as np  # these take a while to load

    from understudy.cli.hsa_values import parse
    from understudy.host.hsa.gpu import Gpu

    data = read_file(file, MAX_CODE_BYTES)
    is_source = file.suffix == ".cl"
    given = [parse(text) for text in arguments or ()]
    settings = {"engine": engine.value, "tier": tier.value, "machine_model": machine_model.value}
    with Gpu.open(agent or ("gfx900" if is_source else _agent_of(data)), exact=exact, **settings) as gpu:
        values = [gpu.array(each.value) if isinstance(each.value, np.ndarray) else each.value for each in given]
        code = gpu.compile(data.decode("utf-8", "replace")) if is_source else gpu.load(data)
        result = gpu.run(code, kernel, _sizes(grid), _sizes(group) if group else None, values)
    print(f"{result.kernel}: {result.instructions:,} wave instructions")
    for number, (each, value) in enumerate(zip(given, values, strict=True)):
        if isinstance(value, np.ndarray):
            print(f"argument {number}, {value.dtype}{list(value.shape)}: {_head(value)}")
            if each.save is not None:
                _save(each.save, value)


def _head(array: Any) -> str:
    flat = array.reshape(-1)
    return " ".join(str(each) for each in flat[:SHOWN]) + (" ..." if flat.size > SHOWN else "")


def _sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(x\d+){0,2}", text):
        raise UsageError(f"{text!r} is no size, expected 1024, 64x64 or 8x8x8")
    return tuple(map(int, text.split("x")))


def _agent_of(data: bytes) -> str:
    """The agent that a code object is for; gfx900 where it does not say."""
    from understudy.device.hsa.agents import AGENTS
    from understudy.host.hsa.executable import read

    target = read(data).target
    return target if target in AGENTS else "gfx900"


def _save(path: Path, array: Any) -> None:
    import numpy as np

    with writing(path), path.open("wb") as file:
        np.save(file, array)
