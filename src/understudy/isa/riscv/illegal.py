"""The fault of an instruction that this hart does not have or may not execute."""

from __future__ import annotations

from understudy.core.errors import GuestFault


class IllegalInstruction(GuestFault):
    """An illegal instruction (mcause 2). `word` is what was fetched, 0 where the raiser does not know it."""

    def __init__(self, message: str, *, word: int = 0) -> None:
        super().__init__(message)
        self.word = word
