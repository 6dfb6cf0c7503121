"""Strategies for Acceldev code buffers, which hold the user commands that a RUN command executes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.core.errors import WireError
from softcard.device.acceldev.commands import BUFFER_BYTES, USER_COMMANDS, Fence, Fill, Nop, UserCommand, user_code
from softcard.device.acceldev.registers import ACCELDEV_NUM_BUFFERS, ACCELDEV_PAGE_SIZE
from softcard.testing.strategies.drawn import Drawn, drawn

WORD: Final = st.integers(0, (1 << 32) - 1)
MOST_COMMANDS: Final = 6
"""The maximum number of commands before the invalid one, and also of commands after it."""
ONE_PAGE: Final[Mapping[int, int]] = MappingProxyType({0: ACCELDEV_PAGE_SIZE})


def acceldev_buffers(
    *, breaks: Collection[str] | None = None, slots: Mapping[int, int] = ONE_PAGE
) -> SearchStrategy[Drawn[bytes]]:
    """Draw Acceldev code buffers as bytes; a command has five words.

    `slots` maps the numbers of buffer slots to the sizes in bytes (whole pages) of the buffers bound to them. A valid
    code buffer only fills memory of these buffers. `breaks` lists the ids of the rules that may be broken, one at a
    time.
    """
    for slot, size in slots.items():
        is_slot = 0 <= slot < ACCELDEV_NUM_BUFFERS
        if not (is_slot and 0 < size <= BUFFER_BYTES and size % ACCELDEV_PAGE_SIZE == 0):
            raise WireError(
                f"slot {slot} with {size} bytes is invalid, expected a slot from 0 to 15 with 1 to 1024 whole pages"
            )
    fills = st.sampled_from(sorted(slots)).flatmap(lambda slot: _fills(slot, slots[slot])) if slots else st.nothing()
    commands = st.one_of(st.just(Nop()), st.just(Fence()), fills)
    unbound = [slot for slot in range(ACCELDEV_NUM_BUFFERS) if slot not in slots]
    invalid = st.integers(ACCELDEV_NUM_BUFFERS, (1 << 32) - 1)
    wrong: dict[str, SearchStrategy[UserCommand]] = {
        "user-commands": st.builds(Nop, type=st.integers(len(USER_COMMANDS), 15)),
        "fill-slot": _filling(st.sampled_from(unbound) | invalid if unbound else invalid),
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
    """Draw FILL commands that stay within `size` bytes of a slot."""

    def fill(value: int, start: int, length: int) -> Fill:
        return Fill(value=value, buffer_slot=slot, start=start, length=min(length, size - start))

    return st.builds(fill, WORD, st.integers(0, size - 1), st.integers(0, size))


def _filling(slots: SearchStrategy[int], starts: SearchStrategy[int] = WORD) -> SearchStrategy[Fill]:
    """Draw FILL commands of one byte, with the given slots and start offsets."""
    return st.builds(Fill, value=WORD, buffer_slot=slots, start=starts, length=st.just(1))


def _around(commands: SearchStrategy[UserCommand], wrong: SearchStrategy[UserCommand] | None, draw: DrawFn) -> bytes:
    """Draw valid commands as code-buffer bytes.

    If `wrong` is given, an invalid command drawn from it follows, and then further commands, which are never
    reached."""
    some = st.lists(commands, max_size=MOST_COMMANDS)
    if wrong is None:
        return user_code(draw(some))
    return user_code([*draw(some), draw(wrong), *draw(some)])
