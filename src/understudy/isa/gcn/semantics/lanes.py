"""Vector operations that see other lanes, or registers by a computed number."""

from __future__ import annotations

from typing import Any

from understudy.isa.gcn.algebra import Scalar
from understudy.isa.gcn.insn import Insn
from understudy.isa.gcn.semantics import source
from understudy.isa.gcn.state import EXEC, M0


def one_lane(o: Any, i: Insn, code: int, lane: Scalar) -> Scalar:
    """A source of one lane; scalar sources are the same in all."""
    return o.lane(code - 256, lane) if code >= 256 else source.scalar(o, i, code, "b32")


def lane_number(o: Any, i: Insn) -> Scalar:
    """Source 1: a lane, modulo 64."""
    code = i["src1"]
    number = o.lane(code - 256, o.const(32, 0)) if code >= 256 else source.scalar(o, i, code, "b32")
    return o.and_(32, number, o.const(32, 63))


def readfirstlane(o: Any, i: Insn) -> None:
    """Scalar destination = source 0 of the lowest lane of EXEC, or of lane 0 where EXEC is 0."""
    first = o.and_(64, o.cttz(64, o.s64(EXEC)), o.const(64, 63))
    o.set_s(i["vdst"], one_lane(o, i, i["src0"], o.trunc(32, 64, first)))


def readlane(o: Any, i: Insn) -> None:
    """Scalar destination = source 0 of lane src1, whatever EXEC says."""
    o.set_s(i["vdst"], one_lane(o, i, i["src0"], lane_number(o, i)))


def writelane(o: Any, i: Insn) -> None:
    """The destination of lane src1 = scalar source 0, whatever EXEC says."""
    o.set_lane(i["vdst"], lane_number(o, i), one_lane(o, i, i["src0"], o.const(32, 0)))


def swap(o: Any, i: Insn) -> None:
    """Exchange two vector registers."""
    first, second = i["vdst"], i["src0"] - 256
    a, b = o.v(first), o.v(second)
    o.set_v(first, b)
    o.set_v(second, a)


def movreld(o: Any, i: Insn) -> None:
    """The vector register vdst + M0 = source 0."""
    o.set_v_indexed(i["vdst"], o.s(M0), source.vector(o, i, i["src0"], "b32", "src0"))


def movrels(o: Any, i: Insn) -> None:
    """vdst = the vector register src0 + M0."""
    o.set_v(i["vdst"], o.v_indexed(i["src0"] & 0xFF, o.s(M0)))


def movrelsd(o: Any, i: Insn) -> None:
    """The vector register vdst + M0 = the vector register src0 + M0."""
    o.set_v_indexed(i["vdst"], o.s(M0), o.v_indexed(i["src0"] & 0xFF, o.s(M0)))


def nop(o: Any, i: Insn) -> None:
    """Nothing (also v_clrexcp: exceptions are not recorded)."""
    o.hint("nop")
