"""A small player for the recordings in tests/vectors/refsi: the text protocol of their README on a `RefSiDevice`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softcard.core.errors import AccessFault, BeyondModel, RuleError, SoftcardError
from softcard.core.event import Event
from softcard.core.space import Unit
from softcard.device.refsi.commands import BufferStatus
from softcard.device.refsi.device import RefSiDevice
from softcard.device.refsi.events import ConsoleOutput, Diagnostic, HartFault
from softcard.device.refsi.interfaces import EXTERNAL
from softcard.device.refsi.refsidrv.devices import ReferenceCrash
from softcard.device.refsi.registers import MemoryKind
from softcard.image.riscv.program import read_elf

FOLDER = Path(__file__).parents[2] / "vectors" / "refsi"
PRESET = 0xDEAD_DEAD_DEAD_DEAD
SHORT_PRESET = 0xDEAD
BUFFER = 0x4F00_0000
"""Where command buffers go; no recording looks there."""


class Crashed(Exception):
    """The reference's process would have died here."""


@dataclass
class Player:
    """Plays one script; collects what the reference would have printed."""

    engine: str = "reference"
    env: dict[str, str] = field(default_factory=dict)
    stdout: str = ""
    stderr: list[str] = field(default_factory=list)
    statuses: list[BufferStatus] = field(default_factory=list)
    device: RefSiDevice | None = None
    unit: Unit = Unit(EXTERNAL)  # noqa: RUF009 - a frozen record

    def play(self, script: list[str]) -> None:
        for line in script:
            name, *words = line.split(" ")
            getattr(self, f"do_{name}")(*words)

    def say(self, text: str) -> None:
        self.stdout += text + "\n"

    def hear(self, event: Event) -> None:
        match event:
            case ConsoleOutput(data=data):
                self.stdout += data.decode("latin-1")
            case HartFault(text=text) | Diagnostic(text=text):
                self.stderr.append(text)

    @property
    def dev(self) -> RefSiDevice:
        assert self.device is not None
        return self.device

    def do_open(self, family: str) -> None:
        if self.device is None:
            level = int(self.env.get("CA_PROFILE_LEVEL", "0"))
            self.device = RefSiDevice(family, profile="refsidrv", engine=self.engine, profile_level=level)
            self.device.probes.subscribe(self.hear)
        self.say("open ok")

    def do_close(self) -> None:
        self.say("close r=0")
        self.device = None

    def do_query(self) -> None:
        info = self.dev.info
        family = {"m": 1, "g": 2}[info.family]
        self.say(
            f"info r=0 family={family} cores={info.cores} harts={info.harts_per_core} maps={len(info.memory_map)} "
            f"isa={info.isa} vlen={info.vlen} elen={info.elen}"
        )
        for k, entry in enumerate(info.memory_map):
            self.say(f"map[{k}] r=0 kind={entry.kind:d} base={entry.base:#x} size={entry.size:#x}")

    def do_unit(self, kind: str, index: str) -> None:
        self.unit = Unit(int(kind), int(index))

    def do_alloc(self, size: str, alignment: str, kind: str = "1") -> None:
        self.say(f"alloc {self.dev.allocate(int(size, 0), int(alignment, 0), MemoryKind(int(kind))):#x}")

    def write(self, address: int, data: bytes) -> int:
        try:
            self.dev.write(address, data, self.unit)
        except AccessFault:
            return 1
        return 0

    def read(self, address: int, size: int) -> bytes | None:
        try:
            return self.dev.read(address, size, self.unit)
        except AccessFault:
            return None

    def do_w64(self, address: str, *values: str) -> None:
        data = b"".join(int(value, 0).to_bytes(8, "little") for value in values)
        self.say(f"w64 {int(address, 0):#x} r={self.write(int(address, 0), data)}")

    def do_w32(self, address: str, value: str) -> None:
        self.say(f"w32 {int(address, 0):#x} r={self.write(int(address, 0), int(value, 0).to_bytes(4, 'little'))}")

    def do_r64(self, address: str, count: str = "1", preset: int = PRESET) -> None:
        data = self.read(int(address, 0), 8 * int(count, 0))
        shown = data if data is not None else preset.to_bytes(8, "little") * int(count, 0)
        values = " ".join(f"{int.from_bytes(shown[i : i + 8], 'little'):x}" for i in range(0, len(shown), 8))
        self.say(f"r64 {int(address, 0):#x} r={int(data is None)} {values}")

    def do_r64each(self, address: str, count: str) -> None:
        for k in range(int(count, 0)):
            self.do_r64(hex(int(address, 0) + 8 * k), "1", SHORT_PRESET)

    def do_rb(self, address: str, size: str) -> None:
        data = self.read(int(address, 0), int(size, 0))
        self.say(f"rb {int(address, 0):#x} n={int(size, 0)} r={int(data is None)}")

    def do_map(self, address: str, size: str) -> None:
        self.say("map null" if self.dev.view(int(address, 0), int(size, 0)) is None else "map ptr")

    def do_str(self, address: str, *words: str) -> None:
        self.say(f"str r={self.write(int(address, 0), ' '.join(words).encode() + bytes((10, 0)))}")

    def do_fill(self, address: str, size: str, byte: str) -> None:
        self.say(f"fill r={self.write(int(address, 0), bytes([int(byte, 0)]) * int(size, 0))}")

    def do_elf(self, name: str) -> None:
        for segment in read_elf((FOLDER / name).read_bytes()).segments:
            data = segment.data.ljust(segment.memory_size, b"\0")
            self.say(f"load {segment.address:#x}+{segment.memory_size:#x} r={self.write(segment.address, data)}")

    def do_cb(self, *words: str) -> None:
        if self.dev.family == "g":
            self.say("cb r=4")
            return
        data = b"".join(int(word, 0).to_bytes(8, "little") for word in words)
        self.dev.write(BUFFER, data)
        self.dev.submit(BUFFER, len(data))
        self.judge(self.dev.wait())
        self.say("cb r=0")

    def judge(self, statuses: list[BufferStatus]) -> None:
        self.statuses += statuses
        for status in statuses:
            self.check(status.error)

    def check(self, error: SoftcardError | None) -> None:
        if isinstance(error, ReferenceCrash):
            raise Crashed(str(error))
        assert not isinstance(error, BeyondModel), error

    def do_exec(self, entry: str, harts: str) -> None:
        try:
            status = self.dev.execute_kernel(int(entry, 0), int(harts, 0))
        except RuleError:
            self.say("exec r=4")
            return
        self.check(status.error)
        self.say(f"exec r={int(not status.ok)}")


def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text())
    return recording
