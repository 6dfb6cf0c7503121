"""Scripts of driver calls that went wrong, played as the command line plays them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from softcard.cli.exits import ExitCode, exit_code, report
from softcard.cli.recordings import FORMS, Player, Settings
from softcard.core.errors import SoftcardError
from tests.device.refsi.recordings import FOLDER
from tests.hostile.generate import address, broken, recorded_buffers, recorded_scripts, size, word

STEP_LIMIT: Final = 300
MAX_ARGUMENT: Final = 1 << 16
"""Larger sizes of reads and fills are legal, but slow."""
MAX_LINES: Final = 40

KERNELS: Final = ("elf", "exec")
"""Verbs after which kernels may run that print what they like."""
LINE: Final = re.compile(
    rb"open ok"
    rb"|info r=\d( family=\d+ cores=\d+ harts=\d+ maps=\d+ isa=\w+ vlen=\d+ elen=\d+)?"
    rb"|map\[\d+\] r=\d kind=\d base=0x[0-9a-f]+ size=0x[0-9a-f]+"
    rb"|alloc 0x[0-9a-f]+"
    rb"|w(64|32) 0x[0-9a-f]+ r=\d"
    rb"|r64 0x[0-9a-f]+ r=\d( [0-9a-f]+)*"
    rb"|rb 0x[0-9a-f]+ n=\d+ r=\d"
    rb"|map (ptr|null)"
    rb"|(str|fill|cb|exec|close) r=\d"
    rb"|load 0x[0-9a-f]+\+0x[0-9a-f]+ r=\d"
)
"""What standard output may hold, besides what kernels print."""


@dataclass(frozen=True, slots=True)
class Played:
    """How a script ended, and what it printed."""

    code: int
    out: bytes
    err: str


def play(lines: Sequence[str], settings: Settings, folder: Path = FOLDER) -> Played:
    """Play a script as the command does, with errors turned into an exit status at the end as there."""
    out, err = io.BytesIO(), io.StringIO()
    source = io.BytesIO("\n".join(lines).encode("utf-8", "surrogateescape"))
    player = Player(settings, out, err, folder)
    with redirect_stderr(err):
        try:
            code = int(player.play(line.decode("utf-8", "surrogateescape") for line in source))
        except SoftcardError as error:
            report(error)
            code = int(exit_code(error))
    return Played(code, out.getvalue(), err.getvalue())


def check_script(lines: Sequence[str], settings: Settings, folder: Path = FOLDER) -> Played:
    """Play a script; nothing but the documented exit statuses and lines may come out."""
    played = play(lines, settings, folder)
    assert played.code in (ExitCode.OK, ExitCode.GUEST, ExitCode.USAGE, ExitCode.BEYOND), played
    assert "Traceback" not in played.err
    if played.code != ExitCode.OK:
        assert played.err.endswith("\n"), "an exit status without a word"
    assert not played.out or played.out.endswith(b"\n"), played.out[-100:]
    if not any(line.startswith(KERNELS) for line in lines):
        for line in played.out.splitlines():
            assert LINE.fullmatch(line), line
    return played


def settings(random: Random) -> Settings:
    """Any way to open devices, with a step limit."""
    return Settings(
        random.choice(("spec", "refsidrv")),
        random.choice(("jit", "reference")),
        random.choice((0, 0, 0, 3)),
        STEP_LIMIT,
        explain=random.random() < 0.5,
    )


# ---- making scripts --------------------------------------------------------------------------------------------------


def mutated(random: Random) -> list[str]:
    """The script of a recording with a few mistakes."""
    lines = list(random.choice(recorded_scripts()))
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        if not lines:
            return [invented(random)]
        at = random.randrange(len(lines))
        match random.randrange(9):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, random.choice(lines))
            case 2:
                other = random.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
            case 4:
                lines.insert(at, invented(random))
            case 5:
                lines = lines[: at + 1] + list(random.choice(recorded_scripts()))[1:]
            case _:
                lines[at] = renumbered(random, lines[at])
    return lines[:MAX_LINES]


def renumbered(random: Random, line: str) -> str:
    """The line with some of its numbers changed."""
    verb, *tokens = line.split(" ")
    if not tokens:
        return line
    if verb == "cb":
        given = [int(token, 0) for token in tokens if re.fullmatch(r"(0x)?[0-9a-f]+", token)]
        return " ".join(["cb", *map(hex, broken(random, given))])
    place = random.randrange(len(tokens))
    tokens[place] = number(random, word)
    return " ".join([verb, *tokens])


def number(random: Random, kind: object) -> str:
    """A number as scripts write it, or something that nearly is one."""
    if random.random() < 0.04:
        return random.choice(("", "-1", "0x", "1e9", "0x1" + "0" * 16, "abc", "٣", "\udcff", "9" * 5000, "1_0", "+5"))
    value = kind(random) if callable(kind) else 0
    return random.choice((hex, str))(value)


def invented(random: Random) -> str:
    """A call of any verb with operands that fit its form, or do not."""
    if random.random() < 0.05:
        return random.choice(
            (
                "",
                "#",
                "nonsense 1 2",
                "\0",
                "w64\t1 2",
                " query",
                "OPEN m",
                "open x",
                "elf",
                "elf missing",
                "elf ..",
                "elf \0",
                "str",
            )
        )
    verb = random.choice(list(FORMS))
    if verb == "open":
        return f"open {random.choice('mg')}"
    if verb == "elf":
        return random.choice(("elf kernels.elf", "elf README.md", "elf bare.S"))
    if verb == "cb":
        return " ".join(["cb", *map(hex, broken(random, list(random.choice(recorded_buffers()))))])
    if verb == "str":
        return f"str {number(random, address)} some text"
    if verb == "unit":
        return f"unit {random.randrange(6)} {random.choice((0, 1, 3, 4, 255, 65535, 65536))}"
    operands = [number(random, address)]
    if verb in ("w64", "w32"):
        operands += [number(random, word) for _ in range(random.randrange(4))]
    elif verb in ("alloc",):
        operands = [
            number(random, size),
            random.choice(("1", "4096", "0", "3", number(random, word))),
            random.choice("0123"),
        ]
    elif verb in ("query", "close"):
        operands = []
    elif verb == "exec":
        operands.append(str(random.choice((0, 1, 2, 64, 65, 1 << 31))))
    else:
        operands += [number(random, small)] + (["7"] if verb == "fill" else [])
    return " ".join([verb, *operands])


def small(random: Random) -> int:
    """A size that is quickly read or refused."""
    found = size(random)
    return found if found > 1 << 30 else min(found, MAX_ARGUMENT)
