"""Every instruction asks the same operations of its algebra as when the vector files were written.

How to see what differs: `python -m tests.isa.recording FOLDER` writes the lists; do so before and after a change. Where
a difference is meant, `python -m tests.isa.recording` writes the vector files anew, and the commit says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.state import Mode
from tests.isa import recording
from tests.isa.recording import Recorder, digest, recorded

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


def lists(semantics: Callable[[Recorder], object]) -> str:
    o = Recorder(mode=Mode())
    return recording.listing(o, lambda: semantics(o))


def test_lists_distinguish_operations_operands_and_the_order_of_effects() -> None:
    def swapped(first: int, second: int) -> Callable[[Recorder], object]:
        def semantics(o: Recorder) -> None:
            o.set_s(first, o.add(32, o.s(first), o.const(32, 1)))
            o.set_s(second, o.s(first))

        return semantics

    plain = lists(swapped(1, 2))
    assert plain == lists(swapped(1, 2))
    assert plain != lists(swapped(2, 1))
    assert lists(lambda o: o.sub(32, o.s(1), o.s(2))) != lists(lambda o: o.sub(32, o.s(2), o.s(1)))
    assert lists(lambda o: o.sub(32, o.s(1), o.s(2))) != lists(lambda o: o.add(32, o.s(1), o.s(2)))


def test_lists_do_not_distinguish_the_order_of_reads() -> None:
    def reads(*numbers: int) -> Callable[[Recorder], object]:
        def semantics(o: Recorder) -> None:
            values = {n: o.s(n) for n in numbers}
            o.set_scc(o.ult(32, values[1], values[2]))

        return semantics

    assert lists(reads(1, 2)) == lists(reads(2, 1))


def wrong() -> Iterator[Callable[[Recorder], object]]:
    yield lambda o: o.add(64, o.s(0), o.const(64, 1))
    yield lambda o: o.select(32, o.s(0), o.s(1), o.s(2))
    yield lambda o: o.trunc(16, 64, o.s(0))
    yield lambda o: o.fadd("d", o.s(0), o.s64(0))


@pytest.mark.parametrize("semantics", list(wrong()))
def test_recorder_checks_widths(semantics: Callable[[Recorder], object]) -> None:
    with pytest.raises(AssertionError, match=r"\("):
        lists(semantics)
