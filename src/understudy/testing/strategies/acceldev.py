"""Command buffers of Acceldev: the user commands that a RUN executes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from understudy.core.errors import WireError
from understudy.device.acceldev.commands import BUFFER_BYTES, USER_COMMANDS, Fence, Fill, Nop, UserCommand, user_code
from understudy.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, ACCELDEV_PAGE_SIZE
from understudy.testing.strategies.drawn import Drawn, drawn

WORD: Final = st.integers(0, (1 << 32) - 1)
MOST_COMMANDS: Final = 6
"""Commands in front of and behind the one that matters."""
ONE_PAGE: Final[Mapping[int, int]] = MappingProxyType({0: ACCELDEV_PAGE_SIZE})


def acceldev_buffers(
    *, breaks: Collection[str] | None = None, slots: Mapping[int, int] = ONE_PAGE
) -> SearchStrategy[Drawn[bytes]]:
    """Code buffers as bytes, of five words a command.

    `slots`: the sizes in bytes, by their numbers, of the buffers that are bound in the context; whole pages. A valid
    one only fills what is there. `breaks`: ids of rules of which one may be broken.
    """
    for slot, size in slots.items():
        is_slot = 0 <= slot < ACCELDEV_NUM_BUFFERS
        if not (is_slot and 0 < size <= BUFFER_BYTES and size % ACCELDEV_PAGE_SIZE == 0):
            raise WireError(f"slot {slot} of {size} bytes, expected one of 0 to 15 with 1 to 1024 pages")
    fills = st.sampled_from(sorted(slots)).flatmap(lambda slot: _fills(slot, slots[slot])) if slots else st.nothing()
    commands = st.one_of(st.just(Nop()), st.just(Fence()), fills)
    unbound = [slot for slot in range(ACCELDEV_NUM_BUFFERS) if slot not in slots]
    nobody = st.integers(ACCELDEV_NUM_BUFFERS, (1 << 32) - 1)
    wrong: dict[str, SearchStrategy[UserCommand]] = {
        "user-commands": st.builds(Nop, type=st.integers(len(USER_COMMANDS), 15)),
        "fill-slot": _filling(st.sampled_from(unbound) | nobody if unbound else nobody),
    }
    short = [slot for slot, size in slots.items() if size < BUFFER_BYTES]
    if short:
        wrong["pte-present"] = st.sampled_from(short).flatmap(
            lambda slot: _filling(st.just(slot), st.integers(slots[slot], BUFFER_BYTES - 1))
        )
    if slots:
        wrong["virtual-22-bit"] = _filling(st.sampled_from(sorted(slots)), st.integers(BUFFER_BYTES, (1 << 32) - 2))
    mistakes = {f"acceldev/{name}": partial(_around, commands, one) for name, one in wrong.items()}
    return drawn(partial(_around, commands, None), mistakes, breaks)


def _fills(slot: int, size: int) -> SearchStrategy[Fill]:
    """FILLs that stay within `size` bytes."""

    def fill(value: int, start: int, length: int) -> Fill:
        return Fill(value=value, buffer_slot=slot, start=start, length=min(length, size - start))

    return st.builds(fill, WORD, st.integers(0, size - 1), st.integers(0, size))


def _filling(slots: SearchStrategy[int], starts: SearchStrategy[int] = WORD) -> SearchStrategy[Fill]:
    """FILLs of one byte."""
    return st.builds(Fill, value=WORD, buffer_slot=slots, start=starts, length=st.just(1))


def _around(commands: SearchStrategy[UserCommand], wrong: SearchStrategy[UserCommand] | None, draw: DrawFn) -> bytes:
    """Commands, what is wrong, and commands that are never reached."""
    some = st.lists(commands, max_size=MOST_COMMANDS)
    if wrong is None:
        return user_code(draw(some))
    return user_code([*draw(some), draw(wrong), *draw(some)])
