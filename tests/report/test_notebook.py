"""Cells of notebooks, in a shell like that of IPython, and what notebooks show."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcard
from softcard.core.errors import WireError
from softcard.core.findings import Finding, Findings
from softcard.trace import HtmlTrace

PAGE = Path(__file__).parents[2] / "docs" / "public.md"
ASSEMBLY = """
    .globl ones
    .type ones, @function
ones:
    li t0, 1
    sw t0, 0(a1)
    ret
    .size ones, . - ones
"""


class Shell:
    """What the extension uses of IPython, and a way to run cells."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Callable[[str, str], object]] = {}

    def register_magic_function(self, func: Callable[..., object], magic_kind: str, magic_name: str) -> None:
        assert magic_kind == "cell"
        self.magics[magic_name] = func

    def run(self, cell: str) -> object:
        first, _, rest = cell.partition("\n")
        if first.startswith("%%"):
            magic, _, line = first[2:].partition(" ")
            return self.magics[magic](line, rest)
        if first == "%load_ext softcard":
            softcard.load_ipython_extension(self)  # type: ignore[attr-defined]
            cell = rest
        exec(cell, self.user_ns)
        return None


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell()
    made.run("%load_ext softcard")
    yield made
    for device in made.user_ns.values():
        if isinstance(device, softcard.Gpu | softcard.RefSi):
            device.close()


@pytest.mark.slow
def test_cells_of_the_page_run(shell: Shell) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Notebooks")[1].split("\n## ")[0]
    cells = re.findall(r"^```ipython\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert len(cells) == 3
    for cell in cells:
        shell.run(cell)
    np.testing.assert_array_equal(shell.user_ns["x"], [0, 2, 4, 6])
    assert "no findings" in shell.user_ns["gpu"].findings._repr_html_()


def test_assembly_of_each_device(shell: Shell) -> None:
    shell.user_ns["gpu"] = gpu = softcard.Gpu.open("gfx900")
    shell.user_ns["card"] = softcard.RefSi.open()
    made = shell.run(
        "%%asm ended\n.amdhsa_code_object_version 5\n.text\n.globl ended\n.type ended,@function\nended:\n"
        "s_endpgm\n.rodata\n.amdhsa_kernel ended\n.amdhsa_next_free_vgpr 1\n.amdhsa_next_free_sgpr 1\n"
        ".end_amdhsa_kernel\n"
    )
    assert shell.user_ns["ended"] is made
    assert gpu.executables == [made]
    gpu.run(made, "ended", grid=1)  # type: ignore[arg-type]
    made = shell.run(f"%%asm ones card\n{ASSEMBLY}")
    assert shell.user_ns["ones"] is made is shell.user_ns["card"].program
    assert "ones" in made._repr_html_()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%%opencl", "the cell begins with %%opencl, expected %%opencl NAME [DEVICE]: the name of the variable for"),
        ("%%asm 1st gpu", "the cell begins with %%asm 1st gpu, expected %%asm NAME [DEVICE]: the name of"),
        ("%%asm a b c", "the cell begins with %%asm a b c, expected"),
        ("%%opencl code gpv", "no variable gpv exists: open a device, as in gpu = softcard.Gpu.open("),
        ("%%opencl code gpv", "or give the name of its variable; did you mean 'gpu'"),
        ("%%opencl code 'gpu", "the cell begins with %%opencl code 'gpu, expected"),
        ("%%opencl code card", "%%opencl needs a Gpu, but the device is <RefSi"),
        ("%%asm code text", "%%asm needs a Gpu or a RefSi, but the device is 'text'"),
        ("%%asm code gpu -g", "%%asm has no options, but -g was given"),
    ],
)
def test_cells_that_are_none(shell: Shell, cell: str, text: str) -> None:
    shell.user_ns |= {"card": softcard.RefSi.open(), "gpu": softcard.Gpu.open(), "text": "text"}
    with pytest.raises(WireError, match=re.escape(text)):
        shell.run(cell)


def test_findings_are_tables() -> None:
    found = Findings()
    found += [Finding("memory", "out-of-bounds", "too far < end"), Finding("races", "write-read", "unordered")]
    text = found._repr_html_()
    assert text.count("<table") == 2
    assert "too far &lt; end" in text


def test_a_closed_report_is_shown_as_it_is() -> None:
    report = HtmlTrace(io.StringIO(), "a <title>")
    assert report._repr_html_() == "<p>a &lt;title&gt;: the report can be shown when its trace is closed</p>"
    report.close()
    assert report._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
