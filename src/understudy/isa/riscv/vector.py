"""Names of the instructions of the vector extension (V 1.0), which is not modelled: for the message that says so."""

from __future__ import annotations

from typing import Final

LOAD_FP, STORE_FP, OP_V = 0x07, 0x27, 0x57
_BITS: Final = {0: 8, 5: 16, 6: 32, 7: 64}
"""Bits of an element by the width field of a load or store; other widths are those of the extensions F and D."""
_OPI: Final = {
    0x00: "vadd", 0x02: "vsub", 0x03: "vrsub", 0x04: "vminu", 0x05: "vmin", 0x06: "vmaxu", 0x07: "vmax", 0x09: "vand",
    0x0A: "vor", 0x0B: "vxor", 0x0C: "vrgather", 0x0E: "vslideup", 0x0F: "vslidedown", 0x10: "vadc", 0x11: "vmadc",
    0x12: "vsbc", 0x13: "vmsbc", 0x17: "vmerge", 0x18: "vmseq", 0x19: "vmsne", 0x1A: "vmsltu", 0x1B: "vmslt",
    0x1C: "vmsleu", 0x1D: "vmsle", 0x1E: "vmsgtu", 0x1F: "vmsgt", 0x20: "vsaddu", 0x21: "vsadd", 0x22: "vssubu",
    0x23: "vssub", 0x25: "vsll", 0x27: "vsmul", 0x28: "vsrl", 0x29: "vsra", 0x2A: "vssrl", 0x2B: "vssra",
    0x2C: "vnsrl", 0x2D: "vnsra", 0x2E: "vnclipu", 0x2F: "vnclip", 0x30: "vwredsumu", 0x31: "vwredsum",
}  # fmt: skip
_OPM: Final = {
    0x00: "vredsum", 0x01: "vredand", 0x02: "vredor", 0x03: "vredxor", 0x04: "vredminu", 0x05: "vredmin",
    0x06: "vredmaxu", 0x07: "vredmax", 0x08: "vaaddu", 0x09: "vaadd", 0x0A: "vasubu", 0x0B: "vasub",
    0x0E: "vslide1up", 0x0F: "vslide1down", 0x17: "vcompress", 0x18: "vmandn", 0x19: "vmand", 0x1A: "vmor",
    0x1B: "vmxor", 0x1C: "vmorn", 0x1D: "vmnand", 0x1E: "vmnor", 0x1F: "vmxnor", 0x20: "vdivu", 0x21: "vdiv",
    0x22: "vremu", 0x23: "vrem", 0x24: "vmulhu", 0x25: "vmul", 0x26: "vmulhsu", 0x27: "vmulh", 0x29: "vmadd",
    0x2B: "vnmsub", 0x2D: "vmacc", 0x2F: "vnmsac", 0x30: "vwaddu", 0x31: "vwadd", 0x32: "vwsubu", 0x33: "vwsub",
    0x34: "vwaddu", 0x35: "vwadd", 0x36: "vwsubu", 0x37: "vwsub", 0x38: "vwmulu", 0x3A: "vwmulsu", 0x3B: "vwmul",
    0x3C: "vwmaccu", 0x3D: "vwmacc", 0x3E: "vwmaccus", 0x3F: "vwmaccsu",
}  # fmt: skip
_OPF: Final = {
    0x00: "vfadd", 0x01: "vfredusum", 0x02: "vfsub", 0x03: "vfredosum", 0x04: "vfmin", 0x05: "vfredmin", 0x06: "vfmax",
    0x07: "vfredmax", 0x08: "vfsgnj", 0x09: "vfsgnjn", 0x0A: "vfsgnjx", 0x0E: "vfslide1up", 0x0F: "vfslide1down",
    0x17: "vfmerge", 0x18: "vmfeq", 0x19: "vmfle", 0x1B: "vmflt", 0x1C: "vmfne", 0x1D: "vmfgt", 0x1F: "vmfge",
    0x20: "vfdiv", 0x21: "vfrdiv", 0x24: "vfmul", 0x27: "vfrsub", 0x28: "vfmadd", 0x29: "vfnmadd", 0x2A: "vfmsub",
    0x2B: "vfnmsub", 0x2C: "vfmacc", 0x2D: "vfnmacc", 0x2E: "vfmsac", 0x2F: "vfnmsac", 0x30: "vfwadd",
    0x31: "vfwredusum", 0x32: "vfwsub", 0x33: "vfwredosum", 0x34: "vfwadd", 0x36: "vfwsub", 0x38: "vfwmul",
    0x3C: "vfwmacc", 0x3D: "vfwnmacc", 0x3E: "vfwmsac", 0x3F: "vfwnmsac",
}  # fmt: skip
_NAMES: Final = {0: _OPI | {0x0E: "vrgatherei16"}, 1: _OPF, 2: _OPM, 3: _OPI, 4: _OPI, 5: _OPF, 6: _OPM}
"""Names by funct6, by funct3: OPIVV, OPFVV, OPMVV, OPIVI, OPIVX, OPFVF, OPMVX."""


def is_vector(word: int) -> bool:
    """Whether a 32-bit instruction word lies in the opcode space of the vector extension."""
    opcode, width = word & 0x7F, word >> 12 & 7
    return opcode == OP_V or (opcode in (LOAD_FP, STORE_FP) and width in _BITS)


def vector_name(word: int) -> str:
    """The mnemonic of a vector instruction, without the suffix of its operands' kinds; "" for one that is not known."""
    if word & 0x7F == OP_V:
        return _operation(word >> 26, word >> 12 & 7, word)
    return _access("l" if word & 0x7F == LOAD_FP else "s", word)


def _operation(funct6: int, funct3: int, word: int) -> str:
    if funct3 == 7:
        return "vsetvli" if not word >> 31 else "vsetivli" if word >> 30 == 3 else "vsetvl"
    return _NAMES[funct3].get(funct6, "")


def _access(direction: str, word: int) -> str:
    """Loads and stores; `direction` is "l" or "s"."""
    bits, fields, unit = _BITS[word >> 12 & 7], (word >> 29) + 1, word >> 20 & 31
    segment = f"seg{fields}" if fields > 1 else ""
    mode = word >> 26 & 3
    if word >> 28 & 1:
        return ""
    if mode == 2:
        return f"v{direction}s{segment}e{bits}.v"
    if mode:
        order = "u" if mode == 1 else "o"
        return f"v{direction}{order}x{segment}ei{bits}.v"
    if unit == 8:
        return f"v{direction}{fields}r" + (f"e{bits}.v" if direction == "l" else ".v")
    if unit == 11:
        return f"v{direction}m.v"
    if unit == 16 and direction == "l":
        return f"vl{segment}e{bits}ff.v"
    return f"v{direction}{segment}e{bits}.v" if unit == 0 else ""
