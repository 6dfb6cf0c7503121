"""How often translated code comes back to Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from understudy.engine.gcn.jit import layout
from understudy.engine.gcn.jit.worker import Crew


@contextmanager
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Why translated code came back to Python, apart from code that it has not got yet."""
    found: list[int] = []
    serve = Crew._serve

    def counted(self: Crew, why: int) -> None:
        if why != layout.MISS:
            found.append(why)
        serve(self, why)

    with monkeypatch.context() as patched:
        patched.setattr(Crew, "_serve", counted)
        yield found
