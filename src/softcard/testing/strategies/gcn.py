"""Strategies for GCN kernels: straight-line machine code whose registers are all set by the code itself."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.encoding.decode import VOP3B_NAMES
from softcard.isa.gcn.encoding.encode import encode
from softcard.isa.gcn.encoding.formats import SHIFT, STARTS
from softcard.isa.gcn.encoding.operands import LITERAL, VGPR0
from softcard.isa.gcn.encoding.shape import LITERAL_FORMS, Slot, slots
from softcard.isa.gcn.insn import EXACT, Op
from softcard.isa.gcn.operations.table import OPS, find
from softcard.isa.gcn.state import VCC
from softcard.isa.gcn.target import Target, target
from softcard.testing.strategies.drawn import Drawn, drawn

REGISTERS: Final = 8
"""The number of SGPRs and of VGPRs that kernels use: s0 to s7, v0 to v7 (and VCC and SCC)."""
MOST_INSTRUCTIONS: Final = 8
FAMILIES: Final = {"sop1": "SOP1", "sop2": "SOP2", "sopc": "SOPC", "vop1": "VOP1", "vop2": "VOP2", "vopc": "VOPC"}
HIDDEN: Final = frozenset({"exec", "level"})
"""The operand types that drawn operations must not have: EXEC and the generation."""
WORD: Final = st.integers(0, (1 << 32) - 1)
INLINE: Final = st.integers(128, 208) | st.integers(240, 247)
"""A strategy for the operand codes of inline constants, integers and floats."""
RESERVED: Final = range(209, 235)
"""The operand codes that are reserved on all processors."""


def gcn_kernels(agent: str = "gfx900", *, breaks: Collection[str] | None = None) -> SearchStrategy[Drawn[bytes]]:
    """Draw machine code for `agent` that ends with s_endpgm.

    Valid code sets s0 to s7, v0 to v7, VCC and SCC, computes with them in all active lanes, and leaves the
    results in these registers. The results are the same on any hardware, since the manuals define the result of
    every instruction exactly. The code has neither branches nor memory accesses.

    `breaks` lists the possible mistakes, one of which is in one instruction: ``gcn/encoding`` (no encoding begins
    with these bits), ``gcn/opcode`` (the encoding has no such operation), ``gcn/register`` (a reserved operand
    code) or ``gcn/cut`` (the code ends within the instruction)."""
    processor = target(agent)
    instructions = _instructions(processor)
    wrong = {
        "gcn/encoding": st.sampled_from(_no_encodings(processor)).map(_word),
        "gcn/opcode": st.sampled_from(_no_operations(processor)).map(_word),
        "gcn/register": st.sampled_from(RESERVED).map(lambda code: _word(_move(processor) | code)),
    }
    mistakes = {name: partial(_program, processor, instructions, one) for name, one in wrong.items()}
    mistakes["gcn/cut"] = partial(_cut, processor, instructions)
    return drawn(partial(_program, processor, instructions, None), mistakes, breaks)


def _program(
    processor: Target, instructions: SearchStrategy[bytes], wrong: SearchStrategy[bytes] | None, draw: DrawFn
) -> bytes:
    """Draw code that sets the registers and computes with them.

    If `wrong` is given, an invalid instruction drawn from it follows, and then further code, which is never
    reached."""
    code = _first_values(processor, draw) + b"".join(draw(st.lists(instructions, max_size=MOST_INSTRUCTIONS)))
    if wrong is not None:
        code += draw(wrong) + b"".join(draw(st.lists(instructions, max_size=MOST_INSTRUCTIONS)))
    return code + _end(processor)


def _cut(processor: Target, instructions: SearchStrategy[bytes], draw: DrawFn) -> bytes:
    """Draw code that ends within an instruction of two words."""
    code = _first_values(processor, draw) + b"".join(draw(st.lists(instructions, max_size=MOST_INSTRUCTIONS)))
    return code + draw(instructions.filter(lambda each: len(each) > 4))[:4]


def _first_values(processor: Target, draw: DrawFn) -> bytes:
    moves, rest = _moves(processor)
    seeds = draw(WORD), draw(WORD)
    values = [seeds[n >= REGISTERS] * (2 * n + 1) & 0xFFFF_FFFF for n in range(2 * REGISTERS)]
    return b"".join(move + value.to_bytes(4, "little") for move, value in zip(moves, values, strict=True)) + rest


@cache
def _moves(processor: Target) -> tuple[tuple[bytes, ...], bytes]:
    """Return the moves of a literal to each register, without the literals, and the code that sets VCC and SCC."""
    literal = 0x1234_5678
    names = [f"s_mov_b32 s{n}" for n in range(REGISTERS)] + [f"v_mov_b32 v{n}" for n in range(REGISTERS)]
    moves = tuple(assemble(processor, f"{name}, {literal:#x}")[:4] for name in names)
    return moves, assemble(processor, "s_mov_b64 vcc, s[0:1]\ns_cmp_eq_u32 s0, s0")


@cache
def _end(processor: Target) -> bytes:
    return assemble(processor, "s_endpgm")


def _word(word: int) -> bytes:
    return word.to_bytes(4, "little")


# ---- one instruction -------------------------------------------------------------------------------------------------


def _instructions(processor: Target) -> SearchStrategy[bytes]:
    """Draw any instruction that computes with registers."""
    return st.sampled_from(_operations(processor)).flatmap(lambda found: _instruction(processor, *found))


@cache
def _operations(processor: Target) -> tuple[tuple[Op, str], ...]:
    """Return the operations, with their encodings, whose results the manuals define bit by bit."""
    found = []
    for op in OPS:
        is_open = op.signature is None or op.concrete or op.selectors is not None or op.accuracy != EXACT
        if is_open or not op.on(processor) or HIDDEN.intersection((*op.results, *op.sources)):
            continue
        if op.family in FAMILIES:
            found.append((op, FAMILIES[op.family]))
        elif op.family == "vop3":
            found.append((op, "VOP3B" if op.name in VOP3B_NAMES else "VOP3A"))
    return tuple(found)


@st.composite
def _instruction(draw: DrawFn, processor: Target, op: Op, form: str) -> bytes:
    is_vector = form.startswith("V")
    shown = slots(op, form)
    is_literal = any(slot.kind == "literal" for slot in shown)
    # A vector operation reads one scalar at most, and VCC and literals count.
    has_scalar = not is_vector or not ("m64" in op.sources or is_literal)
    may_be_literal = form in LITERAL_FORMS and has_scalar and not is_literal
    fields: dict[str, int] = {}
    literal: int | None = draw(WORD) if is_literal else None
    for slot in shown:
        if slot.kind == "v":
            fields[slot.field] = _register(draw, slot)
        elif slot.kind == "s":
            fields[slot.field] = _scalar(draw, slot)
        elif slot.kind == "src" and slot.type == "m64":
            fields[slot.field] = VCC
        elif slot.kind == "src" and is_vector and slot.field != "src0":
            fields[slot.field] = VGPR0 + _register(draw, slot)
        elif slot.kind == "src":
            with_literal = may_be_literal and literal is None and slot.words == 1
            source = draw(_sources(slot, is_vector, has_scalar, with_literal))
            if source == LITERAL:
                literal = draw(WORD)
            fields[slot.field] = source
    return encode(processor, op, form, fields, literal)


def _register(draw: DrawFn, slot: Slot) -> int:
    """Draw the number of a vector register operand; if the operand has several registers, it is the first number."""
    return draw(st.integers(0, REGISTERS - slot.words))


def _scalar(draw: DrawFn, slot: Slot) -> int:
    """Draw the first scalar register of an operand, aligned to its size."""
    return draw(st.sampled_from(range(0, REGISTERS - slot.words + 1, slot.words)))


def _sources(slot: Slot, is_vector: bool, has_scalar: bool, with_literal: bool) -> SearchStrategy[int]:
    kinds = [INLINE]
    if has_scalar:
        kinds.append(st.sampled_from(range(0, REGISTERS - slot.words + 1, slot.words)))
    if is_vector:
        kinds.insert(0, st.integers(VGPR0, VGPR0 + REGISTERS - slot.words))
    if with_literal:
        kinds.append(st.just(LITERAL))
    return st.one_of(kinds)


# ---- invalid instructions --------------------------------------------------------------------------------------------


@cache
def _no_encodings(processor: Target) -> tuple[int, ...]:
    """Return instruction words with which no encoding begins."""
    return tuple(start << SHIFT for start, fmt in enumerate(STARTS[processor.level]) if fmt is None)


@cache
def _no_operations(processor: Target) -> tuple[int, ...]:
    """Return instruction words of SOP1 and VOP1 with an unused opcode."""
    scalar = (0xBE80_0000 | code << 8 for code in range(256) if find(processor, "sop1", code) is None)
    vector = (0x7E00_0000 | code << 9 for code in range(256) if find(processor, "vop1", code) is None)
    return *scalar, *vector


@cache
def _move(processor: Target) -> int:
    """Return the instruction word of s_mov_b32 s0, s0."""
    return int.from_bytes(assemble(processor, "s_mov_b32 s0, s0"), "little")
