"""What the table knows of an operation, and the decoded instruction that meanings, engines and texts read.

An operation (`Op`) is declared once, in the file of its family, with its opcode in every generation, its signature
and its meaning. An instruction (`Insn`) is one use of it: where it stands, in which form, with which fields.

Signatures
----------
``"f32 = f32 f32"`` says: one result, two sources, in the order of the encoding's fields (dst = src0 src1 src2).
Types are a letter and a width:

========  ====================================================================================================
``b32``   bits: no sign, integer inline constants; also ``b16`` ``b64`` ``b96`` ``b128`` ``b256`` ``b512``
``u32``   unsigned; ``u16`` ``u64`` ``u8``; ``i32`` signed: ``i16`` ``i64``
``f32``   float, takes neg/abs (and omod/clamp as a result): ``f16`` ``f64``
``p16``   two packed 16-bit integers, ``h16`` two packed halves (VOP3P): handed over and given back as 32 bits
``x32``   source only: binary32, or a half widened to it as op_sel_hi says (v_mad_mix)
``m64``   a lane mask in an SGPR pair (VCC in 32-bit forms): one bit per lane, as a per-lane value of width 1
``scc``   the scalar condition code, width 1 (source: its old value)
``exec``  EXEC, 64 bits scalar (source: its old value)
``old``   source only: what the destination held before, in the type of the result (v_mac, s_bitset, d16 writes)
``k32``   source only: the literal constant of v_madmk/v_madak and of s_setreg_imm32
``simm``  source only: the 16-bit immediate of SOPK, sign-extended to 32 bits; ``uimm`` zero-extended
``level`` source only: the generation, a plain int, where a meaning depends on it
========  ====================================================================================================

With a signature the meaning is a function ``meaning(*sources)`` of words (`isa.gcn.word`) that returns the result, or a
tuple of results in the order of the signature; fetching sources (modifiers, SDWA, DPP) and storing results (omod,
clamp, SDWA, EXEC) is the family's frame. Without a signature (``None``) the meaning is ``meaning(b, i)``, `b` a builder
(`isa.gcn.builder`) and `i` the instruction, and does all that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from understudy.core.errors import GuestFault
from understudy.isa.gcn.builder import Builder
from understudy.isa.gcn.target import Target
from understudy.isa.gcn.word import Word

Execution = Callable[[Builder, "Insn"], None]
"""Does all itself: the meaning of an operation without a signature."""
Function = Callable[..., Word]
"""Makes one word of words."""
Result = Word | list[Word]
"""Several words where the type of a result is wider than 64 bits."""
Computation = Callable[..., Result | tuple[Result, ...]]
"""Makes of words what the signature says."""
Told = Callable[[Builder, "Insn"], Sequence[Word]]
"""Scalars whose numbers decide what an instruction means."""
ToldExecution = Callable[[Builder, "Insn", tuple[int, ...]], None]
"""Does all itself, and is given those numbers."""
Meaning = Execution | ToldExecution | Computation
Row = tuple[Any, ...]
"""Of a table of operations: see `ops`."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How true a meaning is: `exact`, `approximate` within `bound`, or `chosen` where the manuals leave it open."""

    kind: str = "exact"
    bound: str = ""
    source: str = ""


EXACT = Accuracy()


def chosen(name: str) -> dict[str, Accuracy]:
    """The extras of an operation whose ordinary results depend on the choice of that name."""
    return {"accuracy": Accuracy("chosen", "", f"gcn/{name}")}


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation. `name` is its newest mnemonic and unique within the family; `names` and `opcodes` go by level.

    `needs` is a feature without which a target of that level does not have the operation. `concrete` operations are
    executed by the reference engine only, and their meanings may look at scalar values. `told` gives the scalars of 32
    bits, made of scalar registers, that say what the operation does (a buffer's format, say): the meaning has no
    signature and is ``meaning(b, i, numbers)`` with what they are. `operands` is the assembly text's operand list for
    operations without a signature (see `encoding/shape.py`).
    `clamped` is the meaning with the clamp bit set where results are integers (the frame clamps floats).
    """

    name: str
    family: str
    names: Mapping[int, str]
    opcodes: Mapping[int, int]
    signature: str | None
    meaning: Meaning
    operands: str = ""
    needs: str = ""
    concrete: bool = False
    told: Told | None = None
    accuracy: Accuracy = EXACT
    clamped: Meaning | None = None
    results: tuple[str, ...] = field(init=False)
    sources: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        left, _, right = (self.signature or "").partition("=")
        object.__setattr__(self, "results", tuple(left.split()))
        object.__setattr__(self, "sources", tuple(right.split()))

    def on(self, target: Target) -> bool:
        """Whether `target` has this operation."""
        return target.level in self.opcodes and (not self.needs or self.needs in target.has)


@dataclass(frozen=True, slots=True, eq=False)
class Insn:
    """One decoded instruction at `pc`, `size` bytes long; `words` are its 32-bit words, a literal included.

    `form` is the encoding it was found in: SOP1 SOP2 SOPC SOPK SOPP SMRD SMEM VOP1 VOP2 VOPC VOP3A VOP3B VOP3P VINTRP
    DS FLAT MUBUF MTBUF MIMG EXP, or VOP1_SDWA VOP2_SDWA VOPC_SDWA VOP1_DPP VOP2_DPP. Fields an encoding does not have
    are absent. `told`: numbers that the meaning is for, where translated code has been told them; see `Op`.
    Source operands are codes of the 9-bit operand space (`encoding/operands.py`): a VGPR-only field reads as 256 + n.
    """

    op: Op
    target: Target
    form: str
    pc: int
    size: int
    words: tuple[int, ...]
    fields: Mapping[str, int]
    literal: int | None = None
    told: tuple[int, ...] | None = None

    def __getitem__(self, name: str) -> int:
        """The field of that name."""
        return self.fields[name]

    def get(self, name: str, absent: int = 0) -> int:
        """The field of that name, or `absent` where the encoding has none."""
        return self.fields.get(name, absent)

    @property
    def name(self) -> str:
        """The mnemonic in this generation."""
        return self.op.names[self.target.level]

    def moved(self, pc: int) -> Insn:
        """The same instruction at another place."""
        return Insn(self.op, self.target, self.form, pc, self.size, self.words, self.fields, self.literal, self.told)

    @property
    def encoded(self) -> int:
        """The first one or two words: all of the encoding."""
        return self.words[0] | (self.words[1] << 32 if len(self.words) > 1 else 0)

    def specific(self, numbers: tuple[int, ...]) -> Insn:
        """The same instruction where these numbers decide what it means; see `told`."""
        return replace(self, told=numbers)

    @property
    def next_pc(self) -> int:
        """Address of the following instruction."""
        return self.pc + self.size


def ops(family: str, rows: tuple[Row, ...], **common: Any) -> tuple[Op, ...]:
    """Operations from table rows ``(names, op7, op8, op9, signature, meaning[, extras])``; None for "not there".

    `names` is one mnemonic, or three separated by ``|`` (GFX7|GFX8|GFX9); `extras` is a dict of further `Op` fields.
    """
    made = []
    for names, op7, op8, op9, signature, meaning, *extras in rows:
        split = names.split("|") if "|" in names else [names] * 3
        opcodes = {level: code for level, code in zip((7, 8, 9), (op7, op8, op9), strict=True) if code is not None}
        by_level = {level: name for level, name in zip((7, 8, 9), split, strict=True) if level in opcodes}
        options = {**common, **(extras[0] if extras else {})}
        newest = by_level[max(by_level)]
        made.append(Op(newest, family, by_level, opcodes, signature, meaning, **options))
    return tuple(made)


class IllegalInstruction(GuestFault):
    """No instruction of this processor. `words` is what was fetched, as far as it was looked at."""

    def __init__(self, message: str, *, words: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.words = words
