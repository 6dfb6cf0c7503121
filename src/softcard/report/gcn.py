"""Coverage of the GCN instruction set: every operation with its opcodes, forms, engines, accuracy and tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from softcard.core.errors import ModelBug
from softcard.isa.gcn.asm.assembler import forms
from softcard.isa.gcn.hazards import load_hazards
from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.semantics.matrix.table import Matrix, matrices
from softcard.isa.gcn.target import LEVELS, TARGETS, Target
from softcard.report.markdown import cell, table

PROCESSORS: Final = ("gfx700", "gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950")
"""The processors in the tables, one for each different set of operations."""
KINDS: Final = ("exact", "approximate", "chosen", "absent")
"""The values of `Accuracy.kind`; "absent" operations raise `BeyondModel`."""
_ALU_TESTS: Final = ("test_vector_integer.py", "test_vector_float.py", "test_convert.py", "test_modifiers.py")
_SCALAR_TESTS: Final = ("test_scalar.py", "test_control.py")
FAMILY_TESTS: Final = {
    **dict.fromkeys(("sop1", "sop2", "sopc", "sopk", "sopp"), _SCALAR_TESTS),
    **dict.fromkeys(("vop1", "vop2", "vopc", "vop3", "vop3p"), _ALU_TESTS),
    **dict.fromkeys(("flat", "global", "scratch"), ("test_flat.py",)),
    **dict.fromkeys(("mubuf", "mtbuf"), ("test_buffer.py", "test_buffer_format.py")),
    "mai": ("test_gfx9_vectors.py", "test_cdna.py"),
    "vop3px": ("test_scaled.py", "test_matrix.py"),
    "smem": ("test_smem.py",),
    "ds": ("test_ds.py",),
    "mimg": ("test_image.py", "test_image_sample.py"),
    "exp": ("test_graphics.py",),
    "vintrp": ("test_graphics.py",),
}
"""The test files below tests/isa/gcn by family of operations.

They mostly test operations without naming them.
"""
_ENCODING_TESTS: Final = frozenset(
    f"test_{name}.py"
    for name in ("decode", "printer", "assembler", "vectors", "llvm_oracle", "constants_oracle", "memory_hostile")
)
FAMILIES: Final = tuple(dict.fromkeys(op.family for op in OPS))


def slot_table() -> str:
    """Return a Markdown table of the number of opcodes in use, by encoding and processor.

    An operation is counted once for each of its encodings."""
    counts = {
        name: Counter(_form(form) for op in _on(name) for form in forms(target, op))
        for name, target in ((name, TARGETS[name]) for name in PROCESSORS)
    }
    every = list(dict.fromkeys(form for count in counts.values() for form in count))
    rows = [(form, *(str(counts[name][form] or "-") for name in PROCESSORS)) for form in every]
    return table(("encoding", *PROCESSORS), [*rows, ("together", *(str(counts[name].total()) for name in PROCESSORS))])


def fidelity_table() -> str:
    """Return a Markdown table of the number of operations by kind of accuracy (fidelity) and processor.

    It also has the number of operations that only the reference engine executes."""
    rows = [(kind, *(str(sum(op.accuracy.kind == kind for op in _on(name))) for name in PROCESSORS)) for kind in KINDS]
    rows.append(("together", *(str(len(_on(name))) for name in PROCESSORS)))
    rows.append(("reference engine only", *(str(sum(op.concrete for op in _on(name))) for name in PROCESSORS)))
    return table(("meaning", *PROCESSORS), rows)


def matrix_table() -> str:
    """Return a Markdown table of the arithmetic of matrix instructions, with its source on each processor.

    A row has the instructions with one kind of A and one kind of sums. A source is a validated model of the hardware,
    or the Choice that defines the sums."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for (processor, _), each in matrices().items():
        found = cells.setdefault(_matrix_kind(each), {})
        source = each.source
        shown = f"choice `{source.removeprefix('gcn/')}`" if source.startswith("gcn/") else source
        if found.setdefault(processor, shown) != shown:
            raise ModelBug(
                f"{each.name} of {processor} has the source {shown}, expected {found[processor]} as in its row"
            )
    names = [name for name in PROCESSORS if TARGETS[name].matrix]
    rows = [(*kind, *(by.get(name, "-") for name in names)) for kind, by in cells.items()]
    return table(("A and B", "sums", *names), rows)


def _matrix_kind(matrix: Matrix) -> tuple[str, str]:
    """Return the row of an instruction in `matrix_table`: the types of A, and the kind of sums."""
    name = {"OCP_FP8": "FP8", "OCP_BF8": "BF8"}.get(matrix.a.name, matrix.a.name)
    types = "8 bits and less" if matrix.takes_formats else "FP8, BF8" if name in ("FP8", "BF8") else name
    return types, "scaled" if matrix.is_scaled else "sparse" if matrix.is_sparse else "dense"


def hazard_table() -> str:
    """Return a Markdown table of the required wait states between two instructions, by generation, with sources."""
    rows = []
    for each in load_hazards().values():
        basis = [each.basis, each.note, f"not checked: {each.absent}" if each.absent else ""]
        if each.doubtful and not each.absent:
            level = "note" if each.basis == "disputed" else "warning"
            basis.append(f"a {level} on {', '.join(f'GFX{level}' for level in sorted(each.doubtful))}")
        needs = [str(each.need[level] or "-") for level in LEVELS]
        if each.needs_text:
            needs = ["-", "-", each.needs_text]
        cells = (each.before, each.after, *needs, each.manual, "; ".join(filter(None, basis)))
        rows.append((f"`{each.id}`", *map(cell, cells)))
    return table(("hazard", "first", "then", "GFX7", "GFX8", "GFX9", "manual", "basis"), rows)


def opcode_table(family: str, tests_dir: Path) -> str:
    """Return a Markdown table of the operations of a family by opcode, with their tests from `tests_dir`.

    The tests of an operation are the files below ``isa/gcn`` that name it. If no file names it, they are the files of
    its family.
    """
    named = _words(tests_dir / "isa" / "gcn")
    rows = [_row(op, named) for op in OPS if op.family == family]
    return table(("operation", "GFX7", "GFX8", "GFX9", "forms", "engines", "meaning", "tests"), rows)


def _row(op: Op, named: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    codes = (f"{op.opcodes[level]:#04x}" if level in op.opcodes else "-" for level in LEVELS)
    newest = next(name for name in reversed(PROCESSORS) if op.on(TARGETS[name]))
    engines = "reference" if op.concrete else "both"
    tests = [path for path, words in named.items() if words & set(op.names.values())] or FAMILY_TESTS[op.family]
    condition = ", ".join(filter(None, (op.needs, op.lacks and f"not {op.lacks}")))
    shown = "<br>".join(dict.fromkeys(op.names[level] for level in LEVELS if level in op.names))
    return (
        f"`{shown}`" + (f" ({condition})" if condition else ""),
        *codes,
        " ".join(dict.fromkeys(_form(form) for form in forms(TARGETS[newest], op))),
        "-" if op.accuracy.kind == "absent" else engines,
        _meaning(op),
        "<br>".join(f"`{path}`" for path in tests),
    )


def _meaning(op: Op) -> str:
    parts = (op.accuracy.bound, op.accuracy.source)
    detail = "; ".join(part for part in parts if part)
    return cell(f"{op.accuracy.kind}: {detail}" if detail else op.accuracy.kind)


def _form(form: str) -> str:
    """Return the name of the encoding under which the tables count the encoding `form` of an operation.

    VOP3A and VOP3B share opcodes and are counted as VOP3; SDWA and DPP are counted separately."""
    return "VOP3" if form in ("VOP3A", "VOP3B") else form


def _on(name: str) -> list[Op]:
    target: Target = TARGETS[name]
    return [op for op in OPS if op.on(target)]


def _words(folder: Path) -> dict[str, frozenset[str]]:
    """Return the words in each test file below `folder`, by file name; files with tests of encodings are left out."""
    return {
        path.name: frozenset(re.findall(r"[a-z]\w+", path.read_text(encoding="utf-8")))
        for path in sorted(folder.rglob("test_*.py"))
        if path.name not in _ENCODING_TESTS
    }
