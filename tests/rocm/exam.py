"""Runs kernels of which nothing is known but their metadata, with arguments made up: what one engine makes of memory.

Each pointer leads to a buffer of small integers, of four or eight bytes, or of floats; each number is small. Many
kernels end with one of these, others run into a fault: what counts is that all engines do the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.api import Engine
from softcard.engine.gcn.tiered.engine import JitEngine
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import Wave
from tests.gcn_kernels.bench import Bench, Local, Out
from tests.rocm.libraries import Chosen

BUFFER_BYTES = 1 << 16
GROUPS = 2
SIZE = 64
"""What numbers are."""
STEP_LIMIT = 20_000
MANNERS = ("integers", "longs", "floats")
"""What buffers hold."""


@dataclass(slots=True)
class Outcome:
    """What a run gave: all memory, or an error; the instructions retired, and those that left translated code."""

    memory: list[bytes] = field(default_factory=list)
    error: str = ""
    instructions: int = 0
    left: Counter[str] = field(default_factory=Counter)


def take(chosen: Chosen, manner: str, engine: Engine) -> Outcome:
    """Run a kernel on an engine."""
    bench = Bench(chosen.processor, chosen.code)
    facts = chosen.kernel.metadata
    assert facts is not None
    group = facts.required_workgroup_size or (min(facts.max_workgroup_size or 256, 256), 1, 1)
    grid = (GROUPS * group[0], group[1], group[2])
    arguments = list(_arguments(bench, chosen, manner))
    dispatch, _ = bench.dispatch(chosen.kernel.name, grid, group, arguments, step_limit=STEP_LIMIT)
    made = Outcome()
    try:
        made.instructions = run(engine, dispatch, made.left)
    except SoftcardError as error:
        made.error = type(error).__name__
    made.memory = [bytes(ram.view) for ram in bench.rams]
    return made


def run(engine: Engine, dispatch: Any, left: Counter[str]) -> int:
    """Run a dispatch; instructions retired. `left` counts those that a translating engine gave to the reference."""
    if not isinstance(engine, JitEngine):
        return engine.run(dispatch).instructions
    launch = engine.prepare(dispatch)
    stepper = launch.first.stepper
    step = stepper.step

    def noted(wave: Wave, lanes: int | None = None) -> Insn:
        insn = step(wave, lanes)
        left[insn.op.name] += 1
        return insn

    stepper.step = noted  # type: ignore[method-assign]
    return launch.run().instructions


def _arguments(bench: Bench, chosen: Chosen, manner: str) -> Iterator[Any]:
    """A value for each argument that a caller gives."""
    facts = chosen.kernel.metadata
    assert facts is not None
    rng = np.random.default_rng(sum(chosen.kernel.name.encode()) + MANNERS.index(manner))
    for argument in facts.explicit:
        if argument.kind == "dynamic_shared_pointer":
            yield Local(4096)
        elif argument.kind == "global_buffer":
            yield Out(np.zeros(BUFFER_BYTES, np.uint8), initial=_filled(rng, manner))
        else:
            yield SIZE.to_bytes(argument.size, "little") if argument.size <= 8 else bytes(argument.size)


def _filled(rng: np.random.Generator, manner: str) -> np.ndarray[Any, Any]:
    if manner == "floats":
        return rng.standard_normal(BUFFER_BYTES // 4).astype(np.float32)
    kind = np.int32 if manner == "integers" else np.int64
    return rng.integers(0, SIZE // 2, BUFFER_BYTES // np.dtype(kind).itemsize).astype(kind)
