"""`understudy devices` and `understudy describe`: what devices there are, their registers, commands and packets."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final

import typer

from understudy.cli import completion
from understudy.cli.exits import UsageError
from understudy.core.register import RegisterMap


class Form(StrEnum):
    """Formats of register maps; of commands and packets the first three."""

    MD = "md"
    TEXT = "text"
    JSON = "json"
    C = "c"
    RDL = "rdl"
    SVD = "svd"


LAYOUTS: Final = {
    "refsi/commands": "refsi",
    "acceldev/commands": "acceldev",
    "hsa/packets": "hsa",
    "amdcl2/packets": "amdcl2",
}
"""What has commands or packets, and the interface that they are of."""


def _devices() -> list[dict[str, str]]:
    from understudy.device.hsa.agents import AGENTS

    found = [
        {
            "name": "refsi-m1",
            "interface": "RefSi",
            "what": "RV64GCV harts, a command processor; profiles spec, refsidrv",
        },
        {"name": "refsi-g1", "interface": "RefSi", "what": "RV64 harts that the host starts; profile refsidrv"},
        {
            "name": "acceldev",
            "interface": "Acceldev",
            "what": "PCI 0666:0019: contexts, paged buffers, a queue, interrupts",
        },
    ]
    for each in AGENTS.values():
        units = f"{each.compute_units} CUs, {each.waves_per_cu} waves each, {each.double_rate} double rate"
        more = [part for part in (each.note, each.products) if part]
        found.append({"name": each.name, "interface": "AMD HSA", "what": "; ".join([units, *more])})
    try:
        from understudy.device.fletcher.kernels import BUILT_IN
    except ImportError as error:  # pyarrow is an extra
        return [*found, {"name": "fletcher", "interface": "Fletcher", "what": str(error)}]
    return found + [{"name": name, "interface": "Fletcher", "what": "a built-in kernel"} for name in BUILT_IN]


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects: name, interface, what.")] = False,
) -> None:
    """List the devices, agents and built-in kernels that can be had.

    understudy devices | grep HSA
    """
    found = _devices()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        print(f"{each['name']:<24}{each['interface']:<10}{each['what']}")


def _maps() -> dict[str, tuple[RegisterMap, ...]]:
    from understudy.device.acceldev.registers import MMIO
    from understudy.device.fletcher.map.registers import COUNTERS, DEFAULT
    from understudy.device.refsi.registers import CMP, DMA, PERF_COUNTERS

    found = {"refsi": (CMP, DMA, PERF_COUNTERS), "acceldev": (MMIO,), "fletcher": (DEFAULT, COUNTERS)}
    parts = {"refsi/cmp": CMP, "refsi/dma": DMA, "refsi/counters": PERF_COUNTERS}
    return found | {name: (each,) for name, each in parts.items()}


def _subjects() -> tuple[str, ...]:
    return (*_maps(), *LAYOUTS)


def _beginning(incomplete: str) -> list[str]:
    return completion.beginning(incomplete, _subjects())


def describe(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="See above.", autocompletion=_beginning)],
    form: Annotated[
        Form, typer.Option("--as", help="Markdown, text, JSON; of registers also C header, SystemRDL, CMSIS-SVD.")
    ] = Form.MD,
) -> None:
    """Show a device's registers, commands or packets: for people, or as a file for tools.

    Registers: refsi, or of it refsi/cmp, refsi/dma, refsi/counters; acceldev;
    fletcher (those that every design has: `fletcher map` shows a design's).

    Commands and packets: refsi/commands, acceldev/commands, hsa/packets,
    amdcl2/packets.

      understudy describe acceldev --as c > acceldev_regs.h

      understudy describe hsa/packets --as text
    """
    from understudy.report import registers as exports
    from understudy.report.svd import to_svd

    if device in LAYOUTS:
        from understudy.report import layouts

        writer = {Form.MD: layouts.to_markdown, Form.TEXT: layouts.to_text, Form.JSON: layouts.to_json}.get(form)
        if writer is None:
            raise UsageError(f"commands and packets are shown as md, text or json, not as {form.value}")
        print(writer(layouts.layouts(LAYOUTS[device])), end="")
        return
    maps = _maps()
    if device not in maps:
        raise UsageError(f"there is nothing about {device!r}, expected one of {', '.join(_subjects())}")
    if form is Form.SVD:
        print(to_svd(device.replace("/", "_"), maps[device]), end="")
    elif form is Form.JSON:
        documents = [json.loads(exports.to_json(each)) for each in maps[device]]
        print(json.dumps(documents if len(documents) > 1 else documents[0], indent=2))
    else:
        writers: dict[Form, Callable[[RegisterMap], str]] = {
            Form.MD: exports.to_markdown,
            Form.TEXT: exports.to_text,
            Form.C: exports.to_c_header,
            Form.RDL: exports.to_systemrdl,
        }
        print("\n".join(writers[form](each) for each in maps[device]), end="")
