"""Has small launches run side by side under the check of races."""

from __future__ import annotations

from typing import Any

import pytest

from softcard.engine.gcn.races.speculation import Speculation
from softcard.engine.gcn.tiered import engine as jit


def be_eager(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Until the test ends; whether each stage was of use."""
    made = list[bool]()
    monkeypatch.setattr(jit, "SHARED_SECONDS", 0.0)
    monkeypatch.setattr(jit, "LEAST_SECONDS", 1e-9)
    monkeypatch.setattr(Speculation, "is_due", lambda *_: True)
    stage = jit.Launch._stage

    def seen(launch: jit.Launch, *arguments: Any) -> bool:
        made.append(stage(launch, *arguments))
        return made[-1]

    monkeypatch.setattr(jit.Launch, "_stage", seen)
    return made
