"""The fault of words that are no instruction of a generation."""

from __future__ import annotations

from understudy.core.errors import GuestFault


class IllegalInstruction(GuestFault):
    """No instruction of this processor. `words` is what was fetched, as far as it was looked at."""

    def __init__(self, message: str, *, words: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.words = words
