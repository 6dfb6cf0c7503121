"""Choices of devices: every device tells a wrong one alike, and ends alike."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import pytest

from softcard.core.checks import ON_FINDING
from softcard.core.errors import RuleError, WireError
from softcard.core.settings import DeviceSettings, KernelSettings
from softcard.device.acceldev.commands import Fill
from softcard.device.acceldev.device import AcceldevDevice
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernels import BUILT_IN, find
from softcard.device.hsa.device import HsaDevice
from softcard.device.refsi.device import RefSiDevice
from softcard.host.acceldev.acceldev import Acceldev, DriverError
from softcard.host.amdcl2.demo import demo_program
from softcard.host.amdcl2.program import load
from softcard.host.fletcher.platform import Platform
from softcard.host.hsa.gpu import Gpu
from softcard.host.refsi.refsi import RefSi

DEVICES: dict[str, Callable[..., Any]] = {
    "refsi": RefSiDevice,
    "acceldev": AcceldevDevice,
    "hsa": HsaDevice,
    "fletcher": lambda **options: FletcherDevice(find("sum").map(), find("sum"), **options),
    "RefSi": RefSi.open,
    "Acceldev": Acceldev.open,
    "Gpu": Gpu.open,
    "Platform": partial(Platform.open, "sum"),
    "Program": lambda **options: load(demo_program("tonga", 200406), **options),
}
EVERY = pytest.mark.parametrize("make", DEVICES.values(), ids=DEVICES)
CHOSEN: dict[str, dict[str, Any]] = {
    "refsi": {"profile": "refsidrv", "time_limit_seconds": None}, "acceldev": {"poison": True}, "hsa": {"seed": 3},
    "fletcher": {"profile": "hardware"}, "RefSi": {"harts": 2}, "Acceldev": {"memory_bytes": 1 << 20, "seed": 7},
    "Gpu": {"agent": "gfx701", "exact": True}, "Platform": {"latency": 3},
    "Program": {"engine": "reference", "lints": "off"},
}  # fmt: skip
"""Settings and whatever else a device of each kind is made of."""


@dataclass(frozen=True, slots=True)
class Settings(DeviceSettings):
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"speed": ("slow", "fast")}
    LEAST: ClassVar[Mapping[str, int]] = {"count": 1}

    speed: str = "slow"
    count: int | None = None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"speed": "warp"}, "speed is 'warp', expected one of slow, fast"),
        ({"count": 0}, "count is 0, expected 1 or more"),
        ({"on_finding": "shout"}, "on_finding is 'shout', expected one of warn, keep, raise"),
        ({"lints": "loud"}, "lints is 'loud', expected one of warn, raise, off"),
        ({"sped": "fast"}, "unknown setting sped; did you mean 'speed'?"),
        ({"colour": 1}, "unknown setting colour, expected one of lints, on_finding, speed, count"),
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
    with pytest.raises(
        WireError, match=r"settings were given twice, as Settings and by name \(count\): give them in one way"
    ):
        Settings.of(given, {"count": 3})


@EVERY
def test_every_device_knows_its_settings(make: Callable[..., Any]) -> None:
    with pytest.raises(WireError, match=r"unknown setting lint; did you mean 'lints'\?"):
        make(lint="off")
    with pytest.raises(WireError, match="lints is 'no', expected one of warn, raise, off"):
        make(lints="no")


@EVERY
def test_every_device_knows_what_to_do_with_findings(make: Callable[..., Any]) -> None:
    for value in ON_FINDING:
        make(on_finding=value).close()
    with pytest.raises(WireError, match="on_finding is 'no', expected one of warn, keep, raise"):
        make(on_finding="no")


@EVERY
def test_every_device_is_closed_alike(make: Callable[..., Any]) -> None:
    device = make()
    device.close()
    device.close()
    with make() as device:
        pass


@pytest.mark.parametrize("kind", DEVICES)
def test_what_is_pickled_of_a_device_is_its_description(kind: str) -> None:
    with DEVICES[kind]() as device:
        usual = pickle.dumps(device)
    with DEVICES[kind](**CHOSEN[kind]) as device:
        data = pickle.dumps(device)
        assert data != usual
        assert len(data) < 10_000
        with pickle.loads(data) as again:
            assert again is not device
            assert (type(again), repr(again)) == (type(device), repr(device))
            assert pickle.dumps(again) == data


def test_contents_stay_where_they_are() -> None:
    with RefSi.open(engine="reference") as device:
        address = device.allocate(8)
        device.write(address, b"12345678")
        with pickle.loads(pickle.dumps(device)) as again:
            assert again.read(again.allocate(8), 8) == bytes(8)
    with pytest.raises(RuleError, match="the device was shut down"):
        pickle.dumps(device)


def test_a_kernel_travels_by_its_name() -> None:
    for name in BUILT_IN:
        assert pickle.loads(pickle.dumps(find(name))) is find(name)
    nameless = replace(find("sum"), doc="another")
    with pytest.raises(
        WireError,
        match=r"kernel sum cannot be pickled: assign it to a global variable of module .*fletcher\.kernels\.examples",
    ):
        pickle.dumps(nameless)


def worked(devices: list[Any]) -> list[str]:
    """Use devices in a worker process, and return the error that it ends with."""
    for device in devices:
        device.close()
    with Acceldev.open() as driver, driver.open_context() as context:
        context.execute(Fill(value=0, buffer_slot=3, start=0, length=4))
    return []


def test_devices_and_their_errors_cross_processes() -> None:
    devices = [make(**CHOSEN[kind]) for kind, make in DEVICES.items()]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        error = pool.submit(worked, devices).exception(timeout=120)
    for device in devices:
        device.close()
    assert isinstance(error, DriverError)
    assert error.rule is not None
    assert (error.errno, error.rule.id, error.path[0].kind) == (5, "acceldev/fill-slot", "FILL")


def test_a_closed_refsi_device() -> None:
    device = RefSi.open(engine="reference")
    device.close()
    with pytest.raises(RuleError, match="the device was shut down: open a new one"):
        device.allocate(1)


def test_a_closed_program() -> None:
    with load(demo_program("tonga", 200406), engine="reference") as program:
        kernel = program.kernel("saxpy")
    with pytest.raises(RuleError, match="the program was closed: open it again"):
        kernel.run(64, 64, [])


@pytest.mark.parametrize(
    "check", [["memory", "races"], ("memory", "races"), {"memory": 1, "races": 2}, " memory , races"]
)
def test_checks_are_given_as_text_or_one_by_one(check: Any) -> None:
    for open_device in (partial(Gpu.open, "gfx900"), RefSi.open, partial(load, demo_program("tonga", 200406))):
        open_device(check=check).close()
    with Gpu.open("gfx900", check=check) as gpu:
        assert gpu.device.settings.checks == {"memory", "races"}
    made = KernelSettings(check=check)
    assert (made.checks, isinstance(made.check, str)) == ({"memory", "races"}, True)
    assert KernelSettings(check=[]).checks == set()


@pytest.mark.parametrize("check", [7, None, ["memory", 7], [["memory"]], b"memory"])
def test_what_names_no_checks(check: Any) -> None:
    with pytest.raises(
        WireError, match=r'check is .*, expected names of checks: "memory,races" or \["memory", "races"\]'
    ):
        KernelSettings(check=check)
    with pytest.raises(WireError, match="unknown check 'memroy'"):
        KernelSettings(check=["memroy"])


def test_numbers_are_numbers() -> None:
    with pytest.raises(WireError, match="threads is '2', expected a number of 1 or more"):
        Gpu.open("gfx900", threads="2")
