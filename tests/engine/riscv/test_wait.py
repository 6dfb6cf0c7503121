"""wfi retires and hands the hart back, on every engine."""

from __future__ import annotations

import pytest

from softcard.core.space import AddressSpace, Ram
from softcard.engine.riscv.api import Why
from softcard.isa.riscv import csr
from softcard.isa.riscv.decode import assemble
from softcard.isa.riscv.state import Hart
from tests.engine.riscv.rig import ENGINES, FlatPort


@pytest.mark.parametrize("engine", ENGINES)
def test_wfi_lets_others_run(engine: str) -> None:
    ram = Ram(4096)
    code = assemble("addi a0, zero, 1; wfi; addi a0, zero, 2; addi a1, zero, 3")
    ram.view[: len(code)] = code
    space = AddressSpace()
    space.map(0, ram, "memory")
    hart = Hart(0, FlatPort(space))
    csr.reset(hart)
    runner = ENGINES[engine]()
    exit_ = runner.run(hart, 4)
    assert (exit_.why, exit_.pc, hart.retired, hart.x(10)) == (Why.WAIT, 8, 2, 1)
    assert runner.run(hart, 2).why is Why.FUEL
    assert (hart.retired, hart.x(11)) == (4, 3)
