"""The display of objects: one line, and a table in notebooks; and the lines of every result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

import softcard
from softcard import acceldev, amdcl2, fletcher, gcn, hsa, refsi, riscv
from softcard.core.display import MOST_ROWS, html_table
from softcard.device.refsi import registers
from softcard.device.refsi.commands import RunInstances
from softcard.engine.gcn.strict.findings import Finding, Host
from softcard.image.hsa.code_object import read_code_object
from softcard.isa.gcn.state import Wave

SCHEMA = pa.schema([pa.field("a", pa.list_(pa.list_(pa.int8())))], metadata={"fletcher_name": "R"})


@pytest.fixture(scope="module")
def things() -> Iterator[dict[str, Any]]:
    """Something of every kind that a user holds; results are those of a run."""
    with ExitStack() as stack:
        enter = stack.enter_context
        device = enter(softcard.RefSi.open(engine="reference"))
        program = device.load_elf(refsi.demo_kernels())
        numbers = np.arange(4, dtype=np.int32)
        launched = device.launch("vector_add", 1, [numbers, numbers, np.zeros(4, np.int32), 4])
        gpu = enter(softcard.Gpu.open("gfx803", engine="reference"))
        x, y = np.ones(64, np.float32), np.ones(64, np.float32)
        executable = gpu.load(hsa.demo_code("gfx803"))
        ran = gpu.run(executable, "saxpy", grid=64, args=[2.0, x, y])
        opencl = enter(softcard.load(amdcl2.demo_program("tonga", 200406), engine="reference"))
        saxpy = opencl.kernel("saxpy")
        driver = enter(softcard.Acceldev.open())
        context = enter(driver.open_context())
        buffer = context.create_buffer(4096)
        filled = context.execute(acceldev.Fill(value=1, buffer_slot=0, start=0, length=64), acceldev.Fence())
        platform = enter(softcard.Platform(fletcher.find("sum")))
        queued = enter(fletcher.Context(platform))
        schema = fletcher.find("sum").schemas[0]
        batch = pa.RecordBatch.from_arrays([pa.array(range(8), schema.field(0).type)], schema=schema)
        queued.queue_record_batch(batch)
        queued.enable()
        kernel = fletcher.Kernel(queued)
        kernel.start()
        summed = kernel.wait_for_finish()
        commands = refsi.CommandBuffer().write_reg64("CMP_ENTRY_PT_FN", 1 << 32)
        yield {
            "RefSi": device, "RefSi device": device.port, "RefSi program": program,
            "RefSi kernel": program.kernel("vector_add"), "RefSi result": launched, "RefSi status": launched.status,
            "RefSi register": registers.KARGS_INFO, "RefSi registers": registers.DMA,
            "RefSi command": RunInstances(0, 4, (0x5000_0000,)), "RefSi buffer": commands,
            "RefSi finding": refsi.lint(commands.to_bytes())[0],
            "Gpu": gpu, "HSA device": gpu.device, "executable": executable, "HSA kernel": executable.kernel("saxpy"),
            "HSA result": ran, "AQL packet": hsa.KernelDispatchPacket(grid_size_x=64, kernel_object=0x1000),
            "code object": read_code_object(hsa.demo_code("gfx803")),
            "kernel of a code object": executable.code.kernel("saxpy"),
            "finding of caches": Finding("late store", Host("a"), Host("b"), 4),
            "Program": opencl, "OpenCL kernel": saxpy, "container": opencl.container,
            "OpenCL result": saxpy.run(64, args=[x, y, 2.0]),
            "Acceldev": driver, "Acceldev command": acceldev.Fence(), "Acceldev result": filled,
            "Acceldev device": acceldev.AcceldevDevice(),
            "Platform": platform, "virtual kernel": fletcher.find("sum"), "Fletcher result": summed,
            "Fletcher device": fletcher.FletcherDevice(fletcher.find("sum").map(), fletcher.find("sum")),
            "Fletcher finding": fletcher.check_design([SCHEMA]).findings[0],
            "Fletcher agreement": fletcher.check_design([SCHEMA]),
            "register map": fletcher.find("sum").map(), "HSA queue": gpu.queue(16),
            "hart": riscv.Hart(0, None), "wave": Wave(), "bound": (context, buffer, kernel),
        }  # fmt: skip


KINDS = (
    *("RefSi", "RefSi device", "RefSi program", "RefSi kernel", "RefSi result", "RefSi status", "RefSi register"),
    *("RefSi registers", "RefSi command", "RefSi buffer", "RefSi finding", "Gpu", "HSA device", "executable"),
    *("HSA kernel", "HSA result", "AQL packet", "code object", "kernel of a code object", "finding of caches"),
    *("Program", "OpenCL kernel", "container", "OpenCL result", "Acceldev", "Acceldev command", "Acceldev result"),
    *("Acceldev device", "Platform", "virtual kernel", "Fletcher result", "Fletcher device", "Fletcher finding"),
    *("Fletcher agreement", "register map", "HSA queue", "hart", "wave"),
)


def test_everything_is_checked(things: dict[str, Any]) -> None:
    assert {*things} == {*KINDS, "bound"}


@pytest.mark.parametrize("kind", KINDS)
def test_one_line_and_a_table(kind: str, things: dict[str, Any]) -> None:
    thing = things[kind]
    line, page = repr(thing), thing._repr_html_()
    assert "\n" not in line
    assert " object at 0x" not in line
    assert len(line) < 250
    table = ElementTree.fromstring(page)
    rows = [len(row) for row in table.iter("tr")]
    assert len(set(rows)) <= 1, "as many cells in every row"
    assert table.findtext("div") == line.removeprefix("<").removesuffix(">")
    styles = " ".join(each.get("style", "") for each in table.iter())
    assert not re.search(r"(?<!-)\bcolor:|background", styles), "the page's own colours, dark or light"


def test_what_belongs_to_a_device_has_a_line(things: dict[str, Any]) -> None:
    context, buffer, kernel = things["bound"]
    assert repr(context) == "<context 0, 1 buffer>"
    assert repr(buffer) == "<buffer of 4,096 bytes, slot 0>"
    assert repr(kernel) == "<kernel on softcard, RecordBatches queued: 1>"


@pytest.mark.parametrize(
    ("thing", "line"),
    [
        (riscv.Ram(1 << 16), "<RAM of 65,536 bytes>"),
        (acceldev.PlainMemory((0x1000, 4096)), "<memory: 4,096 bytes at 0x1000>"),
        (gcn.GpuMemory(), "<memory of 48 address bits, 0 mapped>"),
        (gcn.ReferenceEngine(), "<reference engine of waves>"),
        (gcn.JitEngine(threads=1), "<JIT engine of waves, 1 thread>"),
        (riscv.ReferenceEngine(), "<reference engine of harts>"),
        (riscv.JitEngine(), "<JIT engine of harts>"),
        (
            amdcl2.Image(np.zeros((4, 4, 4), np.uint8), amdcl2.ChannelOrder.CL_RGBA, amdcl2.ChannelType.CL_UNORM_INT8),
            "<image IMAGE_2D of uint8[4, 4, 4]>",
        ),
    ],
)
def test_parts_have_a_line(thing: Any, line: str) -> None:
    assert repr(thing) == line


@pytest.mark.parametrize(
    ("kind", "instructions", "size"),
    [("RefSi", 42, 48), ("HSA", 24, 512), ("OpenCL", 21, 512), ("Acceldev", 2, 64), ("Fletcher", 0, 64)],
)
def test_every_result_says_the_same_things(kind: str, instructions: int, size: int, things: dict[str, Any]) -> None:
    result = things[f"{kind} result"]
    assert (result.instructions, result.bytes) == (instructions, size)
    assert 0 < result.time < 600
    assert result.rate == pytest.approx(instructions / result.time)
    assert result.bandwidth == pytest.approx(size / result.time)
    if hasattr(result, "interpreted"):
        assert result.interpreted == instructions
        assert repr(result).endswith(f", interpreted {instructions} (100.00%)>")
    assert f": {instructions:,} instructions, {size:,} bytes, " in repr(result)
    assert result == type(result)(**{each: getattr(result, each) for each in result.__slots__ if each != "time"})


def test_records_report_what_differs_from_their_defaults(things: dict[str, Any]) -> None:
    assert repr(things["AQL packet"]) == "KernelDispatchPacket(grid_size_x=64, kernel_object=4096)"
    assert repr(things["RefSi register"]) == "<register CMP_KARGS_INFO at 0x3, 64 bits: KARGS_OFFSET, KARGS_SIZE>"


def test_tables_are_text_and_end() -> None:
    page = html_table("<b>", [("a&b",), *((number,) for number in range(MOST_ROWS + 5))])
    assert "&lt;b&gt;" in page
    assert "a&amp;b" in page
    assert ">5 more<" in page
    assert page.count("<tr>") == MOST_ROWS + 2
