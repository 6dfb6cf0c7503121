"""The playback of scripts of RefSi driver calls.

Playback prints what the recorder of the reference driver prints for the same script. Standard output has
exactly the recorder's lines, mixed with the output of kernels. Standard error has the messages of the
reference driver. If the reference driver would crash, playback ends with an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from softcard.cli.exits import ExitCode, UsageError, as_usage
from softcard.cli.files import parse_number, read_file
from softcard.core.diagnostics import Diagnostic as Finding
from softcard.core.diagnostics import Note, of_error
from softcard.core.display import printable
from softcard.core.errors import BeyondModel, GuestFault, ModelBug, RuleError, SoftcardError, WireError, close_to
from softcard.core.event import Event
from softcard.core.findings import Level
from softcard.core.limits import TimeLimit
from softcard.core.lint import OFF
from softcard.core.space import Unit
from softcard.device.refsi.accelerator import StepLimit
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.events import ConsoleOutput, Diagnostic, HartFault
from softcard.device.refsi.interfaces import HOST
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.image.riscv.program import Segment, read_elf

# Result codes of the driver, and its numbers of device families.
SUCCESS, FAILURE, INVALID_DEVICE, NOT_SUPPORTED = 0, 1, 2, 4
FAMILIES: Final = {"m": 1, "g": 2}
BUFFER_ADDRESS: Final = 0x4F00_0000
"""The address at which playback stores command buffers, since recordings do not contain their addresses.

It overlaps neither the data of recordings nor the end of DRAM.
"""
ZERO_FILL_BYTES: Final = 1 << 20
WORD_BYTES: Final = 8
MOST_OF_A_LINE: Final = 5
"""The maximum number of equal findings in one line of a script that are reported."""
PRESET_WORD: Final = 0xDEAD_DEAD_DEAD_DEAD
PRESET_SINGLE_WORD: Final = 0xDEAD
"""The word with which the recorder fills its buffer before it reads a word, so that a failed read is visible."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the devices on which scripts are played.

    With `explain`, each command buffer's result is printed on standard error.
    """

    profile: str = "refsidrv"
    engine: str = "jit"
    profile_level: int = 0
    step_limit: int | None = None
    explain: bool = False
    tier: str = "auto"


class Player:
    """The player of one script of driver calls.

    `folder` contains the files that ``elf`` lines name. `located` returns an error with the script's name. Findings are
    printed on `err`, or, with `on_finding`, given to that function."""

    def __init__(
        self,
        settings: Settings,
        out: BinaryIO,
        err: TextIO,
        folder: Path = Path(),
        located: Callable[[SoftcardError], SoftcardError] = lambda error: error,
        on_finding: Callable[[Finding], None] | None = None,
    ) -> None:
        self._settings = settings
        self._located = located
        self._on_finding = on_finding or self._print_finding
        self._call = Call(0, "")
        self._reported: Counter[object] = Counter()
        self._out = out
        self._err = err
        self._folder = folder
        self._devices: dict[str, RefSiDevice] = {}
        self._device: RefSiDevice | None = None
        self._unit = HOST
        self._broken = False
        self._calls: dict[str, Callable[[Call], None]] = {
            "open": self._open,
            "query": self._query,
            "unit": self._set_unit,
            "alloc": self._alloc,
            "w64": self._w64,
            "w32": self._w32,
            "r64": self._r64,
            "r64each": self._r64each,
            "rb": self._rb,
            "map": self._map,
            "str": self._str,
            "fill": self._fill,
            "elf": self._elf,
            "cb": self._cb,
            "exec": self._exec,
            "close": self._close,
        }

    def play(self, lines: Iterable[str]) -> ExitCode:
        """Perform every line and return the exit status.

        Raise a `UsageError` with the line number for an invalid line.
        """
        for call in read_script(lines):
            self._call = call
            try:
                self._calls[call.verb](call)
            except ReferenceCrash as crash:
                self._report(crash, "the reference driver crashes here")
                return ExitCode.GUEST
            except (StepLimit, TimeLimit) as limit:
                self._report(limit, "this call does not return")
                return ExitCode.GUEST
            except SoftcardError as error:
                raise error.at("line", call.line, call.verb) from None
            finally:
                self._out.flush()
        return ExitCode.GUEST if self._broken else ExitCode.OK

    # ---- the calls -----------------------------------------------------------------------------------------------

    def _open(self, call: Call) -> None:
        device = self._devices.get(call.text)
        if device is None:
            settings = self._settings
            device = RefSiDevice(
                call.text,
                profile=settings.profile,
                engine=settings.engine,
                tier=settings.tier,
                lints=OFF,
                profile_level=settings.profile_level,
                step_limit=settings.step_limit,
            )
            device.probes.subscribe(self._event)
            self._devices[call.text] = device
        self._device = device
        self._print("open ok")

    def _query(self, call: Call) -> None:
        device = self._device
        if device is None:
            self._print(f"info r={INVALID_DEVICE}")
            return
        info = device.info
        self._print(
            f"info r={SUCCESS} family={FAMILIES[info.family]} cores={info.cores} harts={info.harts_per_core} "
            f"maps={len(info.memory_map)} isa={info.isa} vlen={info.vlen} elen={info.elen}"
        )
        for index, entry in enumerate(info.memory_map):
            place = f"base={entry.base:#x} size={entry.size:#x}"
            self._print(f"map[{index}] r={SUCCESS} kind={int(entry.kind)} {place}")

    def _set_unit(self, call: Call) -> None:
        self._unit = Unit(*call.numbers)

    def _alloc(self, call: Call) -> None:
        device = self._device
        self._print(f"alloc {device.allocate(*call.numbers) if device else 0:#x}")

    def _w64(self, call: Call) -> None:
        address, *words = call.numbers
        result = self._write(address, b"".join(word.to_bytes(WORD_BYTES, "little") for word in words))
        self._print(f"w64 {address:#x} r={result}")

    def _w32(self, call: Call) -> None:
        address, word = call.numbers
        self._print(f"w32 {address:#x} r={self._write(address, word.to_bytes(4, 'little'))}")

    def _r64(self, call: Call) -> None:
        address, count = call.numbers
        self._show(address, count, PRESET_WORD)

    def _r64each(self, call: Call) -> None:
        address, count = call.numbers
        for index in range(count):
            self._show(address + index * WORD_BYTES & (1 << 64) - 1, 1, PRESET_SINGLE_WORD)

    def _show(self, address: int, count: int, preset: int) -> None:
        result, data = self._read(address, count * WORD_BYTES)
        data = data or preset.to_bytes(WORD_BYTES, "little") * count
        words = (int.from_bytes(data[at : at + WORD_BYTES], "little") for at in range(0, len(data), WORD_BYTES))
        self._print(" ".join([f"r64 {address:#x} r={result}", *(f"{word:x}" for word in words)]))

    def _rb(self, call: Call) -> None:
        address, count = call.numbers
        result, _ = self._read(address, count)
        self._print(f"rb {address:#x} n={count} r={result}")

    def _map(self, call: Call) -> None:
        view = None if self._device is None else self._device.view(*call.numbers)
        self._print("map null" if view is None else "map ptr")

    def _str(self, call: Call) -> None:
        text = call.text.encode("utf-8", "surrogateescape") + b"\n\0"
        self._print(f"str r={self._write(call.numbers[0], text)}")

    def _fill(self, call: Call) -> None:
        address, size, byte = call.numbers
        self._print(f"fill r={self._write(address, bytes([byte]) * size)}")

    def _elf(self, call: Call) -> None:
        path = (self._folder / call.text).absolute()  # a script's "-" is a file of that name
        try:
            data = read_file(path, shown=call.text)
        except UsageError as error:
            raise error.in_operand(call.text) from None
        for segment in read_elf(data).segments:
            result = self._load(segment)
            self._print(f"load {segment.address:#x}+{segment.memory_size:#x} r={result}")

    def _load(self, segment: Segment) -> int:
        result = self._write(segment.address, segment.data)
        for offset in range(len(segment.data), segment.memory_size, ZERO_FILL_BYTES):
            if result == SUCCESS:
                zeros = bytes(min(ZERO_FILL_BYTES, segment.memory_size - offset))
                result = self._write(segment.address + offset, zeros)
        return result

    def _cb(self, call: Call) -> None:
        data = b"".join(word.to_bytes(WORD_BYTES, "little") for word in call.numbers)
        device = self._device
        if device is None:
            self._print(f"cb r={INVALID_DEVICE}")
            return
        if device.family == "g":
            self._print(f"cb r={NOT_SUPPORTED}")
            return
        self._write(BUFFER_ADDRESS, data, HOST)
        device.submit(BUFFER_ADDRESS, len(data))
        for status in device.wait():
            self._buffer_ended(status.error, str(status))
        self._print(f"cb r={SUCCESS}")

    def _buffer_ended(self, error: SoftcardError | None, text: str) -> None:
        in_spec = self._settings.profile != "refsidrv"
        if isinstance(error, ReferenceCrash | BeyondModel | ModelBug) or (
            isinstance(error, StepLimit | TimeLimit) and not in_spec
        ):
            raise error
        self._broken |= in_spec and error is not None
        if error is None:
            if self._settings.explain:
                self._say(text)
        elif in_spec or self._settings.explain:
            self._report(error, level=Level.ERROR if in_spec else Level.WARNING)

    def _exec(self, call: Call) -> None:
        device = self._device
        if device is None:
            self._print(f"exec r={INVALID_DEVICE}")
            return
        if device.family != "g":
            self._print(f"exec r={NOT_SUPPORTED}")
            return
        status = device.execute_kernel(*call.numbers)
        self._buffer_ended(status.error, f"kernel at {status.entry:#x}: {status.steps} instructions")
        self._print(f"exec r={SUCCESS if status.ok else FAILURE}")

    def _close(self, call: Call) -> None:
        device = self._device
        if device is None:
            self._print(f"close r={INVALID_DEVICE}")
            return
        self._devices = {family: open_ for family, open_ in self._devices.items() if open_ is not device}
        self._device = None
        self._print(f"close r={SUCCESS}")

    # ---- helpers -------------------------------------------------------------------------------------------------

    def _read(self, address: int, size: int) -> tuple[int, bytes]:
        if self._device is None:
            return INVALID_DEVICE, b""
        try:
            return SUCCESS, self._device.read(address, size, self._unit)
        except (GuestFault, RuleError) as error:
            self._refused(error)
            return FAILURE, b""

    def _write(self, address: int, data: bytes, unit: Unit | None = None) -> int:
        if self._device is None:
            return INVALID_DEVICE
        try:
            self._device.write(address, data, unit or self._unit)
        except (GuestFault, RuleError) as error:
            self._refused(error)
            return FAILURE
        return SUCCESS

    def _refused(self, error: SoftcardError) -> None:
        if isinstance(error, ReferenceCrash):
            raise error
        if self._settings.explain:
            self._report(error, "the device refuses this access", Level.NOTE)

    def _event(self, event: Event) -> None:
        match event:
            case ConsoleOutput():
                self._out.write(event.data)
            case HartFault() | Diagnostic():
                self._say(event.text)

    def _print(self, line: str) -> None:
        self._out.write(printable(line).encode() + b"\n")

    def _report(self, error: SoftcardError, head: str = "", level: Level = Level.ERROR) -> None:
        """Report an error of the current call at its line, unless `MOST_OF_A_LINE` equal ones were reported there."""
        key = self._call.line, head, error.rule
        self._reported[key] += 1
        if self._reported[key] > MOST_OF_A_LINE:
            return
        found = of_error(self._located(error.at("line", self._call.line, self._call.verb)))
        more = (Note("further ones of this line are not shown"),) if self._reported[key] == MOST_OF_A_LINE else ()
        message = f"{head}: {found.message}" if head else found.message
        self._on_finding(replace(found, level=level, message=message, notes=(*found.notes, *more)))

    def _print_finding(self, found: Finding) -> None:
        from softcard.cli.tables import show_diagnostics

        self._out.flush()
        show_diagnostics([found], self._err)
        self._err.flush()

    def _say(self, line: str) -> None:
        self._out.flush()
        print(line, file=self._err, flush=True)


# ---- the text of scripts ---------------------------------------------------------------------------------------------

MAX_WORDS: Final = 1 << 20
"""The maximum number of words that one line may read and print."""
MAX_FILL_BYTES: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Call:
    """A line of a script: its number, its verb, and its operands, with defaults for missing ones."""

    line: int
    verb: str
    numbers: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Form:
    """The operands of a verb in a script. `bits` has the size of each number.

    `defaults` has the values of the last numbers if they are omitted. `more` is True if any number of further
    words may follow, and `text` is True if text follows."""

    usage: str
    bits: tuple[int, ...] = ()
    defaults: tuple[int, ...] = ()
    more: bool = False
    text: bool = False
    check: Callable[[Call], str] = lambda call: ""


def _family(call: Call) -> str:
    return "" if call.text in ("m", "g") else f"unknown device family {call.text!r}, expected m or g"


def _at_most(limit: int) -> Callable[[Call], str]:
    def check(call: Call) -> str:
        return f"expected at most {limit:#x}, got {call.numbers[1]:#x}" if call.numbers[1] > limit else ""

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
    """Yield the calls of a script as its lines arrive.

    Raise a `UsageError` with the line number for an invalid line.
    """
    for number, line in enumerate(lines, 1):
        try:
            call = _read(number, line.rstrip("\r\n"))
        except WireError as error:
            raise as_usage(error).at("line", number, line.strip().partition(" ")[0]) from None
        if call is not None:
            yield call


def _read(number: int, line: str) -> Call | None:
    verb, _, rest = line.strip().partition(" ")
    if not verb or verb.startswith("#"):
        return None
    form = FORMS.get(verb)
    if form is None:
        raise WireError(f"unknown call {verb!r}, expected one of {', '.join(FORMS)}{close_to(verb, FORMS)}")
    call = Call(number, verb, *_operands(form, rest))
    if wrong := form.check(call):
        raise WireError(f"{verb}: {wrong}").in_operand(rest.split()[-1] if rest.split() else verb)
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
