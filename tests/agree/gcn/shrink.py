"""Makes a failing case small: fewer instructions, fewer lanes, plainer registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tests.agree.gcn.bench import Outcome, Start, differences, on_reference
from tests.agree.gcn.insns import RESOURCES
from tests.agree.gcn.programs import Program, listing

if TYPE_CHECKING:
    from tests.agree.gcn.fuzz import Failure

Still = Callable[[Program, Start], list[str]]


def shrink(failure: Failure) -> Failure:
    """A smaller failure of the same engine."""

    engine = failure.engine.fresh()

    def still(program: Program, state: Start) -> list[str]:
        name, code = program.target.name, program.code()
        expected: Outcome = on_reference(name, code, state)
        return differences(expected, engine(name, code, state))

    program, state = failure.program, failure.start
    lines = still(program, state)
    if not lines:
        failure.lines.append("(only together with the states before: not reproduced alone)")
        return failure
    program = _items(program, state, still)
    state = _lanes(program, state, still)
    state = _registers(program, state, still)
    program = _items(program, state, still)
    return replace(failure, program=program, start=state, lines=still(program, state))


def _items(program: Program, state: Start, still: Still) -> Program:
    """Leave out items, many at a time at first."""
    step = max(1, len(program.present) // 2)
    while step:
        at = 0
        while at < len(program.present):
            less = program.without(program.present[at : at + step])
            if less.present and still(less, state):
                program = less
            else:
                at += step
        step //= 2
    return program


def _lanes(program: Program, state: Start, still: Still) -> Start:
    """Fewer lanes in EXEC."""
    lanes = state.exec_
    for width in (32, 16, 8, 4, 2, 1):
        for at in range(0, 64, width):
            less = lanes & ~(((1 << width) - 1) << at)
            if less != lanes and still(program, replace(state, exec_=less)):
                lanes = less
                state = replace(state, exec_=less)
    return state


def _registers(program: Program, state: Start, still: Still) -> Start:
    """Zero what does not matter, many at a time at first."""
    for first, array, field in ((12, state.vgprs, "vgprs"), (RESOURCES[-1] + 8, state.sgprs, "sgprs")):
        kept = list(range(first, len(array)))
        step = len(kept)
        while step:
            for at in range(0, len(kept), step):
                words = getattr(state, field).copy()
                words[kept[at : at + step]] = 0
                if words.any() and still(program, replace(state, **{field: words})):
                    state = replace(state, **{field: words})
            kept = [n for n in kept if getattr(state, field)[n].any()]
            step = min(step // 2, len(kept))
    return state


def report(failure: Failure) -> str:
    """What to look at, and how to do it again."""
    program, state = failure.program, failure.start
    code = program.code()
    lines = [
        listing(program.target, code),
        f"EXEC {state.exec_:#018x} MODE {state.mode:#x} M0 {state.m0:#x} LDS {state.lds_bytes}",
    ]
    for n in np.flatnonzero(state.vgprs.any(axis=1)).tolist():
        lanes = [lane for lane in range(64) if state.exec_ >> lane & 1][:4] or [0]
        if n < 12 and f"v{n}" not in lines[0] and f"v[{n}" not in lines[0]:
            continue
        lines.append(f"v{n}: " + ", ".join(f"[{lane}] {int(state.vgprs[n, lane]):#x}" for lane in lanes))
    lines.append(
        "s: " + ", ".join(f"s{n}={int(word):#x}" for n, word in enumerate(state.sgprs.tolist()) if word and n >= 2)
    )
    return "\n".join([*lines, *failure.lines[:12]])
