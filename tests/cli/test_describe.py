"""`softcard devices` and `softcard describe`."""

from __future__ import annotations

import json
import sys

import pytest

from softcard.cli import main

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *arguments: str) -> str:
    code, out, err = main([*arguments]), *capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def test_devices(capsys: Capture) -> None:
    lines = said(capsys, "devices").splitlines()
    assert [line.split()[0] for line in lines][:5] == ["refsi-m1", "refsi-g1", "acceldev", "gfx700", "gfx701"]
    assert any(line.startswith("gfx803 ") and "64 CUs, 40 waves each, 1/16 double rate" in line for line in lines)
    found = json.loads(said(capsys, "devices", "--json"))
    assert [each["name"] for each in found] == [line.split()[0] for line in lines]
    assert {each["interface"] for each in found} == {"RefSi", "Acceldev", "AMD HSA", "Fletcher"}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("md", "CMP_ENTRY_PT_FN"), ("text", "CMP_ENTRY_PT_FN"), ("c", "#define"), ("rdl", "addrmap"),
        ("json", '"CMP_SCRATCH"'), ("svd", "<name>CMP_SCRATCH</name>"),
    ],
)  # fmt: skip
def test_describe(capsys: Capture, form: str, text: str) -> None:
    assert text in said(capsys, "describe", "refsi", "--format", form)


@pytest.mark.parametrize("device", ["refsi", "refsi/cmp", "refsi/dma", "refsi/counters", "acceldev", "fletcher"])
def test_every_device_in_every_form(capsys: Capture, device: str) -> None:
    for form in ("md", "text", "c", "rdl", "svd", "json"):
        assert said(capsys, "describe", device, "--format", form)


def test_only_registers_of_fletcher_need_arrow(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("softcard.device.fletcher", "pyarrow"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "INTR_ENABLE" in said(capsys, "describe", "acceldev")
    assert main(["describe", "fletcher"]) == 2
    assert capsys.readouterr().err == "error: Arrow schemas need pyarrow: pip install 'softcard[arrow]'\n"
    assert main(["describe", "aceldev"]) == 2
    assert "unknown device 'aceldev'" in capsys.readouterr().err


def test_one_register_file_is_one_document(capsys: Capture) -> None:
    assert json.loads(said(capsys, "describe", "refsi/dma", "--format", "json"))["name"] == "DMA"
    assert len(json.loads(said(capsys, "describe", "refsi", "--format", "json"))) == 3


@pytest.mark.parametrize("what", ["refsi/commands", "acceldev/commands", "hsa/packets", "amdcl2/packets"])
def test_commands_and_packets(capsys: Capture, what: str) -> None:
    found = json.loads(said(capsys, "describe", what, "--format", "json"))
    for form in ("md", "text"):
        text = said(capsys, "describe", what, "--format", form)
        assert all(each["name"] in text for layout in found for each in [layout, *layout["fields"]])
    assert main(["describe", what, "--format", "c"]) == 2
    assert (
        capsys.readouterr().err
        == "error: --format c requires registers; for commands and packets choose md, text or json\n"
    )
