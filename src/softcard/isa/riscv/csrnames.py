"""Names and numbers of the control and status registers (ISA manual volume II, chapter "CSR Listing")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

FFLAGS, FRM, FCSR = 0x001, 0x002, 0x003
VSTART, VXSAT, VXRM, VCSR, VL, VTYPE, VLENB = 0x008, 0x009, 0x00A, 0x00F, 0xC20, 0xC21, 0xC22
CYCLE, TIME, INSTRET = 0xC00, 0xC01, 0xC02
SSTATUS, SIE, STVEC, SCOUNTEREN, SENVCFG = 0x100, 0x104, 0x105, 0x106, 0x10A
SSCRATCH, SEPC, SCAUSE, STVAL, SIP, SATP, SCONTEXT = 0x140, 0x141, 0x142, 0x143, 0x144, 0x180, 0x5A8
MVENDORID, MARCHID, MIMPID, MHARTID, MCONFIGPTR = 0xF11, 0xF12, 0xF13, 0xF14, 0xF15
MSTATUS, MISA, MEDELEG, MIDELEG, MIE, MTVEC, MCOUNTEREN = 0x300, 0x301, 0x302, 0x303, 0x304, 0x305, 0x306
MENVCFG, MCOUNTINHIBIT = 0x30A, 0x320
MSCRATCH, MEPC, MCAUSE, MTVAL, MIP = 0x340, 0x341, 0x342, 0x343, 0x344
PMPCFG0, PMPADDR0 = 0x3A0, 0x3B0
TSELECT, TDATA1, TDATA2, TDATA3, TINFO, TCONTROL, MCONTEXT = 0x7A0, 0x7A1, 0x7A2, 0x7A3, 0x7A4, 0x7A5, 0x7A8
MCYCLE, MINSTRET = 0xB00, 0xB02


def _names() -> Iterator[tuple[int, str]]:
    yield from ((number, name.lower()) for name, number in globals().items() if name.isupper())
    yield from ((CYCLE + k, f"hpmcounter{k}") for k in range(3, 32))
    yield from ((MCYCLE + k, f"mhpmcounter{k}") for k in range(3, 32))
    yield from ((MCOUNTINHIBIT + k, f"mhpmevent{k}") for k in range(3, 32))
    yield from ((PMPCFG0 + k, f"pmpcfg{k}") for k in range(16))
    yield from ((PMPADDR0 + k, f"pmpaddr{k}") for k in range(64))


CSR_NAMES: Final = dict(_names())
CSR_NUMBERS: Final = {name: number for number, name in CSR_NAMES.items()}


def csr_name(number: int) -> str:
    """Return the name of CSR `number`, or its number in hex if it has no name."""
    return CSR_NAMES.get(number, hex(number))
