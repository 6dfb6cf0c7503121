"""HSA hosts of any kind: errors with codes, no hang, machine code as the readable path, devices that go on and back."""

from __future__ import annotations

from collections import Counter

import pytest

from softcard.device.hsa.queues import signals
from tests.hostile import hsa


@pytest.fixture(autouse=True)
def _short_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks that a hostile host leaves taken are not waited for."""
    monkeypatch.setattr(signals, "LOCK_SECONDS", 0.0)


@pytest.mark.one_in(4)
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_packets_and_queues_of_any_kind(part: int) -> None:
    reported: Counter[str] = Counter()
    for number in range(part, 240, 4):
        reported.update(hsa.check_device(f"queues/{number}"))
    for name in ("INVALID_CODE", "INVALID_PACKET", "INVALID_DIMENSION", "MEMORY_APERTURE_VIOLATION", "RuleError"):
        assert reported[name], reported


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("what", ["queue", "packet", "signal", "doorbell", "inactive", "kernel"])
@pytest.mark.parametrize(("agent", "model"), [("gfx701", "large"), ("gfx701", "small"), ("gfx900", "large")])
def test_every_word_at_its_extremes(agent: str, model: str, what: str) -> None:
    assert sum(hsa.check_words(agent, model, what).values())


@pytest.mark.one_in(4)
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_machine_code_agrees(part: int) -> None:
    errors = [hsa.check_agreement(f"agreement/{number}") for number in range(part, 120, 4)]
    assert sum(errors)
    assert not all(errors)


@pytest.mark.one_in(4)
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_snapshots_bring_everything_back(part: int) -> None:
    assert sum(hsa.check_snapshot(f"snapshot/{number}") for number in range(part, 120, 4))
