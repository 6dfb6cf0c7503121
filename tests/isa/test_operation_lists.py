"""Every instruction asks the same operations of its algebra as when the vector files were written.

How to see what differs: `python -m tests.isa.recording FOLDER` writes the lists; do so before and after a change. Where
a difference is meant, `python -m tests.isa.recording` writes the vector files anew, and the commit says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.isa import recording
from tests.isa.recording import Recorder, digest, recorded
from understudy.isa.gcn.operations.table import OPS
from understudy.isa.gcn.state import Mode

FAMILIES = tuple(dict.fromkeys(op.family for op in OPS))


@pytest.mark.parametrize("family", FAMILIES)
def test_gcn(family: str) -> None:
    wanted = {key: value for key, value in recorded("gcn").items() if key.split()[0] == family}
    found = {f"{op.family} {op.name}": digest(recording.gcn_lists(op)) for op in OPS if op.family == family}
    assert {key: value for key, value in found.items() if wanted.get(key) != value} == {}
    assert list(wanted) == list(found)


def test_riscv() -> None:
    wanted = recorded("riscv")
    found = {key: digest(lists) for key, lists in recording.riscv()}
    assert {key: value for key, value in found.items() if wanted.get(key) != value} == {}
    assert list(wanted) == list(found)


def lists(meaning: Callable[[Recorder], object]) -> str:
    o = Recorder(mode=Mode())
    return recording.listing(o, lambda: meaning(o))


def test_lists_tell_operations_operands_and_the_order_of_effects_apart() -> None:
    def swapped(first: int, second: int) -> Callable[[Recorder], object]:
        def meaning(o: Recorder) -> None:
            o.set_s(first, o.add(32, o.s(first), o.const(32, 1)))
            o.set_s(second, o.s(first))

        return meaning

    plain = lists(swapped(1, 2))
    assert plain == lists(swapped(1, 2))
    assert plain != lists(swapped(2, 1))
    assert lists(lambda o: o.sub(32, o.s(1), o.s(2))) != lists(lambda o: o.sub(32, o.s(2), o.s(1)))
    assert lists(lambda o: o.sub(32, o.s(1), o.s(2))) != lists(lambda o: o.add(32, o.s(1), o.s(2)))


def test_lists_do_not_tell_the_order_of_reads_apart() -> None:
    def reads(*numbers: int) -> Callable[[Recorder], object]:
        def meaning(o: Recorder) -> None:
            values = {n: o.s(n) for n in numbers}
            o.set_scc(o.ult(32, values[1], values[2]))

        return meaning

    assert lists(reads(1, 2)) == lists(reads(2, 1))


def wrong() -> Iterator[Callable[[Recorder], object]]:
    yield lambda o: o.add(64, o.s(0), o.const(64, 1))
    yield lambda o: o.select(32, o.s(0), o.s(1), o.s(2))
    yield lambda o: o.trunc(16, 64, o.s(0))
    yield lambda o: o.fadd("d", o.s(0), o.s64(0))


@pytest.mark.parametrize("meaning", list(wrong()))
def test_recorder_checks_widths(meaning: Callable[[Recorder], object]) -> None:
    with pytest.raises(AssertionError, match=r"\("):
        lists(meaning)
