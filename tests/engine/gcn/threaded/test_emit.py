"""Which operations have handlers: all that regions translate, and none that they do not."""

from __future__ import annotations

import numpy as np
import pytest

from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.threaded.emit import HandlerEmitter, module
from softcard.engine.gcn.threaded.flow import Listing
from softcard.engine.gcn.threaded.frontend import Frontend
from softcard.engine.gcn.threaded.records import STUBS
from softcard.engine.gcn.threaded.stubs import stubs
from softcard.ir import llvm
from softcard.isa.gcn.target import TARGETS
from tests.isa.gcn_words import PROCESSORS, random_words

MODE = 0xF0


def is_exempt(name: str) -> bool:
    """Whether an operation has one handler for each number."""
    return name.startswith(("ds_swizzle", "ds_ordered")) or "_src2_" in name


@pytest.mark.parametrize("name", PROCESSORS)
def test_whatever_is_no_step_has_a_handler(name: str) -> None:
    listing = Listing(TARGETS[name], random_words(5, 20000), 0x1000)
    frontend = Frontend(TARGETS[name], MODE)
    listing.plan(frontend, np.arange(listing.count))
    seen, functions, declarations = set(), [], {}
    for plan in frontend.plans:
        if plan.kind is None or (plan.kind.insn.op.name, plan.kind.insn.form) in seen:
            continue
        op = plan.kind.insn.op
        seen.add((op.name, plan.kind.insn.form))
        emitter = HandlerEmitter(plan.kind, 16)
        try:
            _, text = emitter.emit(f"h{len(functions)}")
        except Untranslated:
            assert is_exempt(op.name), op.name
            continue
        functions.append(text)
        declarations |= emitter.text.declarations
    assert len(functions) > 250
    module_ = llvm._binding().parse_assembly(module(functions, declarations, 16))
    module_.verify()


def test_what_is_no_instruction_verifies() -> None:
    module_ = llvm._binding().parse_assembly(stubs())
    module_.verify()
    assert sorted(each.name for each in module_.functions if not each.is_declaration) == sorted(STUBS)
