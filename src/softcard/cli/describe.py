"""`softcard devices` and `softcard describe`: the devices, and their registers, commands and packets."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final

import typer

from softcard.cli.exits import UsageError
from softcard.cli.options import JsonOption, ResultFormat, ResultFormatOption, beginning, chosen_format, is_json
from softcard.core.errors import close_to
from softcard.core.register import RegisterMap


class Form(StrEnum):
    """The output formats of `describe`; all of them apply to register maps, the first three to commands and packets."""

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
"""The interface of each subject of `describe` that has commands or packets."""


def _devices() -> list[dict[str, str]]:
    from softcard.device.hsa.agents import AGENTS

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
        from softcard.device.fletcher.kernels import BUILT_IN
    except ImportError as error:  # pyarrow is an extra
        return [*found, {"name": "fletcher", "interface": "Fletcher", "what": str(error)}]
    return found + [{"name": name, "interface": "Fletcher", "what": "a built-in kernel"} for name in BUILT_IN]


def devices(
    as_json: JsonOption = False,
    form: ResultFormatOption = ResultFormat.TEXT,
) -> None:
    """List the available devices, agents and built-in kernels.

    softcard devices | grep HSA
    """
    found = _devices()
    if is_json(form, as_json):
        print(json.dumps(found, indent=2))
        return
    for each in found:
        print(f"{each['name']:<24}{each['interface']:<10}{each['what']}")


def _refsi() -> tuple[RegisterMap, ...]:
    from softcard.device.refsi.registers import CMP, DMA, PERF_COUNTERS

    return CMP, DMA, PERF_COUNTERS


def _acceldev() -> tuple[RegisterMap, ...]:
    from softcard.device.acceldev.registers import MMIO

    return (MMIO,)


def _fletcher() -> tuple[RegisterMap, ...]:
    from softcard.image.arrow_schema import pyarrow

    pyarrow()  # an extra, which only these maps need
    from softcard.device.fletcher.map.registers import COUNTERS, DEFAULT

    return DEFAULT, COUNTERS


MAPS: Final[dict[str, Callable[[], tuple[RegisterMap, ...]]]] = {
    "refsi": _refsi,
    "acceldev": _acceldev,
    "fletcher": _fletcher,
    "refsi/cmp": lambda: _refsi()[:1],
    "refsi/dma": lambda: _refsi()[1:2],
    "refsi/counters": lambda: _refsi()[2:],
}
"""The register maps of each subject of `describe` that has registers."""
SUBJECTS: Final = (*MAPS, *LAYOUTS)


def _beginning(incomplete: str) -> list[str]:
    return beginning(incomplete, SUBJECTS)


def describe(
    device: Annotated[
        str,
        typer.Argument(
            metavar="DEVICE", help="The device, or a part of it (names: see above).", autocompletion=_beginning
        ),
    ],
    form: Annotated[
        Form,
        typer.Option("--format", help="Markdown, text, JSON; for registers also C header, SystemRDL, CMSIS-SVD."),
    ] = Form.MD,
    as_json: JsonOption = False,
) -> None:
    """Show a device's registers, commands or packets: for people, or as a file for tools.

    Names of register maps: refsi (all), refsi/cmp, refsi/dma, refsi/counters,
    acceldev, and fletcher (the registers that all designs have; `fletcher map`
    shows the registers of one design).

    Names of commands and packets: refsi/commands, acceldev/commands,
    hsa/packets, amdcl2/packets.

      softcard describe acceldev --format c > acceldev_regs.h

      softcard describe hsa/packets --format text"""
    from softcard.report import registers as exports
    from softcard.report.register_formats import to_svd

    form = chosen_format(form, as_json, Form.MD)
    if device in LAYOUTS:
        from softcard.report import layouts

        writer = {Form.MD: layouts.to_markdown, Form.TEXT: layouts.to_text, Form.JSON: layouts.to_json}.get(form)
        if writer is None:
            raise UsageError(
                f"--format {form.value} requires registers; for commands and packets choose md, text or json"
            )
        print(writer(layouts.layouts(LAYOUTS[device])), end="")
        return
    if device not in MAPS:
        known = f"{', '.join(SUBJECTS)}{close_to(device, SUBJECTS)}"
        raise UsageError(f"unknown device {device!r}, expected one of {known}")
    maps = MAPS[device]()
    if form is Form.SVD:
        print(to_svd(device.replace("/", "_"), maps), end="")
    elif form is Form.JSON:
        documents = [json.loads(exports.to_json(each)) for each in maps]
        print(json.dumps(documents if len(documents) > 1 else documents[0], indent=2))
    else:
        writers: dict[Form, Callable[[RegisterMap], str]] = {
            Form.MD: exports.to_markdown,
            Form.TEXT: exports.to_text,
            Form.C: exports.to_c_header,
            Form.RDL: exports.to_systemrdl,
        }
        print("\n".join(writers[form](each) for each in maps), end="")
