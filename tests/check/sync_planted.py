"""Small kernels with one mistake at a barrier each, and the same without it.

Lines that begin with ``+`` are there where the mistake is only, those with ``-`` where it is not. ``>`` marks the
barrier that is told of, ``<`` the other place: another barrier, or where waves ended. A group has 250 work-items: four
waves, of which the last has 58 lanes. s20 is the number of the wave, s0 that of the group.
"""

from __future__ import annotations

from dataclasses import dataclass

from softcard.engine.gcn.checks.barriers import DEADLOCK, DIFFERENT, DIVERGENT, NOT_REACHED

HEAD = "v_readfirstlane_b32 s20, v0\ns_lshr_b32 s20, s20, 6\n"
MARKS = "+-<> "


@dataclass(frozen=True)
class Planted:
    """A kernel; `count`: how often the mistake is seen, `units`: the wave that is named, `lanes` that are missing."""

    name: str
    kind: str
    text: str
    said: str
    count: int = 1
    wave: int = 0
    lanes: tuple[int, ...] = ()

    def source(self, *, is_bad: bool) -> str:
        """Assembly text."""
        return HEAD + "\n".join(line.lstrip(MARKS) for line in self._lines(is_bad))

    def place(self, mark: str) -> int | None:
        """Which of its barriers and branches a mark is at, as number of that name in the text; None for no mark."""
        lines = self._lines(True)
        for number, line in enumerate(lines):
            if mark in line[: len(line) - len(line.lstrip(MARKS))]:
                return number
        return None

    def upto(self, number: int) -> str:
        """The text before one of its lines."""
        return HEAD + "\n".join(line.lstrip(MARKS) for line in self._lines(True)[:number])

    def _lines(self, is_bad: bool) -> list[str]:
        lines = [line.strip() for line in self.text.strip().splitlines()]
        return [line for line in lines if not line.startswith("-" if is_bad else "+")]


def run_of(first: int, last: int) -> tuple[int, ...]:
    """Lanes from one to another."""
    return tuple(range(first, last + 1))


# fmt: off
PLANTED = (
    Planted("a wave returns before", NOT_REACHED, """
        + s_cmp_eq_u32 s20, 2
        + s_cbranch_scc1 out
        > s_barrier
        out:
        < s_endpgm
    """, "wave 2 of 4 ended without reaching this barrier", 2),
    Planted("a wave returns between two", NOT_REACHED, """
        s_barrier
        + s_cmp_eq_u32 s20, 0
        + s_cbranch_scc1 out
        > s_barrier
        out:
        < s_endpgm
    """, "wave 0 of 4 ended without reaching this barrier", 2, 1),
    Planted("waves past the end of the data return", NOT_REACHED, """
        + s_cmp_gt_u32 s20, 1
        + s_cbranch_scc1 out
        > s_barrier
        out:
        < s_endpgm
    """, "waves 2, 3 of 4 ended without reaching this barrier", 2),
    Planted("a wave of one group returns", NOT_REACHED, """
        + s_lshl_b32 s21, s0, 2
        + s_or_b32 s21, s21, s20
        + s_cmp_eq_u32 s21, 5
        + s_cbranch_scc1 out
        > s_barrier
        out:
        < s_endpgm
    """, "wave 1 of 4 ended without reaching this barrier"),
    Planted("waves loop as often as their number says", NOT_REACHED, """
        + s_add_u32 s21, s20, 1
        - s_mov_b32 s21, 4
        again:
        > s_barrier
        s_sub_u32 s21, s21, 1
        s_cmp_lg_u32 s21, 0
        s_cbranch_scc1 again
        < s_endpgm
    """, "wave 0 of 4 ended without reaching this barrier", 6, 1),
    Planted("a barrier in either branch", DIFFERENT, """
        s_cmp_lt_u32 s20, 2
        s_cbranch_scc1 low
        + < s_barrier
        s_branch on
        low:
        + > s_barrier
        on:
        - s_barrier
        s_endpgm
    """, "waves 0, 1 wait at this barrier while waves 2, 3 waited at another one", 2),
    Planted("one wave is a barrier ahead", DIFFERENT, """
        s_cmp_eq_u32 s20, 3
        + s_cbranch_scc1 ahead
        < s_barrier
        ahead:
        > s_barrier
        + s_cbranch_scc0 out
        + s_barrier
        out:
        s_endpgm
    """, "wave 3 waits at this barrier while waves 0, 1, 2 waited at another one", 2, 3),
    Planted("a barrier for some work-items", DIVERGENT, """
        v_cmp_gt_u32 vcc, 16, v0
        s_mov_b64 s[22:23], exec
        s_and_b64 exec, exec, vcc
        - s_mov_b64 exec, s[22:23]
        > s_barrier
        s_mov_b64 exec, s[22:23]
        s_endpgm
    """, "48 lanes of the wave do not take part: EXEC is 0xffff", 8, 0, run_of(16, 63)),
    Planted("a barrier on either side of an if", DIVERGENT, """
        v_and_b32 v1, 1, v0
        v_cmp_eq_u32 vcc, 1, v1
        s_and_saveexec_b64 s[22:23], vcc
        + > s_barrier
        s_xor_b64 exec, exec, s[22:23]
        v_mov_b32 v2, 0
        s_mov_b64 exec, s[22:23]
        s_barrier
        s_endpgm
    """, "32 lanes of the wave do not take part: EXEC is 0xaaaaaaaaaaaaaaaa", 8, 0, tuple(range(0, 64, 2))),
    Planted("work-items past the end of the data return", DIVERGENT, """
        s_movk_i32 s24, 200
        v_cmp_gt_u32 vcc, s24, v0
        s_and_saveexec_b64 s[22:23], vcc
        + s_cbranch_execz out
        v_mov_b32 v2, 0
        - s_mov_b64 exec, s[22:23]
        > s_barrier
        out:
        s_endpgm
    """, "50 lanes of the wave do not take part: EXEC is 0xff", 2, 3, run_of(8, 57)),
    Planted("work-items leave a loop one by one", DIVERGENT, """
        v_and_b32 v1, 3, v0
        s_mov_b32 s21, 0
        again:
        > s_barrier
        + v_cmp_lt_u32 vcc, s21, v1
        + s_and_b64 exec, exec, vcc
        s_add_u32 s21, s21, 1
        + s_cbranch_execnz again
        - s_cmp_lg_u32 s21, 4
        - s_cbranch_scc1 again
        s_endpgm
    """, "16 lanes of the wave do not take part: EXEC is 0xeeeeeeeeeeeeeeee", 24, 0, tuple(range(0, 64, 4))),
    Planted("half of a mask is not put back", DIVERGENT, """
        s_mov_b64 s[22:23], exec
        v_cmp_gt_u32 vcc, 8, v0
        s_and_b64 exec, exec, vcc
        v_mov_b32 v2, 0
        + s_mov_b32 exec_lo, s22
        - s_mov_b64 exec, s[22:23]
        > s_barrier
        s_endpgm
    """, "32 lanes of the wave do not take part: EXEC is 0xffffffff", 8, 0, run_of(32, 63)),
    Planted("a wave without lanes among others", DIVERGENT, """
        + v_cmp_le_u32 vcc, 64, v0
        - v_cmp_gt_u32 vcc, 0, v0
        s_and_saveexec_b64 s[22:23], vcc
        > s_barrier
        s_mov_b64 exec, s[22:23]
        s_endpgm
    """, "64 lanes of the wave do not take part: EXEC is 0x0", 2, 0, run_of(0, 63)),
    Planted("a wave goes round for ever", DEADLOCK, """
        + s_cmp_eq_u32 s20, 1
        + s_cbranch_scc0 on
        + again:
        + < s_branch again
        on:
        > s_barrier
        s_endpgm
    """, "waves 0, 2, 3 wait at this barrier, which wave 1 does not reach within the time limit"),
    Planted("a wave polls what another stores behind the barrier", DEADLOCK, """
        s_mov_b32 m0, -1
        v_mov_b32 v4, 0
        v_mov_b32 v5, 1
        + s_cmp_eq_u32 s20, 0
        + s_cbranch_scc0 on
        - s_cmp_eq_u32 s20, 4
        - s_cbranch_scc0 on
        again:
        s_sleep 1
        ds_read_b32 v6, v4
        s_waitcnt lgkmcnt(0)
        v_readfirstlane_b32 s21, v6
        s_cmp_eq_u32 s21, 0
        s_cbranch_scc1 again
        on:
        > s_barrier
        ds_write_b32 v4, v5
        s_endpgm
    """, "waves 1, 2, 3 wait at this barrier, which wave 0 does not reach within the time limit", 1, 1),
)
# fmt: on
