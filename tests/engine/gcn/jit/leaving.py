"""How often translated code comes back to Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from softcard.engine.gcn.jit import layout
from softcard.engine.gcn.tiered.worker import Worker


@contextmanager
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Why translated code came back to Python, apart from code that it has not got yet."""
    found: list[int] = []
    serve = Worker._serve

    def counted(self: Worker, why: int) -> None:
        if why != layout.MISS:
            found.append(why)
        serve(self, why)

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "_serve", counted)
        yield found
