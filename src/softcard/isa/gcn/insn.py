"""Operations and decoded instructions, which the semantics, the engines and the assembly text use.

An operation (`Op`) is declared once, in the file of its family, with its opcode in every generation, its
signature and its semantics (`semantics`). An instruction (`Insn`) is one use of an operation, with its
address, encoding and fields.

Signatures
----------
``"f32 = f32 f32"`` means one result and two sources, in the order of the encoding's fields (dst = src0 src1
src2). Types are a letter and a width:

========  ====================================================================================================
``b32``   bits: no sign, integer inline constants; also ``b16`` ``b64`` ``b96`` ``b128`` ``b256`` ``b512``
``u32``   unsigned; ``u16`` ``u64`` ``u8``; ``i32`` signed: ``i16`` ``i64``
``f32``   float, takes neg/abs (and omod/clamp as a result): ``f16`` ``f64``
``p16``   two packed 16-bit integers, ``h16`` two packed halves (VOP3P): passed and returned as 32 bits
``p64``   two packed 32-bit values, ``g64`` two packed binary32 (VOP3P): passed and returned as 64 bits
``x32``   source only: binary32, or with op_sel_hi a half widened to it (v_mad_mix)
``m64``   a lane mask in an SGPR pair (VCC in 32-bit forms): one bit per lane, as a per-lane value of width 1
``scc``   the scalar condition code, width 1 (source: its old value)
``exec``  EXEC, 64 bits scalar (source: its old value)
``old``   source only: the old value of the destination, in the type of the result (v_mac, s_bitset, d16 writes)
``k32``   source only: the literal constant of v_madmk/v_madak and of s_setreg_imm32
``simm``  source only: the 16-bit immediate of SOPK, sign-extended to 32 bits; ``uimm`` zero-extended
``level`` source only: the generation, a plain int, if the semantics depend on it
``ocp``   source only: True if FP8 and BF8 are the formats of OCP (gfx950), a plain bool
``table`` source only: the truth table of v_bitop3, a plain int
========  ====================================================================================================

If an operation has a signature, its semantics are a function ``semantics(*sources)`` of words
(`isa.gcn.word`). It returns the result, or a tuple of results in the order of the signature.
`semantics.execute` fetches the sources (modifiers, SDWA, DPP) and stores the results (omod, clamp, SDWA,
EXEC).

If the signature is None, the semantics are ``semantics(b, i)``, with a builder `b` (`isa.gcn.builder`) and
the instruction `i`. They fetch the sources and store the results themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from softcard.core.errors import GuestFault
from softcard.isa.gcn.builder import Builder
from softcard.isa.gcn.target import Target
from softcard.isa.gcn.word import Word

Execution = Callable[[Builder, "Insn"], None]
"""The semantics of an operation without a signature: a function that reads operands and writes results itself."""
Function = Callable[..., Word]
"""A function of words that returns one word."""
Result = Word | list[Word]
"""A result of an operation: one word, or a list of words if it is wider than 64 bits."""
Computation = Callable[..., Result | tuple[Result, ...]]
"""A function from the source words to the results of an operation that has a signature."""
Selectors = Callable[[Builder, "Insn"], Sequence[Word]]
"""A function that returns the scalar words whose values select the variant of an instruction."""
SpecialisedExecution = Callable[[Builder, "Insn", tuple[int, ...]], None]
"""The semantics of an operation without a signature, given also the values of its selectors (see `Selectors`)."""
Semantics = Execution | SpecialisedExecution | Computation
Row = tuple[Any, ...]
"""One operation as a tuple, an argument of `ops`."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of an operation: `kind` is "exact", "approximate" (within `bound`), "chosen" or "absent".

    "chosen" means that Softcard defines the result, since the manuals leave it open; "absent", that the
    operation is not modelled. `source` is the reference."""

    kind: str = "exact"
    bound: str = ""
    source: str = ""


EXACT = Accuracy()


def chosen(name: str) -> dict[str, Accuracy]:
    """Return the `Op` field `accuracy` for an operation whose ordinary results depend on the Choice called `name`.

    A Choice is a documented decision of Softcard where the manuals leave the behaviour open."""
    return {"accuracy": Accuracy("chosen", "", f"gcn/{name}")}


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation of the ISA. `name` is its newest mnemonic, unique in its family.

    - `names`, `opcodes`: the mnemonic and the opcode by generation
    - `needs`: a feature that a target must have in order to implement the operation
    - `lacks`: a feature that a target must not have, because later processors have dropped the operation or use
      its opcode for another one
    - `aliases`: further mnemonics that assemblers accept
    - `concrete`: True if only the reference engine executes the operation; its semantics may then inspect scalar
      values
    - `selectors`: a function that returns 32-bit scalars, computed from scalar registers, that select the variant
      (for example the format of a buffer); the operation then has no signature, and its semantics are
      ``semantics(b, i, numbers)`` with the values of these scalars
    - `operands`: the operand list of the assembly text, for operations without a signature or with unusual kinds
      of registers (see `encoding/shape.py`)
    - `clamped`: the semantics with the clamp bit set, for integer results (the caller clamps floats)"""

    name: str
    family: str
    names: Mapping[int, str]
    opcodes: Mapping[int, int]
    signature: str | None
    semantics: Semantics
    operands: str = ""
    needs: str = ""
    lacks: str = ""
    aliases: tuple[str, ...] = ()
    concrete: bool = False
    selectors: Selectors | None = None
    accuracy: Accuracy = EXACT
    clamped: Semantics | None = None
    results: tuple[str, ...] = field(init=False)
    sources: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        left, _, right = (self.signature or "").partition("=")
        object.__setattr__(self, "results", tuple(left.split()))
        object.__setattr__(self, "sources", tuple(right.split()))

    def on(self, target: Target) -> bool:
        """Return True if `target` implements this operation."""
        has = target.has
        return target.level in self.opcodes and (not self.needs or self.needs in has) and self.lacks not in has


@dataclass(frozen=True, slots=True, eq=False)
class Insn:
    """One decoded instruction at address `pc`: `size` bytes, whose 32-bit words (with a literal) are `words`.

    `form` is its encoding: SOP1 SOP2 SOPC SOPK SOPP SMRD SMEM VOP1 VOP2 VOPC VOP3A VOP3B VOP3P VINTRP DS FLAT MUBUF
    MTBUF MIMG EXP MAI VOP3PX, or VOP1_SDWA VOP2_SDWA VOPC_SDWA VOP1_DPP VOP2_DPP.

    `fields` has the fields of that encoding only. The value of a source operand's field is an operand code
    (`encoding/operands.py`), also if the field can only hold a VGPR: VGPR n is stored as 256 + n. Accumulation
    register n is vector register 256 + n, so it is stored as 512 + n. The gfx942 flags sc0, nt and sc1 are called
    glc, slc and scc here.

    `selectors` are the values of the scalars that select the variant, if the code is specialised for them; see
    `Op`."""

    op: Op
    target: Target
    form: str
    pc: int
    size: int
    words: tuple[int, ...]
    fields: Mapping[str, int]
    literal: int | None = None
    selectors: tuple[int, ...] | None = None

    def __getitem__(self, name: str) -> int:
        """Return the value of the field `name`."""
        return self.fields[name]

    def get(self, name: str, absent: int = 0) -> int:
        """Return the value of the field `name`, or `absent` if the encoding has no such field."""
        return self.fields.get(name, absent)

    @property
    def name(self) -> str:
        """The mnemonic in the generation of the instruction's target."""
        return self.op.names[self.target.level]

    def moved(self, pc: int) -> Insn:
        """Return a copy of the instruction, placed at address `pc`."""
        return Insn(
            self.op, self.target, self.form, pc, self.size, self.words, self.fields, self.literal, self.selectors
        )

    @property
    def encoded(self) -> int:
        """All words as one number; the first word is in the lowest bits."""
        return sum(word << 32 * at for at, word in enumerate(self.words))

    def specific(self, numbers: tuple[int, ...]) -> Insn:
        """Return a copy specialised for `numbers`, the values of the scalars that select the variant of the operation.

        `Op` describes these scalars."""
        return replace(self, selectors=numbers)

    @property
    def next_pc(self) -> int:
        """The address of the following instruction."""
        return self.pc + self.size


def ops(family: str, rows: tuple[Row, ...], **common: Any) -> tuple[Op, ...]:
    """Return the operations that `rows` declare: ``(names, op7, op8, op9, signature, semantics[, extras])``.

    An opcode (`op7` to `op9`) is None for a generation that lacks the operation. `names` is one mnemonic, or three
    separated by ``|`` (GFX7|GFX8|GFX9); `extras` is a dict of further `Op` fields. `common` holds `Op` fields of all
    operations.
    """
    made = []
    for names, op7, op8, op9, signature, semantics, *extras in rows:
        split = names.split("|") if "|" in names else [names] * 3
        opcodes = {level: code for level, code in zip((7, 8, 9), (op7, op8, op9), strict=True) if code is not None}
        by_level = {level: name for level, name in zip((7, 8, 9), split, strict=True) if level in opcodes}
        options = {**common, **(extras[0] if extras else {})}
        newest = by_level[max(by_level)]
        made.append(Op(newest, family, by_level, opcodes, signature, semantics, **options))
    return tuple(made)


class IllegalInstruction(GuestFault):
    """The error for an instruction that the processor does not implement. `words` are its fetched words."""

    def __init__(self, message: str, *, words: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.words = words
