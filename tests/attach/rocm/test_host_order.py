"""HIP programs whose host stores to pinned memory beside work that reads it, and right ones that come close to that."""

from __future__ import annotations

import ctypes
import os
import signal
from functools import cache

import pytest

from softcard.cli.attach.exec_rocm import environment
from softcard.core.checks import RACES
from softcard.core.findings import Finding
from softcard.device.hsa.device import HsaDevice
from softcard.device.kfd.events import KernelLint
from tests.attach.rocm.rig import TIMEOUT_S, hip_program, needs_compiler, needs_rocm, served
from tests.attach.rocm.test_programs import SDMA

pytestmark = [pytest.mark.oracle, pytest.mark.slow, needs_compiler, needs_rocm]
AGENT = "gfx900"
USERFAULTFD = 323
"""The number of the system call on x86-64."""
BY_COPY = (
    "and a read of the same bytes by the host and a copy that it has not waited for, without a happens-before order"
)
BY_KERNEL = (
    "and a read of the same bytes by the host and a kernel that it has not waited for, without a happens-before order"
)
MISTAKES = {
    "copy_refilled": ("write of 253 bytes", "of pinned memory", BY_COPY),
    "large_copy_refilled": ("write of 262141 bytes", "of pinned memory", BY_COPY),
    "kernel_refilled": ("write of 253 bytes", BY_KERNEL),
    "registered_refilled": ("write of 253 bytes", BY_KERNEL),
    "managed_refilled": ("write of 253 bytes", BY_KERNEL),
}
EARLY = {
    "read_too_early": (
        "write-read",
        "read at",
        "of pinned memory",
        "and a write of the same bytes by the host and a copy",
    ),
    "result_read_too_early": ("write-read", "read at", "and a write of the same bytes by the host and a kernel"),
    "target_stored_to": (
        "write-write",
        "write at",
        "of pinned memory",
        "and a write of the same bytes by the host and a copy",
    ),
    "written_by_a_call": ("write-write", "write at", "and a write of the same bytes by the host and a copy"),
    "device_read": ("write-read", "read at", "and a write of the same bytes by the host and a kernel"),
    "device_stored_to": ("read-write", "write at", "and a read of the same bytes by the host and a kernel"),
}
"""Accesses to what work that has not begun is to access."""
RIGHT = (
    "two_buffers", "halves", "in_place", "by_callback", "by_graph", "by_flag", "by_value",
    "by_word_of_the_kernel", "freed", "read_after_a_wait", "other_half", "ping_pong", "ping_pong_on_device",
    "read_by_callback", "read_before_a_value",
)  # fmt: skip


@cache
def sees_accesses() -> bool:
    """Return True if the system lets programs see their own accesses, those in system calls included."""
    library = ctypes.CDLL(None, use_errno=True)
    made = library.syscall(USERFAULTFD, os.O_CLOEXEC)
    if made >= 0:
        os.close(made)
    return made >= 0


needs_faults = pytest.mark.skipif(not sees_accesses(), reason="no userfaultfd: sysctl vm.unprivileged_userfaultfd=1")


def program() -> str:
    return hip_program("host_order", agents=(AGENT,))


def findings(*names: str, **variables: str) -> list[Finding]:
    """What the check of races finds while parts of the program run."""
    agents: list[HsaDevice] = []
    with served(AGENT, check="races", time_limit_seconds=TIMEOUT_S) as there:
        there.device.on_device = agents.append
        done = there.run(program(), *names, **environment(frozenset({RACES})), **variables)
        assert not done.returncode, done.stdout + done.stderr
        assert not there.seen(KernelLint) or not sees_accesses()
        return [each for agent in agents for each in agent.findings]


@pytest.mark.parametrize(
    ("copy", "kernel"), [("copy_refilled", "kernel_refilled"), ("large_copy_refilled", "registered_refilled")]
)
def test_stores_before_a_wait_are_found(copy: str, kernel: str) -> None:
    for name, found in zip((copy, kernel), findings(copy, kernel), strict=True):
        assert all(text in found.message for text in MISTAKES[name]), found.message
        assert found.name == "races/read-write"
        assert found.unit == "the host"
        assert "hipStreamSynchronize" in found.suggestion
        assert ("_Z3sumPKiPi" in found.other) == (name == kernel)


def test_copies_by_kernels_and_managed_memory() -> None:
    names = ("copy_refilled", "large_copy_refilled", "managed_refilled")
    for name, found in zip(names, findings(*names, **{SDMA: "0"}), strict=True):
        assert MISTAKES[name][0] in found.message
        assert BY_KERNEL in found.message


@needs_faults
@pytest.mark.parametrize("name", EARLY)
def test_accesses_before_work_has_begun_are_found(name: str) -> None:
    kind, *texts = EARLY[name]
    (found,) = findings(name)
    assert found.kind == kind
    assert all(text in found.message for text in texts), found.message
    assert found.unit == "the host"
    assert "hipStreamSynchronize" in found.suggestion


def test_values_that_packets_wait_for_order_the_host() -> None:
    assert not findings("by_value", "read_before_a_value", GPU_STREAMOPS_CP_WAIT="1")


@pytest.mark.parametrize("sdma", ["0", "1"])
def test_right_programs_have_no_findings(sdma: str) -> None:
    assert not findings(*RIGHT, **{SDMA: sdma})


@pytest.mark.parametrize("large_bar", [True, False])
def test_device_memory_is_reached_with_a_large_bar_only(large_bar: bool) -> None:
    with served(AGENT, large_bar=large_bar, time_limit_seconds=TIMEOUT_S) as there:
        assert there.run(program(), "two_buffers", "in_place").returncode == 0
        assert there.run(program(), "host_stores").returncode == (0 if large_bar else -signal.SIGSEGV)
