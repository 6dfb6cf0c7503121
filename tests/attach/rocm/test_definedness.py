"""HIP programs under all checks, and under the check of uninitialised values: right ones, and planted mistakes."""

from __future__ import annotations

import pytest

from softcard.cli.attach.exec_rocm import environment
from softcard.core.checks import INIT
from softcard.core.findings import Finding
from softcard.device.hsa.device import HsaDevice
from tests.attach.rocm.rig import TIMEOUT_S, Served, hip_program, needs_compiler, needs_rocm, served
from tests.attach.rocm.test_programs import SDMA

pytestmark = [pytest.mark.oracle, pytest.mark.slow(seconds=9), needs_compiler, needs_rocm]
AGENT = "gfx900"
RIGHT = ("copies", "host_stores", "padding", "pinned", "symbols", "rectangle", "recursion")
MISTAKES = (
    {
        "last_missing": "4 of 4,000 bytes that the host copied were never written",
        "decided": "an undefined value decides which lanes are active (EXEC): it comes from 4 bytes at ",
        "lds": "offset 0x200 of LDS, which are uninitialised",
        "own": "256 of 256 bytes that the host copied are undefined",
        "through_copies": "128 of 256 bytes that the host copied are undefined",
    },
    {
        "pinned_lds": "512 bytes that a kernel stored to the host's memory are undefined",
        "recycled": "256 of 256 bytes that the host copied are undefined",
    },
    {"half_by_host": "which are uninitialised"},
    {"one_word": "4 of 4 bytes that the host copied are undefined"},
)
"""The parts of each run of the program, in order, and the findings in each."""


def program() -> str:
    return hip_program("definedness", agents=(AGENT,))


def findings(there: Served, *command: str, **variables: str) -> list[Finding]:
    """Return the findings while a program of HIP runs."""
    agents: list[HsaDevice] = []
    there.device.on_device = agents.append
    done = there.run(*command, **variables)
    assert not done.returncode, done.stderr
    return [each for agent in agents for each in agent.findings]


@pytest.mark.parametrize(
    ("sdma", "check", "names"), [("1", "all", ("host_stores", "pinned", "symbols", "recursion")), ("0", "init", RIGHT)]
)
def test_right_programs_have_no_findings(sdma: str, check: str, names: tuple[str, ...]) -> None:
    with served(AGENT, check=check, time_limit_seconds=TIMEOUT_S) as there:
        assert not findings(there, program(), *names, **environment(frozenset({INIT})), **{SDMA: sdma})


def test_planted_mistakes_are_found() -> None:
    with served(AGENT, check="init", time_limit_seconds=TIMEOUT_S) as there:
        for expected in MISTAKES:
            found = findings(there, program(), *expected, **environment(frozenset({INIT})))
            assert len(found) == len(expected)
            for text, each in zip(expected.values(), found, strict=True):
                assert text in each.message
