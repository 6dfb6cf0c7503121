"""Vector operations that see other lanes, or registers by a computed number."""

from __future__ import annotations

from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source
from understudy.isa.gcn.state import EXEC, M0
from understudy.isa.gcn.word import Word


def one_lane(b: Builder, i: Insn, code: int, lane: Word) -> Word:
    """A source of one lane; scalar sources are the same in all."""
    return b.lane(code - 256, lane) if code >= 256 else source.scalar(b, i, code, "b32")


def lane_number(b: Builder, i: Insn) -> Word:
    """Source 1: a lane, modulo 64."""
    code = i["src1"]
    number = b.lane(code - 256, b.const(32, 0)) if code >= 256 else source.scalar(b, i, code, "b32")
    return number[5:0]


def readfirstlane(b: Builder, i: Insn) -> None:
    """Word destination = source 0 of the lowest lane of EXEC, or of lane 0 where EXEC is 0."""
    first = b.s64(EXEC).cttz()[5:0]
    b.set_s(i["vdst"], one_lane(b, i, i["src0"], first.trunc(32)))


def readlane(b: Builder, i: Insn) -> None:
    """Word destination = source 0 of lane src1, whatever EXEC says."""
    b.set_s(i["vdst"], one_lane(b, i, i["src0"], lane_number(b, i)))


def writelane(b: Builder, i: Insn) -> None:
    """The destination of lane src1 = scalar source 0, whatever EXEC says."""
    b.set_lane(i["vdst"], lane_number(b, i), one_lane(b, i, i["src0"], b.const(32, 0)))


def swap(b: Builder, i: Insn) -> None:
    """Exchange two vector registers."""
    first, second = i["vdst"], i["src0"] - 256
    was = b.v(first)
    b.set_v(first, b.v(second))
    b.set_v(second, was)


def movreld(b: Builder, i: Insn) -> None:
    """The vector register vdst + M0 = source 0."""
    b.set_v_indexed(i["vdst"], b.s(M0), source.single(b, i, i["src0"], "b32", "src0"))


def movrels(b: Builder, i: Insn) -> None:
    """vdst = the vector register src0 + M0."""
    b.set_v(i["vdst"], b.v_indexed(i["src0"] & 0xFF, b.s(M0)))


def movrelsd(b: Builder, i: Insn) -> None:
    """The vector register vdst + M0 = the vector register src0 + M0."""
    b.set_v_indexed(i["vdst"], b.s(M0), b.v_indexed(i["src0"] & 0xFF, b.s(M0)))


def nop(b: Builder, i: Insn) -> None:
    """Nothing (also v_clrexcp: exceptions are not recorded)."""
    b.hint("nop")
