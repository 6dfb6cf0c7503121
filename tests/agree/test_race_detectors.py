"""Both judges of harts' races, in Python and compiled, are told of the same, in random order, and tell the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from softcard.core.findings import Finding, FindingLog
from softcard.core.space import Ram
from softcard.engine.riscv.races.native_detector import NativeHartRaces
from softcard.engine.riscv.races.watch import HartRaces
from softcard.isa.riscv.decode import assemble, decode
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.isa import ALL
from softcard.isa.riscv.state import Hart

HARTS = 3
PLACES = 24
"""Bytes that are shared."""
LOADS = {1: "lb t2, 0(t1)", 2: "lh t2, 0(t1)", 4: "lw t2, 0(t1)", 8: "ld t2, 0(t1)"}
STORES = {1: "sb t2, 0(t1)", 2: "sh t2, 0(t1)", 4: "sw t2, 0(t1)", 8: "sd t2, 0(t1)"}
ATOMICS = ("lr.w{} t2, (t1)", "amoadd.w{} t2, t3, (t1)", "amoswap.w{} t2, t3, (t1)", "sc.w{} t2, t3, (t1)")
FENCES = ("fence rw, rw", "fence rw, w", "fence r, rw", "fence w, w", "fence.tso")
NO_PORT: Any = None


def insn(text: str) -> Insn:
    return decode(int.from_bytes(assemble(text), "little"), ALL)


class Code:
    """Some instructions, at places of their own."""

    def __init__(self, random: Random) -> None:
        texts = [*LOADS.values(), *STORES.values()] * 2
        texts += [random.choice(ATOMICS).format(random.choice(("", "", ".aq", ".rl", ".aqrl"))) for _ in range(6)]
        self.insns = {0x1000 + 4 * n: insn(text) for n, text in enumerate(texts)}
        self.fences = [insn(text) for text in FENCES]

    def size(self, pc: int) -> int:
        found = {text.split()[0]: size for table in (LOADS, STORES) for size, text in table.items()}
        return found.get(self.insns[pc].name, 4)

    def access(self, pc: int) -> str:
        name = self.insns[pc].name
        return "read" if name[0] == "l" else "write" if name in ("sb", "sh", "sw", "sd") else "atomic"


def steps(random: Random, code: Code, count: int) -> list[tuple[Any, ...]]:
    """What happens: each a name and arguments."""
    found: list[tuple[Any, ...]] = []
    hart, key, open_ = 0, 0, list[tuple[int, int]]()
    pcs = random.sample(sorted(code.insns), random.randrange(3, 9))
    for _ in range(count):
        if random.random() < 0.4:
            hart = random.randrange(HARTS)
        kind = random.random()
        if kind < 0.17:
            found.append(("fence", hart, random.randrange(len(FENCES))))
        elif kind < 0.19:
            found.append(("barrier_opens",))
        elif kind < 0.2:
            found.append(("group_begins",))
            open_.clear()
        elif kind < 0.22:
            key += 1
            at = [4 * random.randrange(PLACES // 4) for _ in range(2)]
            found.append(("started", hart, key, *at, random.randrange(1, 9)))
            open_.append((hart, key))
        elif kind < 0.25 and open_:
            found.append(("finished", *open_.pop(random.randrange(len(open_)))))
        else:
            pc = random.choice(pcs)
            size = code.size(pc)
            found.append(("access", hart, pc, random.randrange(PLACES // size) * size, random.random() < 0.5))
    return [*found, ("kernel_ends",)]


def reported_by(
    races: HartRaces | NativeHartRaces, reported: list[Finding], ram: Ram, code: Code, wanted: list[tuple[Any, ...]]
) -> list[Any]:
    """What a judge tells of, with how much it had told of behind each step."""
    harts, counts = [Hart(index, NO_PORT) for index in range(HARTS)], []
    races.group_begins()
    for name, *more in wanted:
        if name == "fence":
            fence = code.fences[more[1]]
            races.fence(harts[more[0]], fence.word, fence.name == "fence.tso")
        elif name == "started":
            hart, key, source, target, size = more
            at = [ram.base_host + each for each in (source, target)]
            extents = [[(each, each + size)] for each in at]
            races.started(hart, key, f"transfer {key} of hart {hart}", extents[0], extents[1], source, target)
        elif name == "access":
            number, pc, address, same = more
            harts[number].pc = pc
            races.access(harts[number], code.insns[pc], code.access(pc), address, code.size(pc), lambda same=same: same)
        else:
            getattr(races, name)(*more)
        counts.append(sum(each.count for each in reported))
    return [counts, [each.as_dict() for each in reported]]


def agree(seed: str) -> int:
    random, ram = Random(seed), Ram(4096)
    code, equal_stores = Code(random), random.random() < 0.3
    wanted = steps(random, code, 120)
    one, other = list[Finding](), list[Finding]()
    first = HartRaces(FindingLog(one), lambda hart, address: ram.base_host + address, equal_stores)
    second = NativeHartRaces(
        FindingLog(other), lambda hart, address: ram.base_host + address, equal_stores, HARTS,
        lambda index: Hart(index, NO_PORT), lambda hart, pc: code.insns[pc], lambda: [ram],
    )  # fmt: skip
    results = [reported_by(races, reported, ram, code, wanted) for races, reported in ((first, one), (second, other))]
    assert results[0] == results[1], f"{seed}: {wanted}"
    return len(one)


@pytest.mark.parametrize("part", range(4))
def test_both_detectors_report_the_same(part: int) -> None:
    assert sum(agree(f"judges/{part}/{number}") for number in range(40)) > 200
