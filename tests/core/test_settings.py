"""Choices of devices: every device tells a wrong one alike, and ends alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from understudy.core.errors import RuleError, WireError
from understudy.core.settings import DeviceSettings
from understudy.device.acceldev.device import AcceldevDevice
from understudy.device.fletcher.device import FletcherDevice
from understudy.device.fletcher.kernels import find
from understudy.device.hsa.device import HsaDevice
from understudy.device.refsi.device import RefSiDevice
from understudy.host.acceldev.acceldev import Acceldev
from understudy.host.amdcl2.program import load
from understudy.host.fletcher.platform import Platform
from understudy.host.hsa.gpu import Gpu
from understudy.host.refsi.refsi import RefSi

DEVICES: dict[str, Callable[..., Any]] = {
    "refsi": RefSiDevice,
    "acceldev": AcceldevDevice,
    "hsa": HsaDevice,
    "fletcher": lambda **options: FletcherDevice(find("sum").map(), find("sum"), **options),
    "RefSi": RefSi.open,
    "Acceldev": Acceldev.open,
    "Gpu": Gpu.open,
    "Platform": lambda **options: Platform(find("sum"), **options),
}
EVERY = pytest.mark.parametrize("make", DEVICES.values(), ids=DEVICES)


@dataclass(frozen=True, slots=True)
class Settings(DeviceSettings):
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"speed": ("slow", "fast")}
    LEAST: ClassVar[Mapping[str, int]] = {"count": 1}

    speed: str = "slow"
    count: int | None = None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"speed": "warp"}, "speed 'warp', expected one of slow, fast"),
        ({"count": 0}, "count 0, expected 1 or more"),
        ({"lints": "loud"}, "lints 'loud', expected one of warn, raise, off"),
        ({"sped": "fast"}, "no such setting: sped, did you mean speed?"),
        ({"colour": 1}, "no such setting: colour, expected one of lints, speed, count"),
    ],
)
def test_what_cannot_be_chosen(options: dict[str, Any], text: str) -> None:
    with pytest.raises(WireError) as caught:
        Settings.of(None, options)
    assert str(caught.value) == text


def test_settings_are_given_once() -> None:
    given = Settings(count=3)
    assert Settings.of(given, {}) is given
    assert Settings.of(None, {"count": None}) == Settings()
    with pytest.raises(WireError, match="settings were given twice: as Settings, and count by name"):
        Settings.of(given, {"count": 3})


@EVERY
def test_every_device_knows_its_settings(make: Callable[..., Any]) -> None:
    with pytest.raises(WireError, match=r"no such setting: lint, did you mean lints\?"):
        make(lint="off")
    with pytest.raises(WireError, match="lints 'no', expected one of warn, raise, off"):
        make(lints="no")


@pytest.mark.parametrize("make", [RefSi.open, Acceldev.open, Gpu.open], ids=["RefSi", "Acceldev", "Gpu"])
def test_every_device_is_closed_alike(make: Callable[..., Any]) -> None:
    device = make()
    device.close()
    device.close()
    with make() as device:
        pass


def test_a_closed_refsi_device() -> None:
    device = RefSi.open(engine="reference")
    device.close()
    with pytest.raises(RuleError, match="the device was shut down, expected an open one"):
        device.allocate(1)


def test_a_closed_program(amdcl2_saxpy: bytes) -> None:
    with load(amdcl2_saxpy, engine="reference") as program:
        kernel = program.kernel("saxpy")
    with pytest.raises(RuleError, match="the program was closed, expected an open one"):
        kernel.run(64, 64, [])


@pytest.fixture
def amdcl2_saxpy() -> bytes:
    from understudy.host.amdcl2.demo import demo_program

    return demo_program("tonga", 200406)
