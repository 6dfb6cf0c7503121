"""Meanings of the system instructions: which csrs they touch, in which order, and who may execute them."""

from __future__ import annotations

from typing import Any

import pytest

from softcard.isa.riscv import csr
from softcard.isa.riscv.decode import assemble, decode
from softcard.isa.riscv.state import Hart, M, S, U
from tests.isa.riscv.test_csr import NoMemory
from tests.isa.riscv.widths import Checked, Int


class System(Checked):
    """Adds the system operations, which only log."""

    def __init__(self, x: dict[int, int] | None = None, privilege: int = M) -> None:
        super().__init__(x)
        self.hart = Hart(0, NoMemory())
        csr.reset(self.hart)
        self.hart.privilege = privilege

    def csr_read(self, number: int) -> Int:
        self.log.append(("read", number))
        return Int(64, 0xF0)

    def csr_write(self, number: int, v: Int) -> None:
        self.want(64, v)
        self.log.append(("write", number, v.n))

    def trap(self, cause: int, value: int = 0) -> None:
        self.log.append(("trap", cause, value))

    def return_from(self, privilege: str) -> None:
        self.log.append(("return", privilege))

    def fence_i(self) -> None:
        self.log.append("fence.i")

    def wait_for_interrupt(self) -> None:
        self.log.append("wfi")

    def fence_vma(self) -> None:
        self.log.append("sfence.vma")


def execute(source: str, o: System) -> list[Any]:
    insn = decode(int.from_bytes(assemble(source), "little"))
    assert insn.spec.flow == "system"
    insn.spec.semantics(o, insn)
    return o.log


@pytest.mark.parametrize(
    ("source", "log", "a0"),
    [
        ("csrrw a0,mscratch,a1", [("read", 0x340), ("write", 0x340, 0x3C)], 0xF0),
        ("csrrw zero,mscratch,a1", [("write", 0x340, 0x3C)], 1),
        ("csrrw a0,mscratch,zero", [("read", 0x340), ("write", 0x340, 0)], 0xF0),
        ("csrrs a0,mscratch,a1", [("read", 0x340), ("write", 0x340, 0xFC)], 0xF0),
        ("csrrs zero,mscratch,a1", [("read", 0x340), ("write", 0x340, 0xFC)], 1),
        ("csrrs a0,mscratch,zero", [("read", 0x340)], 0xF0),
        ("csrrc a0,mscratch,a1", [("read", 0x340), ("write", 0x340, 0xC0)], 0xF0),
        ("csrrc a0,mscratch,zero", [("read", 0x340)], 0xF0),
        ("csrrwi a0,mscratch,17", [("read", 0x340), ("write", 0x340, 17)], 0xF0),
        ("csrrwi zero,mscratch,0", [("write", 0x340, 0)], 1),
        ("csrrsi a0,mscratch,17", [("read", 0x340), ("write", 0x340, 0xF1)], 0xF0),
        ("csrrsi a0,mscratch,0", [("read", 0x340)], 0xF0),
        ("csrrci a0,mscratch,16", [("read", 0x340), ("write", 0x340, 0xE0)], 0xF0),
        ("csrrci a0,mscratch,0", [("read", 0x340)], 0xF0),
    ],
)
def test_csr_accesses(source: str, log: list[object], a0: int) -> None:
    o = System({10: 1, 11: 0x3C})
    assert execute(source, o) == log
    assert o.regs[10] == a0


def test_csr_source_and_destination_may_be_one_register() -> None:
    o = System({10: 0x3C})
    assert execute("csrrw a0,mscratch,a0", o) == [("read", 0x340), ("write", 0x340, 0x3C)]
    assert o.regs[10] == 0xF0


@pytest.mark.parametrize(("privilege", "cause"), [(U, 8), (S, 9), (M, 11)])
def test_ecall_names_its_privilege(privilege: int, cause: int) -> None:
    assert execute("ecall", System(privilege=privilege)) == [("trap", cause, 0)]


def test_ebreak_reports_its_address() -> None:
    assert execute("ebreak", System()) == [("trap", 3, 0x1000)]
    assert execute("c.ebreak", System()) == [("trap", 3, 0x1000)]


def test_returns_and_fences() -> None:
    o = System()
    for source in ("mret", "sret", "fence.i"):
        execute(source, o)
    assert o.log == [("return", "m"), ("return", "s"), "fence.i"]


@pytest.mark.parametrize(("source", "name", "trap_bit"), [("wfi", "wfi", 21), ("sfence.vma a0,a1", "sfence.vma", 20)])
def test_supervisor_instructions_are_guarded(source: str, name: str, trap_bit: int) -> None:
    illegal = [("trap", 2, int.from_bytes(assemble(source), "little"))]
    assert execute(source, System(privilege=M)) == [name]
    assert execute(source, System(privilege=S)) == [name]
    assert execute(source, System(privilege=U)) == illegal
    trapped = System(privilege=S)
    csr.write(trapped.hart, 0x300, 1 << trap_bit, M)
    assert execute(source, trapped) == illegal
