"""The text protocol of recordings: one line is one call of the driver.

Numbers are decimal or 0x hex. Empty lines and lines that start with # are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from understudy.cli.buffers import parse_number
from understudy.cli.exits import UsageError
from understudy.core.errors import WireError

MAX_WORDS: Final = 1 << 20
"""Most words or bytes that one line may ask to be read and printed."""
MAX_FILL_BYTES: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Call:
    """One line: its number, the verb, and its operands in order. Optional operands have their default."""

    line: int
    verb: str
    numbers: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Form:
    """What a verb takes: bits of each number, defaults of the last ones, whether more words or a text follow."""

    usage: str
    bits: tuple[int, ...] = ()
    defaults: tuple[int, ...] = ()
    more: bool = False
    text: bool = False
    check: Callable[[Call], str] = lambda call: ""


def _family(call: Call) -> str:
    return "" if call.text in ("m", "g") else f"there is no device family {call.text!r}, expected m or g"


def _at_most(limit: int) -> Callable[[Call], str]:
    def check(call: Call) -> str:
        return f"at most {limit:#x} at once, not {call.numbers[1]:#x}" if call.numbers[1] > limit else ""

    return check


FORMS: Final[dict[str, _Form]] = {
    "open": _Form("open m|g", text=True, check=_family),
    "query": _Form("query"),
    "unit": _Form("unit KIND INDEX", (8, 16)),
    "alloc": _Form("alloc SIZE ALIGN [KIND]", (64, 64, 32), (1,)),
    "w64": _Form("w64 ADDR V...", (64, 64), more=True),
    "w32": _Form("w32 ADDR V", (64, 32)),
    "r64": _Form("r64 ADDR [N]", (64, 64), (1,), check=_at_most(MAX_WORDS)),
    "r64each": _Form("r64each ADDR N", (64, 64), check=_at_most(MAX_WORDS)),
    "rb": _Form("rb ADDR N", (64, 64), check=_at_most(MAX_FILL_BYTES)),
    "map": _Form("map ADDR SIZE", (64, 64)),
    "str": _Form("str ADDR TEXT", (64,), text=True),
    "fill": _Form("fill ADDR SIZE BYTE", (64, 64, 8), check=_at_most(MAX_FILL_BYTES)),
    "elf": _Form("elf FILE", text=True),
    "cb": _Form("cb W...", more=True),
    "exec": _Form("exec ENTRY HARTS", (64, 32)),
    "close": _Form("close"),
}


def read_script(lines: Iterable[str]) -> Iterator[Call]:
    """The calls of a script, one by one as its lines come; `UsageError` with the line number where one is no call."""
    for number, line in enumerate(lines, 1):
        try:
            call = _read(number, line.rstrip("\r\n"))
        except WireError as error:
            raise UsageError(error.message, path=error.path).at("line", number) from None
        if call is not None:
            yield call


def _read(number: int, line: str) -> Call | None:
    verb, _, rest = line.strip().partition(" ")
    if not verb or verb.startswith("#"):
        return None
    form = FORMS.get(verb)
    if form is None:
        raise WireError(f"there is no call {verb!r}, expected one of {', '.join(FORMS)}")
    call = Call(number, verb, *_operands(form, rest))
    if wrong := form.check(call):
        raise WireError(f"{verb}: {wrong}")
    return call


def _operands(form: _Form, rest: str) -> tuple[tuple[int, ...], str]:
    text = ""
    if form.text:
        tokens = rest.split(None, len(form.bits))
        text = tokens.pop().strip() if len(tokens) > len(form.bits) else ""
        if not text and len(tokens) == len(form.bits) and form.bits:
            text = ""  # `str ADDR` alone writes an empty line
        elif not text:
            raise WireError(f"an operand is missing, expected {form.usage}")
    else:
        tokens = rest.split()
    missing = len(form.bits) - len(tokens)
    if missing > len(form.defaults):
        raise WireError(f"an operand is missing, expected {form.usage}")
    if missing < 0 and not form.more:
        raise WireError(f"too many operands, expected {form.usage}")
    widths = (*form.bits, *[64] * -missing)
    numbers = tuple(parse_number(token, bits) for token, bits in zip(tokens, widths, strict=False))
    return numbers + (form.defaults[len(form.defaults) - missing :] if missing > 0 else ()), text
