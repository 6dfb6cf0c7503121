"""The behaviour of control and status registers, traps and returns, for an RV64GC hart with modes M, S and U.

The values are those of the ISA manual volume II (1.12). Details that it leaves open (WARL masks, which registers exist)
follow the hart in RefSi's reference simulator: a Spike of 2022 with 16 PMPs and RV64GCV.

`hart.csr` holds raw values by CSR number. `fflags` and `frm` are state words shared with translated code. A counter is
stored as its difference to `hart.retired`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from softcard.core.errors import BeyondModel
from softcard.isa.riscv import csrnames as n
from softcard.isa.riscv import state
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.state import Hart, M, S, U
from softcard.isa.riscv.vector.vtype import VILL

MASK64: Final = (1 << 64) - 1

# Fields of mstatus: lowest bit, mask.
SIE, MIE, SPIE, MPIE, SPP = 1 << 1, 1 << 3, 1 << 5, 1 << 7, 1 << 8
VS, MPP, FS = 3 << 9, 3 << 11, 3 << 13
MPRV, SUM, MXR, TVM, TW, TSR = 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22
UXL, SXL, SD = 3 << 32, 3 << 34, 1 << 63
SSTATUS_WRITABLE: Final = SIE | SPIE | SPP | VS | FS | SUM | MXR
SSTATUS_VISIBLE: Final = SSTATUS_WRITABLE | UXL | SD
MSTATUS_WRITABLE: Final = SSTATUS_WRITABLE | MIE | MPIE | MPP | MPRV | TVM | TW | TSR

SUPERVISOR_INTERRUPTS: Final = 0x222
ALL_INTERRUPTS: Final = 0xAAA
SOFTWARE_INTERRUPT: Final = 0x002
DELEGABLE_EXCEPTIONS: Final = sum(1 << cause for cause in (0, 3, 8, 9, 12, 13, 15))
PHYSICAL_ADDRESS_BITS: Final = 56
PMP_COUNT: Final = 16
PMP_ADDRESS: Final = (1 << PHYSICAL_ADDRESS_BITS - 2) - 1
PMP_ALL: Final = PMP_ADDRESS >> 1
"""The least value of a pmpaddr register that permits access to all of memory.

In NAPOT mode it covers 2**56 bytes, in TOR mode all addresses that can be mapped.
"""
PMP_LOCKED, PMP_MODE, PMP_TOR, PMP_NAPOT, PMP_OPEN = 0x80, 0x18, 0x08, 0x18, 0x1F
"""Fields of a PMP configuration byte, and values of them. `PMP_OPEN` is NAPOT with read, write and execute."""

RESET: Final = {
    n.MSTATUS: SD | 2 << 34 | 2 << 32 | FS | VS,
    n.MARCHID: 5,
    n.MCOUNTEREN: 0xFFFF_FFFF,
    n.PMPADDR0: PMP_ADDRESS,
    n.PMPCFG0: PMP_OPEN,
}
"""The values of the CSRs that are not zero after reset.

`vtype`, and `misa`, `vlenb` and `mhartid`, which depend on the device and the hart, are not included.
"""
MISA_RV64: Final = 2 << 62


def reset(hart: Hart, vlen_bits: int = 512) -> None:
    """Put `hart` into its state after reset: all registers zero, machine mode, float and vector units enabled."""
    hart.set_vlen(vlen_bits)
    hart.reset()
    hart.csr.update(RESET)
    hart.csr[n.MISA] = MISA_RV64 | _letters("SU") | _letters(each for each in hart.isa.extensions if len(each) == 1)
    hart.words[state.VTYPE] = VILL
    hart.csr[n.MHARTID] = hart.index


def _letters(extensions: Iterable[str]) -> int:
    """Return the bits of misa for the extensions with a one-letter name."""
    return sum(1 << ord(letter) - ord("A") for letter in extensions)


# Access


def read(hart: Hart, number: int, privilege: int) -> int:
    """Return the value of CSR `number`, as code at `privilege` reads it.

    `IllegalInstruction` is raised if the CSR does not exist or is not accessible, `BeyondModel` for debug triggers.
    """
    return _rule(hart, number, privilege).read(hart)


def write(hart: Hart, number: int, value: int, privilege: int) -> None:
    """Write CSR `number` as code at `privilege` does; bits that the hart does not implement are ignored.

    `IllegalInstruction` is raised in the same cases as by `read`, and for read-only CSRs. `BeyondModel` is raised
    for a value that would enable address translation, memory protection or interrupts, or disable extensions,
    since these are not modelled; the CSR is then unchanged."""
    rule = _rule(hart, number, privilege)
    if number >> 10 == 3:
        raise IllegalInstruction(f"write to the read-only csr {n.csr_name(number)}")
    before = dict(hart.csr)
    try:
        rule.write(hart, value & MASK64)
        _refuse_interrupts(hart, hart.privilege, hart.csr[n.MSTATUS])
    except BeyondModel:
        hart.csr.clear()
        hart.csr.update(before)
        raise


def _rule(hart: Hart, number: int, privilege: int) -> Rule:
    name = n.csr_name(number)
    if privilege < (number >> 8 & 3):
        needed = "USHM"[number >> 8 & 3]
        raise IllegalInstruction(f"csr {name} requires privilege {needed}, but the hart has {'USHM'[privilege]}")
    if number in TRIGGERS:
        raise BeyondModel(f"csr {name}: debug triggers are not modelled")
    rule = RULES.get(number)
    if rule is None or OF.get(rule.needs, "I") not in hart.isa or (number == n.TIME and "Zicntr" not in hart.isa):
        raise IllegalInstruction(f"the hart has no csr {name}")
    if rule.needs and not hart.csr[n.MSTATUS] & rule.needs:
        raise IllegalInstruction(f"access to csr {name} while mstatus.{'FS' if rule.needs == FS else 'VS'} is Off")
    if rule.counter:
        _check_counter(hart, number, privilege)
    if number == n.SATP and privilege == S and hart.csr[n.MSTATUS] & TVM:
        raise IllegalInstruction("access to csr satp while mstatus.TVM is set")
    return rule


def _check_counter(hart: Hart, number: int, privilege: int) -> None:
    bit = 1 << (number & 31)
    for enable, above in ((n.MCOUNTEREN, M), (n.SCOUNTEREN, S)):
        if privilege < above and not hart.csr.get(enable, 0) & bit:
            raise IllegalInstruction(f"csr {n.csr_name(number)} is not enabled in {n.csr_name(enable)}")


def _refuse_interrupts(hart: Hart, privilege: int, status: int) -> None:
    """Raise `BeyondModel` if the hart would take a pending interrupt at the given privilege and mstatus."""
    delegated = hart.csr.get(n.MIDELEG, 0)
    pending = hart.csr.get(n.MIP, 0) & hart.csr.get(n.MIE, 0)
    to_m = pending & ~delegated if privilege < M or status & MIE else 0
    to_s = pending & delegated if privilege < S or (privilege == S and status & SIE) else 0
    if to_m | to_s:
        raise BeyondModel(f"the hart would take interrupts {to_m | to_s:#x} (bits of mip), which are not modelled")


# Traps and returns


def enter_trap(hart: Hart, cause: int, epc: int, tval: int) -> None:
    """Take exception `cause` of the instruction at `epc`; S mode handles it if `medeleg` delegates it, else M mode.

    The function sets pc, privilege, mepc, mcause, mtval and mstatus (in S mode sepc, scause, stval and sstatus)."""
    csr = hart.csr
    status = csr[n.MSTATUS]
    if hart.privilege <= S and csr.get(n.MEDELEG, 0) >> cause & 1:
        csr[n.SEPC], csr[n.SCAUSE], csr[n.STVAL] = epc & ~1, cause, tval & MASK64
        status = _put(status, SPIE, status & SIE)
        status = _put(status, SPP, hart.privilege)
        csr[n.MSTATUS] = status & ~SIE
        hart.privilege = S
        hart.pc = csr.get(n.STVEC, 0) & ~1
    else:
        csr[n.MEPC], csr[n.MCAUSE], csr[n.MTVAL] = epc & ~1, cause, tval & MASK64
        status = _put(status, MPIE, status & MIE)
        status = _put(status, MPP, hart.privilege)
        csr[n.MSTATUS] = status & ~MIE
        hart.privilege = M
        hart.pc = csr.get(n.MTVEC, 0) & ~1


def leave_trap(hart: Hart, privilege: str) -> None:
    """Execute mret ("m") or sret ("s"): return to the privilege and pc that the trap saved.

    `IllegalInstruction` is raised if the hart's privilege is too low, or for sret in S mode if mstatus.TSR is
    set. `BeyondModel` is raised if an interrupt would be taken after the return. After either error, the hart is
    unchanged."""
    status = hart.csr[n.MSTATUS]
    if privilege == "m":
        if hart.privilege < M:
            raise IllegalInstruction("mret is executed outside of machine mode")
        to, pc = (status & MPP) >> 11, hart.csr.get(n.MEPC, 0)
        status = _put(_put(status, MIE, status & MPIE), MPP, U) | MPIE
    else:
        if not allowed(hart, TSR):
            raise IllegalInstruction("sret is executed in user mode, or in supervisor mode while mstatus.TSR is set")
        to, pc = (status & SPP) >> 8, hart.csr.get(n.SEPC, 0)
        status = _put(_put(status, SIE, status & SPIE), SPP, U) | SPIE
    _refuse_interrupts(hart, to, status)
    hart.csr[n.MSTATUS] = status & ~MPRV if to < M else status
    hart.privilege = to
    hart.pc = pc


def allowed(hart: Hart, trap: int) -> bool:
    """Return True if a supervisor instruction is legal at the hart's current privilege.

    It is legal in M mode, and in S mode unless the bit of mstatus in the mask `trap`, for example TSR, is set."""
    return hart.privilege == M or (hart.privilege == S and not hart.csr[n.MSTATUS] & trap)


def _put(status: int, field: int, value: int) -> int:
    """Return `status` with `field` (a mask) set to `value`; any non-zero value sets a one-bit field to 1."""
    one_bit = field & (field - 1) == 0
    low = field & -field
    return status & ~field | (field if one_bit and value else 0 if one_bit else value * low)


OF: Final = {FS: "F", VS: "V"}
"""The extension whose CSRs require a field of mstatus (FS or VS) to be on, by the mask of that field."""


# One rule for each csr


@dataclass(frozen=True, slots=True)
class Rule:
    """The behaviour of one CSR: its read and write functions, and its requirements.

    `needs` is the mask of a field of mstatus: if that field is "off", accesses are illegal. `counter` is True for
    a user-mode view of a counter."""

    read: Callable[[Hart], int]
    write: Callable[[Hart, int], None] = lambda hart, value: None
    needs: int = 0
    counter: bool = False


def _plain(number: int, mask: int = MASK64) -> Rule:
    """Return the rule of a CSR that stores the bits in `mask` and has no other effect."""

    def put(hart: Hart, value: int) -> None:
        hart.csr[number] = hart.csr.get(number, 0) & ~mask | value & mask

    return Rule(lambda hart: hart.csr.get(number, 0), put)


def _fixed(number: int) -> Rule:
    """Return the rule of a CSR whose value is fixed: it can be read, and writes are ignored."""
    return Rule(lambda hart: hart.csr.get(number, 0))


def _count(number: int) -> Rule:
    """Return the rule of a machine counter of retired instructions, which is CSR `number`.

    The instruction that follows a write of the counter reads the written value."""

    def put(hart: Hart, value: int) -> None:
        hart.csr[number] = value - hart.retired - 1 & MASK64

    return Rule(lambda hart: hart.csr.get(number, 0) + hart.retired & MASK64, put)


def _user_counter(number: int) -> Rule:
    """Return the rule of the read-only view of machine counter `number`."""
    return Rule(lambda hart: RULES[number].read(hart), counter=True)


def _words(field: int, *parts: tuple[int, int, int]) -> Rule:
    """Return the rule of a CSR whose fields are stored in state words shared with translated code.

    Each of `parts` is (index of the state word, lowest bit of the field in the CSR, mask of the value). A write
    sets `field` of mstatus to dirty."""

    def get(hart: Hart) -> int:
        return sum((hart.words[word] & mask) << low for word, low, mask in parts)

    def put(hart: Hart, value: int) -> None:
        for word, low, mask in parts:
            hart.words[word] = value >> low & mask
        hart.csr[n.MSTATUS] |= field

    return Rule(get, put, needs=field)


def _write_vstart(hart: Hart, value: int) -> None:
    """Write vstart; only as many bits as the largest element index needs are stored."""
    hart.words[state.VSTART] = value & hart.vlen - 1
    hart.csr[n.MSTATUS] |= VS


def _read_mstatus(hart: Hart) -> int:
    """Return mstatus; its bit SD is computed: 1 if FS or VS is dirty."""
    status = hart.csr[n.MSTATUS]
    return status | SD if status & FS == FS or status & VS == VS else status & ~SD


def _write_mstatus(hart: Hart, value: int) -> None:
    if (value & MPP) >> 11 == 2:
        value &= ~MPP
    hart.csr[n.MSTATUS] = hart.csr[n.MSTATUS] & ~MSTATUS_WRITABLE | value & MSTATUS_WRITABLE


def _write_sstatus(hart: Hart, value: int) -> None:
    _write_mstatus(hart, hart.csr[n.MSTATUS] & ~SSTATUS_WRITABLE | value & SSTATUS_WRITABLE)


def _write_misa(hart: Hart, value: int) -> None:
    if ~value & hart.csr[n.MISA] & _letters("MAFDC"):
        raise BeyondModel(f"misa = {value:#x} would turn off extensions, which is not modelled")


def _write_satp(hart: Hart, value: int) -> None:
    mode = value >> 60
    if mode in (8, 9):
        raise BeyondModel(f"satp = {value:#x} would turn on Sv{39 if mode == 8 else 48} paging, which is not modelled")
    if mode == 0:
        hart.csr[n.SATP] = value & (1 << PHYSICAL_ADDRESS_BITS - 12) - 1


def _delegated(number: int, write_mask: int) -> Rule:
    """Return the rule of the S-mode view (sip, sie) of mip or mie: only the bits that `mideleg` delegates."""

    def put(hart: Hart, value: int) -> None:
        mask = hart.csr.get(n.MIDELEG, 0) & write_mask
        hart.csr[number] = hart.csr.get(number, 0) & ~mask | value & mask

    return Rule(lambda hart: hart.csr.get(number, 0) & hart.csr.get(n.MIDELEG, 0), put)


def _pmp_config(hart: Hart, entry: int) -> int:
    return hart.csr.get(n.PMPCFG0 + entry // 8 * 2, 0) >> entry % 8 * 8 & 0xFF


def _check_pmp(hart: Hart) -> None:
    """Raise `BeyondModel` unless PMP entry 0 permits access to all of memory.

    An entry 0 of this kind decides every access, regardless of the other entries."""
    config, address = _pmp_config(hart, 0), hart.csr[n.PMPADDR0]
    rights = config & ~(PMP_MODE | PMP_LOCKED) == PMP_OPEN & ~PMP_MODE
    reaches = {PMP_NAPOT: address & PMP_ALL == PMP_ALL, PMP_TOR: address >= PMP_ALL}
    if not rights or not reaches.get(config & PMP_MODE, False):
        raise BeyondModel("pmp entry 0 must keep all of memory open: physical memory protection is not modelled")


def _pmpcfg(number: int) -> Rule:
    first = (number - n.PMPCFG0) * 4

    def put(hart: Hart, value: int) -> None:
        for k in range(8):
            config = value >> k * 8 & 0x9F
            config &= ~2 if not config & 1 else 0xFF
            if not _pmp_config(hart, first + k) & PMP_LOCKED:
                hart.csr[number] = hart.csr.get(number, 0) & ~(0xFF << k * 8) | config << k * 8
        _check_pmp(hart)

    return Rule(lambda hart: hart.csr.get(number, 0), put)


def _pmpaddr(entry: int) -> Rule:
    number = n.PMPADDR0 + entry

    def put(hart: Hart, value: int) -> None:
        above = _pmp_config(hart, entry + 1) if entry + 1 < PMP_COUNT else 0
        base_of_locked = above & PMP_LOCKED and above & PMP_MODE == PMP_TOR
        if not (_pmp_config(hart, entry) & PMP_LOCKED or base_of_locked):
            hart.csr[number] = value & PMP_ADDRESS
        _check_pmp(hart)

    return Rule(lambda hart: hart.csr.get(number, 0), put)


def _hpmcounter(number: int) -> Rule:
    """Return the rule of a performance counter: it stores what is written if the device implements it, else it is 0."""

    def put(hart: Hart, value: int) -> None:
        if number in hart.csr:
            hart.csr[number] = value

    return Rule(lambda hart: hart.csr.get(number, 0), put)


VECTOR_WORDS: Final[dict[int, tuple[tuple[int, int, int], ...]]] = {
    n.VSTART: ((state.VSTART, 0, MASK64),),
    n.VXSAT: ((state.VXSAT, 0, 1),),
    n.VXRM: ((state.VXRM, 0, 3),),
    n.VCSR: ((state.VXSAT, 0, 1), (state.VXRM, 1, 3)),
    n.VL: ((state.VL, 0, MASK64),),
    n.VTYPE: ((state.VTYPE, 0, MASK64),),
}
"""The vector CSRs that are stored in state words, by number, with the parts that `_words` takes.

A write to vstart keeps only the bits that an element index needs.
"""

TRIGGERS: Final = frozenset((n.TSELECT, n.TDATA1, n.TDATA2, n.TDATA3, n.TINFO, n.TCONTROL, n.MCONTEXT, n.SCONTEXT))

RULES: Final[dict[int, Rule]] = {
    n.FFLAGS:        _words(FS, (state.FFLAGS, 0, 0x1F)),
    n.FRM:           _words(FS, (state.FRM, 0, 7)),
    n.FCSR:          _words(FS, (state.FFLAGS, 0, 0x1F), (state.FRM, 5, 7)),
    **{number: _words(VS, *parts) for number, parts in VECTOR_WORDS.items()},
    n.VSTART:        Rule(lambda hart: hart.words[state.VSTART], _write_vstart, needs=VS),
    n.VLENB:         Rule(lambda hart: hart.vlen // 8, needs=VS),

    n.CYCLE:         _user_counter(n.MCYCLE),
    n.TIME:          Rule(lambda hart: hart.retired, counter=True),
    n.INSTRET:       _user_counter(n.MINSTRET),

    n.SSTATUS:       Rule(lambda hart: _read_mstatus(hart) & SSTATUS_VISIBLE, _write_sstatus),
    n.SIE:           _delegated(n.MIE, ALL_INTERRUPTS),
    n.STVEC:         _plain(n.STVEC, MASK64 & ~2),
    n.SCOUNTEREN:    _plain(n.SCOUNTEREN, 0xFFFF_FFFF),
    n.SENVCFG:       _plain(n.SENVCFG, 1),
    n.SSCRATCH:      _plain(n.SSCRATCH),
    n.SEPC:          _plain(n.SEPC, MASK64 & ~1),
    n.SCAUSE:        _plain(n.SCAUSE),
    n.STVAL:         _plain(n.STVAL),
    n.SIP:           _delegated(n.MIP, SOFTWARE_INTERRUPT),
    n.SATP:          Rule(lambda hart: hart.csr.get(n.SATP, 0), _write_satp),

    n.MVENDORID:     _fixed(n.MVENDORID),
    n.MARCHID:       _fixed(n.MARCHID),
    n.MIMPID:        _fixed(n.MIMPID),
    n.MHARTID:       _fixed(n.MHARTID),
    n.MCONFIGPTR:    _fixed(n.MCONFIGPTR),
    n.MSTATUS:       Rule(_read_mstatus, _write_mstatus),
    n.MISA:          Rule(lambda hart: hart.csr[n.MISA], _write_misa),
    n.MEDELEG:       _plain(n.MEDELEG, DELEGABLE_EXCEPTIONS),
    n.MIDELEG:       _plain(n.MIDELEG, SUPERVISOR_INTERRUPTS),
    n.MIE:           _plain(n.MIE, ALL_INTERRUPTS),
    n.MTVEC:         _plain(n.MTVEC, MASK64 & ~2),
    n.MCOUNTEREN:    _plain(n.MCOUNTEREN, 0xFFFF_FFFF),
    n.MENVCFG:       _plain(n.MENVCFG, 1),
    n.MCOUNTINHIBIT: _fixed(n.MCOUNTINHIBIT),
    n.MSCRATCH:      _plain(n.MSCRATCH),
    n.MEPC:          _plain(n.MEPC, MASK64 & ~1),
    n.MCAUSE:        _plain(n.MCAUSE),
    n.MTVAL:         _plain(n.MTVAL),
    n.MIP:           _plain(n.MIP, SUPERVISOR_INTERRUPTS),
    n.MCYCLE:        _count(n.MCYCLE),
    n.MINSTRET:      _count(n.MINSTRET),
    **{n.PMPCFG0 + k: _pmpcfg(n.PMPCFG0 + k) for k in (0, 2)},
    **{n.PMPADDR0 + k: _pmpaddr(k) for k in range(PMP_COUNT)},
    **{n.MCYCLE + k: _hpmcounter(n.MCYCLE + k) for k in range(3, 32)},
    **{n.CYCLE + k: _user_counter(n.MCYCLE + k) for k in range(3, 32)},
    **{n.MCOUNTINHIBIT + k: _fixed(n.MCOUNTINHIBIT + k) for k in range(3, 32)},
}  # fmt: skip
"""The rule of each CSR, by number."""
