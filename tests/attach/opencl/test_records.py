"""Variables for the servers of the OpenCL platform, and what servers send to `softcard exec`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from softcard import WireError
from softcard.attach.opencl import variables
from softcard.attach.opencl.records import Receiver, Sender
from softcard.core.diagnostics import Diagnostic, Location
from softcard.core.findings import Level


def test_settings_come_back_from_variables() -> None:
    options = {"engine": "reference", "suppressions": "/a/b", "equal_stores": True, "poison": 0xDEADBEEF}
    made = variables.of_settings(("gfx900", "gfx803"), check="memory", time_limit_seconds=2.5, **options)
    assert made["SOFTCARD_OPENCL_AGENTS"] == "gfx900,gfx803"
    assert (made["SOFTCARD_CHECK"], made["SOFTCARD_TIME_LIMIT"]) == ("memory", "2.5")
    assert variables.settings(made) == options


def test_options_that_are_not_given_have_no_variables() -> None:
    unset = dict.fromkeys(("engine", "check", "suppressions"), "")
    assert variables.of_settings((), **unset, time_limit_seconds=None, poison=None, equal_stores=False) == {}
    assert variables.settings({}) == {}
    assert variables.of_settings((), poison=0) == {"SOFTCARD_OPENCL_POISON": "0"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ENGINE", "magic", "SOFTCARD_OPENCL_ENGINE is magic, expected jit or reference"),
        ("EQUAL_STORES", "yes", "SOFTCARD_OPENCL_EQUAL_STORES is yes, expected 0 or 1"),
        ("POISON", "junk", "SOFTCARD_OPENCL_POISON is junk, expected a 32-bit number"),
    ],
)
def test_a_variable_with_an_invalid_value(name: str, value: str, message: str) -> None:
    with pytest.raises(WireError, match=f"^{message}$"):
        variables.settings({f"SOFTCARD_OPENCL_{name}": value})


def test_other_libraries_of_the_loader_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_FILENAMES", "/other.so")
    found = variables.of_loaders(Path("/a/vendors"), Path("/a/lib.so"))
    assert found == {"OCL_ICD_VENDORS": "/a/vendors", "OCL_ICD_FILENAMES": "/a/lib.so:/other.so"}


def test_the_command_hears_the_diagnostics_of_several_servers(tmp_path: Path) -> None:
    heard: list[Diagnostic] = []
    receiver = Receiver(tmp_path / "s", heard.append)
    servers = [Sender({"SOFTCARD_OPENCL_RECORDS": str(tmp_path / "s")}) for _ in range(3)]
    found = Diagnostic(Level.ERROR, "memory/out-of-bounds", "read of 4 bytes", location=Location("a.cl", 3))
    for each in servers[:2]:
        each.send(found)
    for each in servers:
        each.close()
    assert receiver.close()
    assert (receiver.count, heard) == (3, [found, found])


def test_a_server_that_still_runs_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softcard.attach.opencl.records.PATIENCE_SECONDS", 0.05)
    receiver = Receiver(tmp_path / "s", lambda found: None)
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(str(tmp_path / "s"))
        assert not receiver.close()


def test_no_command_hears_the_server(tmp_path: Path) -> None:
    for environment in ({}, {"SOFTCARD_OPENCL_RECORDS": str(tmp_path / "none")}):
        server = Sender(environment)
        server.send(Diagnostic(Level.NOTE, "a", "b"))
        server.close()
