"""Semantics of vector operations that access other lanes, or registers whose number is computed."""

from __future__ import annotations

from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.insn import Execution, Insn
from softcard.isa.gcn.semantics import source
from softcard.isa.gcn.state import EXEC, LANES, M0
from softcard.isa.gcn.word import Word


def one_lane(b: Builder, i: Insn, code: int, lane: Word) -> Word:
    """Return the value of source `code` in lane number `lane`; a scalar source has one value for all lanes."""
    return b.lane(code - 256, lane) if code >= 256 else source.scalar(b, i, code, "b32")


def lane_number(b: Builder, i: Insn) -> Word:
    """Return source 1 as a lane number, modulo 64."""
    code = i["src1"]
    number = b.lane(code - 256, b.const(32, 0)) if code >= 256 else source.scalar(b, i, code, "b32")
    return number[5:0]


def readfirstlane(b: Builder, i: Insn) -> None:
    """Execute v_readfirstlane: scalar destination = source 0 of the lowest lane in EXEC (lane 0 if EXEC is 0)."""
    first = b.s64(EXEC).cttz()[5:0]
    b.set_s(i["vdst"], one_lane(b, i, i["src0"], first.trunc(32)))


def readlane(b: Builder, i: Insn) -> None:
    """Execute v_readlane: scalar destination = source 0 of lane src1, regardless of EXEC."""
    b.set_s(i["vdst"], one_lane(b, i, i["src0"], lane_number(b, i)))


def writelane(b: Builder, i: Insn) -> None:
    """Execute v_writelane: the destination of lane src1 = scalar source 0, regardless of EXEC."""
    b.set_lane(i["vdst"], lane_number(b, i), one_lane(b, i, i["src0"], b.const(32, 0)))


def swap(b: Builder, i: Insn) -> None:
    """Execute v_swap: exchange the contents of two vector registers."""
    first, second = i["vdst"], i["src0"] - 256
    was = b.v(first)
    b.set_v(first, b.v(second))
    b.set_v(second, was)


def movreld(b: Builder, i: Insn) -> None:
    """Execute v_movreld: the vector register with number vdst + M0 = source 0."""
    b.set_v_indexed(i["vdst"], b.s(M0), source.single(b, i, i["src0"], "b32", "src0"))


def movrels(b: Builder, i: Insn) -> None:
    """Execute v_movrels: vdst = the vector register with number src0 + M0."""
    b.set_v(i["vdst"], b.v_indexed(i["src0"] & 0xFF, b.s(M0)))


def movrelsd(b: Builder, i: Insn) -> None:
    """Execute v_movrelsd: vector register number vdst + M0 = vector register number src0 + M0."""
    b.set_v_indexed(i["vdst"], b.s(M0), b.v_indexed(i["src0"] & 0xFF, b.s(M0)))


def swap_rows(size: int) -> Execution:
    """Return the semantics of an exchange between rows of `size` lanes (Choice ``gcn/permlane-swap``).

    Each odd row of vdst is exchanged with the preceding even row of source 0."""

    def semantics(b: Builder, i: Insn) -> None:
        first, second = i["vdst"], i["src0"] - 256
        even = [b.const(32, lane) for lane in range(LANES) if not lane & size]
        odd = [b.const(32, lane) for lane in range(LANES) if lane & size]
        upper, lower = [b.lane(first, lane) for lane in odd], [b.lane(second, lane) for lane in even]
        for lane, value in zip(odd, lower, strict=True):
            b.set_lane(first, lane, value)
        for lane, value in zip(even, upper, strict=True):
            b.set_lane(second, lane, value)

    return semantics


def nop(b: Builder, i: Insn) -> None:
    """Execute an instruction without effect: v_nop, or v_clrexcp, since exceptions are not recorded."""
    b.hint("nop")
