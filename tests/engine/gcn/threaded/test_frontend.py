"""The vectorised front end against the kind and the operands of each instruction by itself."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.jit.region import node_of
from softcard.engine.gcn.threaded.flow import Listing
from softcard.engine.gcn.threaded.frontend import Code, Frontend
from softcard.engine.gcn.threaded.kind import IMPLIED, SHIFTS, Part, kind_of
from softcard.engine.gcn.threaded.values import PART_COLUMNS, values_of
from softcard.isa.gcn.encoding import operands
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.semantics import source
from softcard.isa.gcn.state import LANES, MODE_BITS, SGPR_AT, VCC
from softcard.isa.gcn.target import TARGETS
from tests.isa.gcn_words import PROCESSORS, random_words

MODES = (0xF0, 0x3C0 & MODE_BITS | 1 << 32)


def value(insn: Insn, part: Part) -> int:
    """What a record holds for a part, from the decoded instruction."""
    if part.field == "literal":
        assert insn.literal is not None
        return insn.literal
    n = VCC if part.field == IMPLIED else insn[part.field]
    if part.role == "v":
        return 4 * LANES * (n & 0xFF)
    if part.role == "s":
        return SGPR_AT + 4 * (n & 0x7F)
    if part.type in SHIFTS:
        return SHIFTS[part.type][n]
    if part.role == "n":
        return (n | insn["offset1"] << 8 if part.type == "16" else n) & (1 << 64) - 1
    literal = insn.literal if n == operands.LITERAL else None
    number = source.inline(n, part.type) if literal is None else source.literal(literal, part.type)
    return number & (1 << 64) - 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROCESSORS)
def test_kinds_and_values_are_those_of_each_instruction(name: str, mode: int) -> None:
    """Illegal words, register numbers that are out of range among them, are of no kind."""
    target = TARGETS[name]
    listing = Listing(target, random_words(11), 0x1000)
    frontend = Frontend(target, mode)
    every = np.arange(listing.count)
    plans = listing.plan(frontend, every)
    code = Code(target, listing.words, listing.at, listing.start)
    compared = 0
    for index, number in enumerate(plans.tolist()):
        insn, plan = code.insn(index), frontend.plans[number]
        if insn is None:
            assert plan.kind is None
            continue
        node = node_of(insn, mode)
        try:
            kind = (
                None if node.is_step else kind_of(node, mode, plan.group is not None and plan.group.has_fixed_numbers)
            )
        except Untranslated:
            kind = None
        assert (kind.key if kind else None) == (plan.kind.key if plan.kind else None), insn
        count = len(plan.getters)
        words, literals = (np.full(count, each[index]) for each in (listing.encoded, listing.literals))
        rows = np.array([getter.row(0) for getter in plan.getters], np.uint64).reshape(count, PART_COLUMNS)
        for getter, found in zip(plan.getters, values_of(rows, words, literals).tolist(), strict=True):
            assert found == value(insn, getter.part), (insn, getter.part)
            compared += 1
    assert compared > 5000
