"""Every engine's parts are what the protocols of the algebras say: by mypy where it sees them, else by name."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from softcard.engine.gcn.effects import _Notes
from softcard.engine.gcn.jit.emit import emit_control, emit_float, emit_integer, emit_memory, emit_registers
from softcard.engine.gcn.reference.lane_atomic import LaneAtomics
from softcard.engine.gcn.reference.lane_float import LaneFloats
from softcard.engine.gcn.reference.lane_integer import LaneIntegers
from softcard.engine.gcn.reference.lanes import Lanes
from softcard.engine.riscv import evaluate
from softcard.engine.riscv.jit import emit_control as riscv_control
from softcard.engine.riscv.jit import emit_float as riscv_float
from softcard.engine.riscv.jit import emit_integer as riscv_integer
from softcard.engine.riscv.jit import emit_memory as riscv_memory
from softcard.engine.riscv.jit import emit_registers as riscv_registers
from softcard.isa import word
from softcard.isa.gcn.algebra import WaveAlgebra
from softcard.isa.gcn.builder import Builder
from softcard.isa.riscv.algebra import Algebra, SystemAlgebra

if TYPE_CHECKING:
    from softcard.engine.gcn.reference.lane_integer import Value as Lane
    from softcard.ir.builder import Value as Named
    from softcard.ir.operand import Operand
    from softcard.isa.gcn.algebra import ControlAlgebra, FloatAlgebra, MemoryAlgebra, RegisterAlgebra, WaveIntegers
    from softcard.isa.word import IntegerAlgebra

    def reference(
        integers: LaneIntegers, floats: LaneFloats, memory: LaneAtomics, wave: Lanes
    ) -> tuple[
        WaveIntegers[Lane],
        FloatAlgebra[Lane],
        MemoryAlgebra[Lane, Lane],
        RegisterAlgebra[Lane, Lane],
        ControlAlgebra[Lane],
    ]:
        return integers, floats, memory, wave, wave

    def translated(
        integers: emit_integer.Integers, floats: emit_float.Floats, riscv: riscv_integer.Integers
    ) -> tuple[WaveIntegers[Named], FloatAlgebra[Named], IntegerAlgebra[Operand]]:
        return integers, floats, riscv

    def whole(notes: _Notes, hart: evaluate.Evaluator) -> tuple[WaveAlgebra[object, object], SystemAlgebra[int, int]]:
        return notes, hart


REFERENCE_ONLY = {"hwreg", "set_hwreg", "time", "trap"}
"""Of waves: what the JIT leaves to the reference engine."""
GCN_JIT = (
    emit_integer.Integers,
    emit_float.Floats,
    emit_registers.ScalarFile,
    emit_registers.VectorFile,
    emit_memory.Memory,
    emit_control.Control,
)
RISCV_JIT = (
    riscv_integer.Integers,
    riscv_float.Floats,
    riscv_registers.Registers,
    riscv_registers.Representations,
    riscv_memory.Memory,
    riscv_control.Control,
)


def operations(protocol: type) -> set[str]:
    return {name for name in dir(protocol) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("protocol", "parts", "absent"),
    [
        (WaveAlgebra, (LaneIntegers, LaneFloats, LaneAtomics, Lanes), set()),
        (WaveAlgebra, GCN_JIT, REFERENCE_ONLY),
        (SystemAlgebra, (evaluate.Evaluator,), set()),
        (Algebra, RISCV_JIT, set()),
    ],
    ids=["gcn reference", "gcn jit", "riscv reference", "riscv jit"],
)
def test_parts_have_every_operation(protocol: type, parts: tuple[type, ...], absent: set[str]) -> None:
    found = {name for name in operations(protocol) if any(hasattr(part, name) for part in parts)}
    assert operations(protocol) - found == absent


def test_builder_or_word_has_every_operation() -> None:
    integers_and_floats = operations(LaneIntegers) | operations(LaneFloats)
    assert operations(WaveAlgebra) - operations(Builder) - integers_and_floats == {"active"}


def test_builder_takes_what_the_algebra_takes() -> None:
    for name in operations(WaveAlgebra) & operations(Builder) - {"mode", "const"}:
        theirs = inspect.signature(getattr(WaveAlgebra, name)).parameters
        assert list(inspect.signature(getattr(Builder, name)).parameters)[1:] == list(theirs)[1:], name


def test_nothing_in_semantics_is_any() -> None:
    """Aliases count: what a meaning sees has a type that mypy holds it to. Only a dtype of NumPy may be any."""
    isa = Path(word.__file__).parent
    files = [isa / "word.py", *(isa / "riscv").rglob("*.py"), *(isa / "gcn" / "semantics").rglob("*.py")]
    files += [isa / "gcn" / name for name in ("algebra.py", "builder.py", "word.py")]
    found = {}
    for path in files:
        text = re.sub(r"NDArray\[Any\]|^from typing import .*$", "", path.read_text("utf-8"), flags=re.M)
        if count := len(re.findall(r"\bAny\b|Callable\[\.\.\., object\]", text)):
            found[path.relative_to(isa).as_posix()] = count
    assert len(files) > 50
    assert found == {}
