"""An assembler for the text that `asm.printer` writes: instructions, labels, literals, comments, ``.long``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from softcard.core.display import count
from softcard.core.errors import LEAST_SIMILAR_MNEMONIC, SoftcardError, WireError, close_to
from softcard.isa.gcn.asm.modifiers import FLAGS, read_modifier
from softcard.isa.gcn.asm.operands import LABEL, OPERANDS, InsnBuilder
from softcard.isa.gcn.encoding.decode import VOP3B_NAMES, decode
from softcard.isa.gcn.encoding.encode import encode, encode_insn
from softcard.isa.gcn.encoding.shape import Slot
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations.table import has_dpp, has_sdwa, is_promoted, mnemonics, named
from softcard.isa.gcn.target import GFX7, TARGETS, Target

__all__ = ["assemble", "assemble_one", "encode", "encode_insn", "is_label"]


# ---- lines of text ---------------------------------------------------------------------------------------------------
# The parser reads one instruction's text, operands and then modifiers, into the fields of an `InsnBuilder`.


_OPEN: Final = "([{"
_CLOSE: Final = ")]}"


def split(text: str, separator: str) -> list[str]:
    """Return `text` split at a separator outside of brackets and bars, with blanks trimmed."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        quoted ^= letter == '"'
        if letter == separator and depth == 0 and not quoted:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part] if separator == " " else parts


def read(builder: InsnBuilder, text: str) -> None:
    """Parse the text after the mnemonic into `builder`; raise `WireError` for values that its encoding cannot hold."""
    operands, modifiers = _parts(builder, text)
    for modifier in modifiers:
        try:
            read_modifier(builder, modifier)
        except WireError as error:
            raise error.in_operand(modifier) from None
    shown = builder.visible()
    kinds = [slot.kind for slot in shown]
    if builder.op.family == "scratch" and "sve" in builder.fields and len(operands) == len(shown):
        at = next(n for n, slot in enumerate(shown) if slot.field in ("addr", "off"))
        builder.fields["sve"] = int(operands[at] != "off")
        shown = builder.visible()
        kinds = [slot.kind for slot in shown]
    if "saddr" in kinds and len(operands) == len(kinds):  # first, since it determines the width of the vector address
        at = kinds.index("saddr")
        _read_operand(builder, shown[at], operands[at], at)
        shown = builder.visible()
    if kinds == ["quiet"] and not operands:
        return
    if len(operands) != len(shown):
        raise WireError(f"{builder.op.name} takes {count(len(shown), 'operand')} here, not {len(operands)}")
    for number, (slot, operand) in enumerate(zip(shown, operands, strict=True)):
        _read_operand(builder, slot, operand, number)


def _read_operand(builder: InsnBuilder, slot: Slot, text: str, number: int) -> None:
    """Parse an operand; errors name it by its `number`, except in exports, whose first operands have no comma."""
    try:
        OPERANDS[slot.kind].read(builder, slot, text)
    except WireError as error:
        raise error.in_operand(text, -1 if builder.form == "EXP" else number) from None


def _parts(builder: InsnBuilder, text: str) -> tuple[list[str], list[str]]:
    """Return the texts of the operands and those of the modifiers in an instruction's text."""
    if [slot.kind for slot in builder.visible()] in (["waitcnt"], ["message"]):
        return [text.strip()], []
    parts = split(text, ",") if text.strip() else []
    modifiers: list[str] = []
    if parts:
        last = split(parts[-1], " ")
        keep = 0 if len(parts) == 1 and _is_modifier(last[0]) else 1
        if builder.form == "EXP" and len(parts) == 1:
            keep = len(last)
        modifiers = last[keep:]
        parts[-1:] = last[:keep]
    if builder.form == "EXP" and parts:
        parts[:1] = split(parts[0], " ")
    return parts, modifiers


def _is_modifier(text: str) -> bool:
    return text in FLAGS or re.match(r"[a-z]\w*:", text) is not None


# ---- the assembler ---------------------------------------------------------------------------------------------------
_LABEL: Final = re.compile(rf"\s*({LABEL})\s*:(?!:)")
_COMMENT: Final = re.compile(r";.*|//.*|#.*")
_SUFFIXES: Final = ("_e32", "_e64", "_sdwa", "_dpp")


def assemble(target: Target, text: str, pc: int = 0) -> bytes:
    """Return the machine code of assembly text that is placed at address `pc`.

    The text has one instruction per line, as `printer.text` writes it. ``name:`` defines a label for branches;
    ``;``, ``//`` and ``#`` begin a comment; ``.long a, b`` emits 32-bit numbers. For a mnemonic without a suffix
    (_e32, _e64, _sdwa, _dpp) the shortest encoding that can hold the operands is chosen. Raise `WireError` with
    the line number of an invalid instruction."""
    lines: list[tuple[int, int, str]] = []
    labels: dict[str, int] = {}
    address = pc
    for number, line in enumerate(text.splitlines(), 1):
        statement = _COMMENT.sub("", line)
        while label := _LABEL.match(statement):
            if label[1] in labels:
                raise WireError(f"label {label[1]} is defined twice").at("line", number, statement.strip())
            labels[label[1]] = address
            statement = statement[label.end() :]
        if statement := statement.strip():
            lines.append((number, address, statement))
            address += len(_placed(target, number, statement, address, None))
    return b"".join(_placed(target, number, statement, at, labels) for number, at, statement in lines)


def is_label(name: str) -> bool:
    """Return True if a name can be a label."""
    return re.fullmatch(LABEL, name) is not None


def _placed(target: Target, number: int, statement: str, pc: int, labels: Mapping[str, int] | None) -> bytes:
    try:
        return assemble_one(target, statement, pc, labels)
    except WireError as error:
        raise error.at("line", number, statement) from None


def assemble_one(target: Target, statement: str, pc: int = 0, labels: Mapping[str, int] | None = None) -> bytes:
    """Return the machine code of one instruction or ``.long``.

    If `labels` is None, every name is accepted as a label whose address is not known yet."""
    name, _, rest = statement.partition(" ")
    if name == ".long":
        return b"".join(_number(part) for part in rest.split(","))
    errors: list[WireError] = []
    for op, form in candidates(target, name):
        try:
            return _attempt(target, op, form, rest, pc, labels)
        except WireError as error:
            errors.append(error)
    if not errors:
        raise WireError(f"{target} has no instruction {name!r}{_hint(target, name)}")
    raise errors[0] if len(errors) == 1 else _best(errors)


def _best(errors: list[WireError]) -> WireError:
    """Return one error that joins the distinct messages of `errors`.

    `errors` are the errors of all encodings that were tried for the same instruction text."""
    messages = list(dict.fromkeys(error.message for error in errors))
    best = WireError("; or ".join(messages))
    if len(wrong := {error.operands for error in errors}) == 1:
        best.operands = wrong.pop()
    return best


def _number(text: str) -> bytes:
    try:
        return (int(text.strip(), 0) & 0xFFFF_FFFF).to_bytes(4, "little")
    except ValueError:
        raise WireError(f"{text.strip()!r} must be a number").in_operand(text.strip()) from None


def candidates(target: Target, name: str) -> Iterator[tuple[Op, str]]:
    """Yield the operations and forms (encodings) that a mnemonic can mean, the shortest first."""
    suffix = next((end for end in _SUFFIXES if name.endswith(end)), "")
    for op in named(target, name.removesuffix(suffix)):
        for form in forms(target, op):
            if not suffix or _suffix(form) == suffix:
                yield op, form


def _hint(target: Target, name: str) -> str:
    """Return an addition to the message about an unknown mnemonic: a processor that has it, or similar mnemonics."""
    other = next((each for each in TARGETS.values() if any(candidates(each, name))), None)
    return close_to(name, mnemonics(target), LEAST_SIMILAR_MNEMONIC) if other is None else f", which {other} has"


def _suffix(form: str) -> str:
    if form.endswith(("_SDWA", "_DPP")):
        return form[4:].lower()
    return "_e64" if form.startswith("VOP3") else "_e32"


_FORMS: Final = {"flat": "FLAT", "global": "FLAT", "scratch": "FLAT", "vop3": "VOP3A", "smem": "SMEM"}


def forms(target: Target, op: Op) -> tuple[str, ...]:
    """Return the forms (encodings) of an operation on `target`, the shortest first."""
    vop3 = "VOP3B" if op.name in VOP3B_NAMES else "VOP3A"
    if op.family == "vop3":
        return (vop3,)
    if op.family == "smem" and target.level == GFX7:
        return ("SMRD",)
    first = _FORMS.get(op.family, op.family.upper())
    made = [first]
    if is_promoted(op):
        made.append(vop3)
    if has_sdwa(op, target):
        made.append(f"{first}_SDWA")
    if has_dpp(op, target):
        made.append(f"{first}_DPP")
    return tuple(made)


def _attempt(target: Target, op: Op, form: str, rest: str, pc: int, labels: Mapping[str, int] | None) -> bytes:
    """Return the machine code of one instruction in encoding `form`; raise `WireError` if `form` cannot hold it.

    The function verifies that the machine code decodes to the instruction in the text."""
    builder = InsnBuilder(target, op, form, pc, labels)
    read(builder, rest)
    code = encode(target, op, form, builder.fields, builder.literal)
    try:
        back = decode(target, code, pc)
    except SoftcardError as error:
        raise WireError(error.message.removeprefix("illegal instruction: ")) from None
    if len(code) != back.size or not _same(back, op, form):
        raise WireError(f"the encoding {form} cannot hold these operands")
    return code


def _same(back: Insn, op: Op, form: str) -> bool:
    return back.op is op and back.form == form
