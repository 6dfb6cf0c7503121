"""What a caller says besides arguments: processor and engine, sizes, offsets, the engine's options. All is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from understudy.core.errors import WireError
from understudy.core.limits import checked_time_limit
from understudy.core.settings import AUTO, JIT, REFERENCE
from understudy.device.amdcl2.device import TIME_LIMIT
from understudy.engine.gcn.api import Engine
from understudy.engine.gcn.moments import Moments
from understudy.isa.gcn.target import TARGETS, Target

Size = int | Sequence[int]
"""Work-items or work-groups in one to three directions."""
MASK32: Final = 0xFFFF_FFFF
COUNTS: Final = {"step_limit": 1, "turn": 1, "seed": 0, "poison": 0}
"""Options that are numbers, and the least of each."""
CALLS: Final = ("on_hint", "on_trap")
"""Options that are called."""
MAY_BE_NONE: Final = ("seed", "poison", *CALLS)


def processor_of(target: Any) -> Target:
    """A processor by itself or by its name; `WireError` for what is none."""
    found = TARGETS.get(target) if isinstance(target, str) else target
    if not isinstance(found, Target):
        raise WireError(f"no processor {target!r}: there are {', '.join(TARGETS)}")
    return found


def moment_engine(engine: Any, moments: Moments, *, counting: bool) -> Engine:
    """What runs waves where `moments` are told of, instead of an engine by its name; `WireError` for another."""
    if not isinstance(engine, str):
        raise WireError("snapshots are for engines by their name: it is the reference engine that takes them")
    from understudy.engine.gcn.reference.moments import MomentEngine

    engine_of(engine)
    return MomentEngine(moments, counting)


def engine_of(engine: Any, tier: str = AUTO, *, counting: bool = False) -> Engine:
    """An engine by itself or by its name, then with that tier; `WireError` for what is none.

    One that counts instructions is for its program alone.
    """
    if isinstance(engine, str):
        return _make_engine(engine, tier, counting) if counting else _named_engine(engine, tier)
    if not callable(getattr(engine, "run", None)):
        raise WireError(f"engine {engine!r}, expected jit, reference or an engine")
    if counting:
        raise WireError("count_instructions is for engines by their name: make one with counting=True")
    found: Engine = engine
    return found


@cache
def _named_engine(name: str, tier: str) -> Engine:
    return _make_engine(name, tier, counting=False)


def _make_engine(name: str, tier: str, counting: bool) -> Engine:
    if name == JIT:
        from understudy.device.hsa.compute import TIERS
        from understudy.engine.gcn.jit.engine import JitEngine

        return JitEngine(tier=TIERS[tier], counting=counting)
    if name == REFERENCE:
        from understudy.engine.gcn.reference.engine import ReferenceEngine

        return ReferenceEngine(counting=counting)
    raise WireError(f"engine {name!r}, expected jit or reference")


def checked_sizes(size: Any, what: str) -> tuple[int, ...]:
    """One size or several as a tuple; `WireError` for what is none."""
    many = isinstance(size, (Sequence, np.ndarray)) and not isinstance(size, (str, bytes, bytearray))
    found = tuple(size) if many and np.ndim(size) == 1 else (size,)
    if len(found) > 3 or not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in found):
        raise WireError(f"{what} must be 1 to 3 integers, not {size!r}")
    return tuple(int(each) for each in found)


def checked_offsets(offset: Any, bits: int) -> tuple[int, ...]:
    """The global offsets in three directions; `WireError` for those that do not fit size_t of `bits` bits."""
    found = (*checked_sizes(offset, "global offset"), 0, 0)[:3]
    if not all(0 <= each < 1 << bits for each in found):
        raise WireError(f"global offset {found}: expected 0 to {(1 << bits) - 1:#x} in {bits}-bit programs")
    return found


def check_options(options: Mapping[str, Any]) -> None:
    """A `WireError` for what engines do not take from a caller."""
    for name, value in options.items():
        if name not in COUNTS and name not in CALLS and name != TIME_LIMIT:
            raise WireError(f"no option {name!r}: there are {', '.join((*COUNTS, TIME_LIMIT, *CALLS))}")
        if name == TIME_LIMIT:
            checked_time_limit(value)
            continue
        if value is None and name in MAY_BE_NONE:
            continue
        if name in CALLS:
            if not callable(value):
                raise WireError(f"option {name} must be callable, not {type(value).__name__}")
        elif not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < COUNTS[name]:
            raise WireError(f"option {name} must be an integer of {COUNTS[name]} or more, not {value!r}")
    if (options.get("poison") or 0) > MASK32:
        raise WireError(f"option poison must fit 32 bits, not {options['poison']:#x}")
