"""`understudy check`: look at machine code without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.check.memory_model import Found, atomics, gaps
from understudy.cli.exits import UsageError
from understudy.cli.files import MAX_CODE_BYTES, read_file
from understudy.core.errors import WireError
from understudy.device.hsa.memory_model import Order
from understudy.image.hsa import targets
from understudy.image.hsa.code_object import CodeObject, read_code_object
from understudy.isa.gcn.encoding.decode import decode
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.target import target

BASE = 0x10_0000


def check(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A code object of GFX7, GFX8 or GFX9.")],
    memory_model: Annotated[
        bool, typer.Option("--memory-model", help="Tell which memory order the code gives each atomic.")
    ] = False,
    order: Annotated[
        Order | None,
        typer.Option(help="An order that all atomics must have at agent scope: what is missing is an error."),
    ] = None,
    pcie: Annotated[
        bool, typer.Option("--pcie", help="Atomics are on memory of the host behind PCIe: what it lacks is an error.")
    ] = False,
    processor: Annotated[str, typer.Option("--processor", help="For objects that do not name theirs.")] = "",
) -> None:
    """Look for what is missing in a code object's kernels.

    With --memory-model: each atomic, and what the waits and invalidations around it make of it. Atomics are
    read-modify-writes and coherent loads: an atomic store is the instruction of an ordinary one and is not listed, nor
    are loads from private memory.
    Exit status 1 where --order is not met, or --pcie finds operations that PCIe does not have.
    """
    if not memory_model:
        raise UsageError("say what to check: --memory-model")
    code = read_code_object(read_file(path, MAX_CODE_BYTES), processor)
    missing = 0
    for name in sorted(code.kernels):
        found = kernel_atomics(code, name, processor)
        print(f"{name}: {len(found)} atomics" if found else f"{name}: no atomics")
        for each in found:
            print(f"  {each.pc - BASE:#x} {each.text}: {each.order}")
        for gap in gaps(found, order or Order.RELAXED, pcie):
            missing += 1
            print(f"  missing: {gap}")
    if missing:
        raise typer.Exit(1)


def kernel_atomics(code: CodeObject, name: str, processor: str = "") -> list[Found]:
    """The atomics of one kernel of a code object."""
    loaded = code.load(BASE)
    chosen = target(targets.read_as(processor or code.target))
    kernel = code.kernel(name)
    data = bytes(loaded.data)

    def fetch(pc: int) -> Insn:
        if not BASE <= pc < BASE + len(data):
            raise WireError(f"code leaves the object at {pc - BASE:#x}")
        return decode(chosen, data[pc - BASE : pc - BASE + 12], pc)

    properties = kernel.header.kernel_code_properties
    return atomics(BASE + kernel.entry, fetch, bool(properties.enable_sgpr_private_segment_buffer))
