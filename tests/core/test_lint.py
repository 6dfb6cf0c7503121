"""The outcome of lints: warnings, errors, or nothing."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

from softcard.core.device import Telemetry
from softcard.core.errors import RuleError
from softcard.core.lint import RAISE, WARN, WARNINGS_OF_EACH, Lint, LintError, LintWarning
from softcard.core.rule import Fidelity, Rule

RULE = Rule("some/rule", "Some Clause", "what it says", Fidelity.EXACT)
ALWAYS = pytest.mark.filterwarnings("always::softcard.core.lint.LintWarning")


def call(telemetry: Telemetry, *checks: str, error: Exception | None = None) -> None:
    """A host's call in which lints are found."""
    with telemetry.desk:
        for check in checks:
            telemetry.lint(check, "it is so", RULE)
        if error is not None:
            raise error


@ALWAYS
def test_a_warning_names_the_line_of_the_host() -> None:
    with pytest.warns(LintWarning, match=r"^odd: it is so \[some/rule: Some Clause\]$") as caught:
        call(Telemetry(lints=WARN), "odd")
    assert caught[0].filename == __file__


@ALWAYS
def test_a_warning_comes_when_the_outermost_call_ends() -> None:
    telemetry = Telemetry(lints=WARN)
    with pytest.warns(LintWarning) as caught, telemetry.desk:  # noqa: PT031
        call(telemetry, "odd")
        assert not caught.list
    assert len(caught.list) == 1


@ALWAYS
def test_few_of_each_are_reported_and_probes_hear_of_all() -> None:
    telemetry, events = Telemetry(lints=WARN), []
    telemetry.probes.subscribe(events.append)
    with pytest.warns(LintWarning) as caught:  # noqa: PT031
        for _ in range(10):
            call(telemetry, "odd")
        call(telemetry, "strange")
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == WARNINGS_OF_EACH + 1
    assert (
        texts[WARNINGS_OF_EACH - 1]
        == "odd: it is so (further ones of the kind odd are not reported) [some/rule: Some Clause]"
    )
    assert texts[-1] == "strange: it is so [some/rule: Some Clause]"
    assert events == [Lint(0, "odd", "it is so", RULE)] * 10 + [Lint(0, "strange", "it is so", RULE)]


def test_raised() -> None:
    telemetry = Telemetry(lints=RAISE)
    with pytest.raises(LintError) as caught:
        call(telemetry, "odd", "strange")
    assert str(caught.value) == "odd: it is so, [some/rule: Some Clause]"
    assert caught.value.check == "odd"
    assert caught.value.rule is RULE
    assert caught.value.__notes__ == ["lint strange: it is so [some/rule: Some Clause]"]
    call(telemetry)  # they are told once


@pytest.mark.parametrize("policy", [WARN, RAISE])
def test_where_the_call_fails_they_are_notes(policy: str) -> None:
    with pytest.raises(RuleError, match="broken") as caught:
        call(Telemetry(lints=policy), "odd", error=RuleError("broken"))
    assert caught.value.__notes__ == ["lint odd: it is so [some/rule: Some Clause]"]


def test_off() -> None:
    telemetry = Telemetry()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(telemetry, "odd")
    assert not telemetry.wants_lints
    events: list[Any] = []
    telemetry.probes.subscribe(events.append)
    call(telemetry, "odd")
    assert len(events) == 1


def test_the_threads_of_a_device_report_nothing() -> None:
    telemetry = Telemetry(lints=RAISE)

    def work() -> None:
        with telemetry.desk.held():
            call(telemetry, "odd")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with pytest.raises(LintError, match="odd"):
        call(telemetry)


# ---- devices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
def test_acceldev(execution: str) -> None:
    from softcard.device.acceldev.device import AcceldevDevice

    device = AcceldevDevice(lints="raise", execution=execution)
    with pytest.raises(LintError, match="register-access: read of 2 bytes") as caught:
        device.read_bar(0, 0, 2)
    assert caught.value.check == "register-access"
    assert device.read_bar(0, 0, 4) == 0
    device.close()


@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
def test_fletcher_starts_that_are_ignored(execution: str) -> None:
    import pyarrow as pa

    from softcard.device.fletcher.kernels import find
    from softcard.host.fletcher.platform import Context, Kernel, Platform

    design = find("sum")
    batch = pa.record_batch([pa.array([1, -3, 3, -7])], schema=design.schemas[0])
    with Platform(design, lints="raise", execution=execution) as platform, Context(platform) as context:
        context.queue_record_batch(batch)
        context.enable()
        kernel = Kernel(context)
        kernel.start()
        kernel.wait_for_finish()
        with pytest.raises(LintError, match="start-ignored: start while the kernel is done: nothing happens"):
            kernel.start()
        kernel.reset()
        kernel.start()
        kernel.wait_for_finish()
        assert kernel.get_return("int64") == -6


@pytest.mark.parametrize("execution", ["synchronous", "threaded"])
def test_hsa(execution: str) -> None:
    from softcard.device.hsa.device import HsaDevice
    from softcard.device.hsa.queues.packets import BarrierPacket
    from softcard.device.hsa.queues.signals import Condition

    with HsaDevice(lints="raise", execution=execution) as device:
        queue, done = device.create_queue(64), device.create_signal(1)
        good = BarrierPacket(completion_signal=done.address).pack()
        with pytest.raises(LintError, match="reserved: packet 0: reserved_30 must be 0"):  # noqa: PT012
            queue.submit(good[:48] + b"\1" + good[49:])
            done.wait(Condition.EQ, 0)
        assert done.load() == 0  # the device did its work
        with pytest.raises(LintError, match="fence-scope: packet 1: a fence scope is 3, which is reserved"):  # noqa: PT012
            queue.submit(BarrierPacket(acquire_scope=3, completion_signal=done.address).pack())
            done.wait(Condition.LT, 0)


def test_hsa_reports_nothing_inside_of_a_callback() -> None:
    from softcard.device.hsa.device import HsaDevice
    from softcard.device.hsa.queues.packets import AgentDispatchPacket, BarrierPacket
    from softcard.device.hsa.queues.records import QueueFeature

    went_on = []
    with HsaDevice(lints="raise") as device:
        other = device.create_queue(64)

        def serve(*_: Any) -> int:
            packet = BarrierPacket().pack()
            other.submit(packet[:48] + b"\1" + packet[49:])
            device.process()
            went_on.append(True)
            return 0

        features = QueueFeature.KERNEL_DISPATCH | QueueFeature.AGENT_DISPATCH
        queue = device.create_queue(64, features=features, agent_dispatch=serve)
        with pytest.raises(LintError, match="reserved: packet 0: reserved_30 must be 0"):
            queue.submit(AgentDispatchPacket().pack())
    assert went_on == [True]


def test_refsi() -> None:
    from softcard.device.refsi import registers as r
    from softcard.device.refsi.toolkit.builder import CommandBuffer
    from softcard.host.refsi.refsi import RefSi

    with RefSi.open(lints="raise", engine="reference") as device:
        source, target = device.array(np.arange(64)), device.zeros(64, np.int64)
        buffer = CommandBuffer()
        for at in (target.address, target.address + 8):
            for register, value in ((3, source.address), (4, at), (5, 64), (0, 0x11)):  # DMACTRL last: 1D, start
                buffer.store_imm64(r.DMA_BASE + r.REGISTER_BYTES * register, value)
        buffer.finish()
        with pytest.raises(LintError, match=r"dma-hazard: DMA transfer 2 .* access the same bytes: write-after-write"):
            device.run(buffer)
