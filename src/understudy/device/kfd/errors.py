"""How a call of the driver fails."""

from __future__ import annotations

import errno

from understudy.core.errors import UnderstudyError


class Refused(UnderstudyError):
    """A system call that fails; `errno` is what the program gets."""

    def __init__(self, message: str, number: int = errno.EINVAL) -> None:
        super().__init__(message)
        self.errno = number


def bad_address(message: str) -> Refused:
    """The program gave an address that is not its own."""
    return Refused(message, errno.EFAULT)
