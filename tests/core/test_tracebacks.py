"""Errors that nothing catches: the user's frames and the message, on every device."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest

from softcard import Acceldev, Gpu, Platform, RefSi, fletcher, hsa
from softcard.core.errors import BeyondModel, ModelBug, SoftcardError
from softcard.core.tracebacks import VARIABLE, install, show_whole

Capture = pytest.CaptureFixture[str]


def gpu() -> None:
    with Gpu.open("gfx900") as device:
        device.run(hsa.demo_code("gfx900"), "saxpy", grid=1, args=[2.0, 8, 8])


def refsi() -> None:
    with RefSi.open() as device:
        device.read(1, 4)


def acceldev() -> None:
    with Acceldev.open() as device:
        device.open_context().create_buffer(-1)


def platform() -> None:
    with Platform(fletcher.find("sum")) as device, fletcher.Context(device) as context:
        context.enable()


@pytest.fixture(autouse=True)
def hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program: pytest has hooks of its own."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    install(SoftcardError, but=ModelBug)


def caught(act: Callable[[], None]) -> SoftcardError:
    with pytest.raises(SoftcardError) as found:
        act()
    return found.value


def shown(capsys: Capture, error: BaseException) -> str:
    capsys.readouterr()
    sys.excepthook(type(error), error, error.__traceback__)
    return capsys.readouterr().err


@pytest.mark.parametrize("act", [gpu, refsi, acceldev, platform])
def test_a_traceback_ends_at_the_users_line(act: Callable[[], None], capsys: Capture) -> None:
    error = caught(act)
    trace = error.__traceback__
    text = shown(capsys, error)
    assert f"in {act.__name__}\n" in text
    assert "/softcard/" not in text.replace(__file__, "")
    assert len(text.splitlines()) < 16
    assert str(error) in text
    assert error.__traceback__ is trace
    assert "/softcard/" not in "\n".join(error._render_traceback_()).replace(__file__, "")


def test_an_error_is_one_line_after_the_users_frames(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers are an attribute of the error, and in complete tracebacks."""
    error = caught(gpu)
    registers = str(error.registers)
    *frames, last = shown(capsys, error).splitlines()
    assert last == f"{type(error).__module__}.{type(error).__name__}: {error}"
    assert all(each.startswith(("Traceback", "  ")) for each in frames)
    assert registers in error.__notes__
    monkeypatch.setenv(VARIABLE, "full")
    assert registers in shown(capsys, error)


def test_all_frames_are_shown_where_they_are_wanted(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    error = caught(gpu)
    monkeypatch.setenv(VARIABLE, "full")
    assert "/softcard/host/hsa/gpu.py" in shown(capsys, error)
    assert "/softcard/host/hsa/gpu.py" in "\n".join(error._render_traceback_())
    monkeypatch.delenv(VARIABLE)
    show_whole(error)
    assert "/softcard/host/hsa/gpu.py" in shown(capsys, error)


def test_mistakes_of_ours_and_of_others_keep_their_frames(capsys: Capture) -> None:
    error = caught(gpu)
    for other in (ModelBug("broken"), ValueError("wrong")):
        assert "/softcard/host/hsa/gpu.py" in shown(capsys, other.with_traceback(error.__traceback__))


def test_causes_and_threads(capsys: Capture) -> None:
    error = caught(gpu)
    outer = BeyondModel("cannot")
    outer.__cause__ = error
    text = shown(capsys, outer)
    assert str(error) in text
    assert "/softcard/" not in text.replace(__file__, "")
    threading.excepthook(
        threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    )
    text = capsys.readouterr().err
    assert str(error) in text
    assert "/softcard/" not in text.replace(__file__, "")
