"""Control and status registers: the state after open, masks, access rules, traps and returns."""

from __future__ import annotations

import re

import pytest

from softcard.core.errors import BeyondModel
from softcard.isa.riscv import csr, state
from softcard.isa.riscv import csrnames as n
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.state import Hart, M, S, U

ONES = (1 << 64) - 1


class NoMemory:
    """A port that no csr may touch."""

    def load(self, address: int, size: int) -> int:
        raise AssertionError

    def store(self, address: int, size: int, value: int) -> None:
        raise AssertionError

    def fetch(self, address: int) -> int:
        raise AssertionError

    def page(self, address: int, access: str) -> int | None:
        raise AssertionError


@pytest.fixture
def hart() -> Hart:
    hart = Hart(2, NoMemory())
    csr.reset(hart)
    return hart


def read(hart: Hart, number: int, privilege: int = M) -> int:
    return csr.read(hart, number, privilege)


def write(hart: Hart, number: int, value: int, privilege: int = M) -> int:
    """Write, then read back."""
    csr.write(hart, number, value, privilege)
    return csr.read(hart, number, privilege)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (n.MHARTID, 2),
        (n.MSTATUS, 0x8000_000A_0000_6600),
        (n.MISA, 0x8000_0000_0034_112D),
        (n.MTVEC, 0),
        (n.MCYCLE, 0),
        (n.MINSTRET, 0),
        (n.FCSR, 0),
        (n.VLENB, 0x40),
        (n.MCOUNTEREN, 0xFFFF_FFFF),
        (n.PMPCFG0, 0x1F),
        (n.PMPADDR0, 0x3F_FFFF_FFFF_FFFF),
        (n.MCAUSE, 0),
        (n.MEPC, 0),
        (n.VL, 0),
        (n.VTYPE, 1 << 63),
        (n.MIE, 0),
        (n.MVENDORID, 0),
        (n.MARCHID, 5),
        (n.MIMPID, 0),
    ],
    ids=lambda value: hex(value),
)
def test_state_after_open(hart: Hart, number: int, value: int) -> None:
    """The CSR values that the recorded kernel k_dump read."""
    assert read(hart, number) == value
    assert hart.privilege == M


def test_vlenb_follows_the_device(hart: Hart) -> None:
    csr.reset(hart, vlen_bits=128)
    assert read(hart, n.VLENB) == 16


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (n.MSCRATCH, ONES),
        (n.MTVAL, ONES),
        (n.MCAUSE, ONES),
        (n.MEPC, ONES - 1),
        (n.MTVEC, ONES - 2),
        (n.MCOUNTEREN, 0xFFFF_FFFF),
        (n.MEDELEG, 0xB309),
        (n.MIDELEG, 0x222),
        (n.MIE, 0xAAA),
        (n.MENVCFG, 1),
        (n.MCOUNTINHIBIT, 0),
        (n.MCOUNTINHIBIT + 3, 0),
        (n.MCYCLE + 31, 0),
        (n.SSCRATCH, ONES),
        (n.STVAL, ONES),
        (n.SCAUSE, ONES),
        (n.SEPC, ONES - 1),
        (n.STVEC, ONES - 2),
        (n.SCOUNTEREN, 0xFFFF_FFFF),
        (n.SENVCFG, 1),
        (n.SIE, 0),
        (n.SIP, 0),
        (n.FFLAGS, 0x1F),
        (n.FRM, 7),
        (n.FCSR, 0xFF),
        (n.VSTART, 0x1FF),
        (n.VXSAT, 1),
        (n.VXRM, 3),
        (n.VCSR, 7),
        (n.PMPADDR0 + 15, 0x3F_FFFF_FFFF_FFFF),
        (n.PMPCFG0 + 2, 0x9F9F_9F9F_9F9F_9F9F),
        (n.MISA, 0x8000_0000_0034_112D),
    ],
    ids=lambda value: hex(value),
)
def test_bits_that_a_write_keeps(hart: Hart, number: int, kept: int) -> None:
    assert write(hart, number, ONES) == kept


def test_mstatus(hart: Hart) -> None:
    assert write(hart, n.MSTATUS, ONES) == 0x8000_000A_007E_7FAA
    assert write(hart, n.MSTATUS, 0) == 0x0000_000A_0000_0000
    assert write(hart, n.MSTATUS, 2 << 11) == 0xA_0000_0000  # MPP has no mode 2
    assert write(hart, n.MSTATUS, 3 << 9) == 0x8000_000A_0000_0600
    assert write(hart, n.MSTATUS, 2 << 13) == 0xA_0000_4000


def test_sstatus_is_a_view_of_mstatus(hart: Hart) -> None:
    assert read(hart, n.SSTATUS) == 0x8000_0002_0000_6600
    assert write(hart, n.SSTATUS, ONES, S) == 0x8000_0002_000C_6722
    assert read(hart, n.MSTATUS) == 0x8000_000A_000C_6722


def test_interrupt_views_show_what_is_delegated(hart: Hart) -> None:
    csr.write(hart, n.MIDELEG, 0x22, M)
    assert write(hart, n.SIE, ONES) == 0x22
    assert read(hart, n.MIE) == 0x22
    hart.csr[n.MIE] = 0
    assert write(hart, n.MIP, ONES) == 0x222
    assert read(hart, n.SIP) == 0x22
    assert write(hart, n.SIP, 0) == 0x20


def test_fcsr_is_fflags_and_frm(hart: Hart) -> None:
    csr.write(hart, n.FCSR, 0x7A, M)
    assert (read(hart, n.FFLAGS), read(hart, n.FRM)) == (0x1A, 3)
    assert (hart.words[state.FFLAGS], hart.words[state.FRM]) == (0x1A, 3)
    csr.write(hart, n.FRM, 5, U)
    assert read(hart, n.FCSR) == 0xBA


def test_vcsr_is_vxrm_and_vxsat(hart: Hart) -> None:
    csr.write(hart, n.VCSR, 5, M)
    assert (read(hart, n.VXSAT), read(hart, n.VXRM)) == (1, 2)


def test_float_csrs_need_floats(hart: Hart) -> None:
    csr.write(hart, n.MSTATUS, 1 << 13, M)
    csr.write(hart, n.FFLAGS, 1, M)
    assert read(hart, n.MSTATUS) == 0x8000_000A_0000_6000  # dirty
    csr.write(hart, n.MSTATUS, 0, M)
    with pytest.raises(IllegalInstruction, match=r"access to csr frm while mstatus\.FS is Off"):
        read(hart, n.FRM)


def test_vector_csrs_need_vectors(hart: Hart) -> None:
    csr.write(hart, n.MSTATUS, 1 << 9, M)
    csr.write(hart, n.VSTART, 1, M)
    assert read(hart, n.MSTATUS) == 0x8000_000A_0000_0600
    csr.write(hart, n.MSTATUS, 0, M)
    with pytest.raises(IllegalInstruction, match=r"access to csr vl while mstatus\.VS is Off"):
        read(hart, n.VL)


# Access


@pytest.mark.parametrize(
    ("number", "privilege", "message"),
    [
        (n.MSTATUS, S, "csr mstatus requires privilege M, but the hart has S"),
        (n.SSTATUS, U, "csr sstatus requires privilege S, but the hart has U"),
        (0x600, S, "csr 0x600 requires privilege H, but the hart has S"),
        (n.TIME, M, "no csr time"),
        (0x7FF, M, "no csr 0x7ff"),
        (0x600, M, "no csr 0x600"),
        (0xB01, M, "no csr 0xb01"),
        (n.PMPCFG0 + 1, M, "no csr pmpcfg1"),
        (n.PMPCFG0 + 4, M, "no csr pmpcfg4"),
        (n.PMPADDR0 + 16, M, "no csr pmpaddr16"),
        (0x7B0, M, "no csr 0x7b0"),
    ],
)
def test_registers_out_of_reach(hart: Hart, number: int, privilege: int, message: str) -> None:
    for access in (lambda: csr.read(hart, number, privilege), lambda: csr.write(hart, number, 0, privilege)):
        with pytest.raises(IllegalInstruction, match=re.escape(message)):
            access()


@pytest.mark.parametrize("number", [n.CYCLE, n.INSTRET, n.VL, n.VTYPE, n.VLENB, n.MHARTID, n.MARCHID, n.MCONFIGPTR])
def test_read_only_registers(hart: Hart, number: int) -> None:
    with pytest.raises(IllegalInstruction, match=f"write to the read-only csr {n.csr_name(number)}"):
        csr.write(hart, number, 0, M)


def test_counters_are_enabled_step_by_step(hart: Hart) -> None:
    assert read(hart, n.CYCLE, S) == 0
    with pytest.raises(IllegalInstruction, match="csr cycle is not enabled in scounteren"):
        read(hart, n.CYCLE, U)
    csr.write(hart, n.SCOUNTEREN, 1, M)
    assert read(hart, n.CYCLE, U) == 0
    csr.write(hart, n.MCOUNTEREN, ~1, M)
    with pytest.raises(IllegalInstruction, match="csr cycle is not enabled in mcounteren"):
        read(hart, n.CYCLE, S)
    assert read(hart, n.CYCLE, M) == 0


def test_counters_count_retired_instructions(hart: Hart) -> None:
    hart.words[state.RETIRED] = 40
    assert (read(hart, n.MCYCLE), read(hart, n.INSTRET), read(hart, n.CYCLE + 3)) == (40, 40, 0)
    csr.write(hart, n.MINSTRET, 1000, M)
    hart.words[state.RETIRED] += 1  # the write retires
    assert (read(hart, n.MINSTRET), read(hart, n.MCYCLE)) == (1000, 41)
    hart.words[state.RETIRED] += 1
    assert read(hart, n.INSTRET) == 1001


def test_profile_counters_are_kept_where_the_device_has_them(hart: Hart) -> None:
    hart.csr[n.MCYCLE + 5] = 7
    assert read(hart, n.CYCLE + 5) == 7
    assert write(hart, n.MCYCLE + 5, 9) == 9


def test_satp_is_trapped_by_tvm(hart: Hart) -> None:
    assert write(hart, n.SATP, 0x0FFF_FFFF_FFFF_FFFF, S) == 0xFFF_FFFF_FFFF
    assert write(hart, n.SATP, 5 << 60) == 0xFFF_FFFF_FFFF  # no such mode: ignored
    csr.write(hart, n.MSTATUS, 1 << 20, M)
    with pytest.raises(IllegalInstruction, match=r"access to csr satp while mstatus\.TVM is set"):
        read(hart, n.SATP, S)
    assert read(hart, n.SATP, M) == 0xFFF_FFFF_FFFF


# Beyond the model: refused, and nothing changes


@pytest.mark.parametrize(
    ("number", "value", "message"),
    [
        (n.SATP, 8 << 60, "would turn on Sv39 paging"),
        (n.SATP, 9 << 60, "would turn on Sv48 paging"),
        (n.MISA, 0x8000_0000_0034_1129, "would turn off extensions"),
        (n.PMPCFG0, 0x1D, "pmp entry 0 must keep all of memory open"),
        (n.PMPADDR0, 0x1000, "pmp entry 0 must keep all of memory open"),
        (n.TSELECT, 0, "csr tselect: debug triggers are not modelled"),
    ],
)
def test_writes_beyond_the_model(hart: Hart, number: int, value: int, message: str) -> None:
    before = dict(hart.csr)
    with pytest.raises(BeyondModel, match=message):
        csr.write(hart, number, value, M)
    assert hart.csr == before


def test_an_interrupt_that_would_be_taken_is_refused(hart: Hart) -> None:
    csr.write(hart, n.MIE, 0x2, M)
    csr.write(hart, n.MIP, 0x2, M)
    with pytest.raises(BeyondModel, match=r"the hart would take interrupts 0x2 \(bits of mip\)"):
        csr.write(hart, n.MSTATUS, 1 << 3, M)
    assert read(hart, n.MSTATUS) == 0x8000_000A_0000_6600
    with pytest.raises(BeyondModel, match="which are not modelled"):
        csr.leave_trap(hart, "m")  # to user mode, where machine interrupts are always on
    assert hart.privilege == M


def test_a_locked_pmp_entry_stays(hart: Hart) -> None:
    assert write(hart, n.PMPCFG0, 0x1F | 0x8A << 16 | 0x8F << 24) == 0x1F | 0x88 << 16 | 0x8F << 24
    assert write(hart, n.PMPCFG0, 0x1F) == 0x1F | 0x88 << 16 | 0x8F << 24
    assert write(hart, n.PMPADDR0 + 3, 5) == 0
    assert write(hart, n.PMPADDR0 + 2, 5) == 0
    assert write(hart, n.PMPADDR0 + 1, 5) == 0  # the base of a locked top-of-range entry
    assert write(hart, n.PMPADDR0 + 4, 5) == 5


# Traps and returns


def test_a_trap_goes_to_machine_mode_and_mret_back(hart: Hart) -> None:
    csr.write(hart, n.MTVEC, 0x8001, M)
    csr.write(hart, n.MSTATUS, 1 << 3, M)
    hart.privilege = U
    csr.enter_trap(hart, 5, 0x1_0294, 0xDEAD)
    assert (hart.pc, hart.privilege) == (0x8000, M)
    assert [read(hart, number) for number in (n.MEPC, n.MCAUSE, n.MTVAL)] == [0x1_0294, 5, 0xDEAD]
    assert read(hart, n.MSTATUS) == 0xA_0000_0080  # MPIE = old MIE, MPP = U
    csr.leave_trap(hart, "m")
    assert (hart.pc, hart.privilege) == (0x1_0294, U)
    assert read(hart, n.MSTATUS) == 0xA_0000_0088


def test_a_trap_in_machine_mode_remembers_machine_mode(hart: Hart) -> None:
    csr.enter_trap(hart, 2, 0x1_0002, 0)
    assert read(hart, n.MSTATUS) == 0x8000_000A_0000_7E00
    csr.leave_trap(hart, "m")
    assert hart.privilege == M
    assert read(hart, n.MSTATUS) == 0x8000_000A_0000_6680


def test_a_delegated_trap_goes_to_supervisor_mode_and_sret_back(hart: Hart) -> None:
    csr.write(hart, n.MEDELEG, 1 << 8, M)
    csr.write(hart, n.STVEC, 0x9000, M)
    csr.write(hart, n.MSTATUS, 1 << 1 | 1 << 17, M)
    hart.privilege = U
    csr.enter_trap(hart, 8, 0x2000, 0)
    assert (hart.pc, hart.privilege) == (0x9000, S)
    assert [read(hart, number) for number in (n.SEPC, n.SCAUSE, n.STVAL, n.MEPC)] == [0x2000, 8, 0, 0]
    assert read(hart, n.SSTATUS) == 0x2_0000_0020
    csr.leave_trap(hart, "s")
    assert (hart.pc, hart.privilege) == (0x2000, U)
    assert read(hart, n.MSTATUS) == 0xA_0000_0022  # MPRV is cleared on the way below machine mode


def test_machine_mode_traps_are_never_delegated(hart: Hart) -> None:
    csr.write(hart, n.MEDELEG, ONES, M)
    csr.enter_trap(hart, 3, 0x2000, 0x2000)
    assert hart.privilege == M
    assert read(hart, n.MCAUSE) == 3


def test_returns_need_privilege(hart: Hart) -> None:
    hart.privilege = S
    with pytest.raises(IllegalInstruction, match="mret is executed outside of machine mode"):
        csr.leave_trap(hart, "m")
    csr.write(hart, n.MSTATUS, 1 << 22, M)
    with pytest.raises(
        IllegalInstruction, match=r"sret is executed in user mode, or in supervisor mode while mstatus\.TSR is set"
    ):
        csr.leave_trap(hart, "s")
    hart.privilege = M
    csr.leave_trap(hart, "s")
    assert hart.privilege == U
    with pytest.raises(IllegalInstruction, match="sret is executed in user mode"):
        csr.leave_trap(hart, "s")
