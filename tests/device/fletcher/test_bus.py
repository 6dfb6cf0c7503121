"""The register file of the generated hardware: recordings of the simulated VHDL, and what they show one by one."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from softcard.core.errors import WireError
from softcard.device.fletcher.bus import FieldStore, HardwareBus, Reply, Response
from softcard.device.fletcher.map.layout import FletcherMap
from softcard.report.fletcher import to_vhdmmio
from tests.device.fletcher.rig import REGS, VECTORS, vector_map

ROOT = Path(__file__).parents[3]

ODD = ("c:1:bit", "s:33:wide", "c:8:byte", "c:128:big", "c:32:ini")
DESIGNS: dict[str, tuple[str, dict[str, Any]]] = {
    "regs": ("regs", {"custom": REGS}),
    "regs_odd": ("regs", {"custom": ODD}),
    "prim_off": ("prim", {"offset": 64}),
    "profile": ("profile", {}),
    "multi": ("multi", {}),
    "utf8": ("utf8", {}),
    "prim64": ("prim", {"bus_width": 64}),
}

every_design = pytest.mark.parametrize("name", DESIGNS)


def design(name: str) -> FletcherMap:
    schema, options = DESIGNS[name]
    return vector_map(schema, **options)


class File:
    """A register file alone."""

    def __init__(self, layout: FletcherMap) -> None:
        self.map = layout
        self.store = FieldStore(layout)
        self.bus = HardwareBus(layout, self.store)

    def controls(self) -> list[int]:
        return [self.store.named(field.name) for field in self.map.fields if field.behaviour == "control"]


def numbers(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def replay(file: File, recording: Path) -> int:
    """Perform the accesses of a recording and compare all answers; gives their number."""
    strobes = [field.name for field in file.map.fields if field.behaviour == "strobe"]
    count = 0
    for number, line in enumerate(recording.read_text().splitlines(), 1):
        access, _, answer = line.partition(" => ")
        where = f"{recording.name}:{number}: {line}"
        match access.split():
            case ["p", name, value]:
                file.store.drive(name, int(value, 16))
            case ["r", address]:
                value, response = file.bus.read(int(address, 16))
                assert [response, value] == numbers(answer), where
                count += 1
            case ["w", *words]:
                written = file.bus.write(*numbers(" ".join(words)))
                response, pulses, controls = answer.split()
                assert written.response == int(response, 16), where
                assert sum(1 << strobes.index(name) for name in written.pulses) == int(pulses, 16), where
                assert file.controls() == numbers(controls.replace(",", " ")), where
                count += 1
    return count


def recorder() -> Any:
    """tools/fletcher_bus.py as a module; skips where what it needs is not there."""
    if shutil.which("ghdl") is None or importlib.util.find_spec("vhdmmio") is None:
        pytest.skip("needs ghdl and the Python package vhdmmio 0.0.3 to simulate generated hardware")
    spec = importlib.util.spec_from_file_location("fletcher_bus", ROOT / "tools" / "fletcher_bus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fletcher_bus"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@every_design
def test_fresh_simulations_answer_the_same(name: str, tmp_path: Path) -> None:
    """Other accesses than the recorded ones, of the description that our own map gives."""
    layout = design(name)
    description, recording = tmp_path / "mmio.mmio.yaml", tmp_path / "recording"
    description.write_text(to_vhdmmio(layout))
    recording.write_text("\n".join(recorder().record(description, 1000, seed=7)))
    assert replay(File(layout), recording) > 700


@every_design
def test_the_simulated_hardware_answers_the_same(name: str) -> None:
    assert replay(File(design(name)), VECTORS / "bus" / f"{name}.txt") > 500


@pytest.fixture
def regs() -> File:
    return File(design("regs"))


OKAY = Response.OKAY
CAT, DOG, FISH, FIRST, LAST, VALUES, ENABLE, CLEAR = 32, 36, 44, 16, 20, 24, 48, 52


def test_strobes_store_nothing(regs: File) -> None:
    assert regs.bus.write(0, 0b101).pulses == ("start", "reset")
    assert regs.bus.write(0, 0).pulses == ()
    assert regs.controls() == [0] * 5


def test_a_wide_register_commits_with_its_high_word(regs: File) -> None:
    regs.bus.write(VALUES, 0x1111)
    assert regs.store.value64(VALUES) == 0
    assert regs.bus.read(VALUES) == (0, OKAY)
    regs.bus.write(VALUES + 4, 0x2222)
    assert regs.store.value64(VALUES) == 0x2222_0000_1111


def test_a_lone_high_word_keeps_the_low_one_but_for_what_is_left_in_the_holding_register(regs: File) -> None:
    regs.bus.write(VALUES, 0x10)
    regs.bus.write(VALUES + 4, 0)
    regs.bus.write(FIRST, 0x3)
    regs.bus.write(VALUES + 4, 0x1)
    assert regs.store.value64(VALUES) == 0x1_0000_0013


def test_low_words_are_taken_by_whatever_register_commits_next() -> None:
    file = File(design("utf8"))
    first, second = (slot.address for slot in file.map.buffers[:2])
    file.bus.write(first, 0xAAAA)
    file.bus.write(second + 4, 0x1)
    assert (file.store.value64(first), file.store.value64(second)) == (0, 0x1_0000_AAAA)


def test_byte_strobes_choose_bytes(regs: File) -> None:
    regs.bus.write(FIRST, 0x11223344)
    regs.bus.write(FIRST, 0xFFFFFFFF, 0b0101)
    assert regs.bus.read(FIRST) == (0x11FF33FF, OKAY)


def test_the_low_word_latches_and_the_high_word_answers_from_the_latch(regs: File) -> None:
    regs.store.drive("result", 0x1_0000_0002)
    assert regs.bus.read(8) == (2, OKAY)
    regs.store.drive("result", 0x7_0000_0008)
    assert regs.bus.read(12) == (1, OKAY)


def test_a_high_word_that_is_not_latched_is_a_slave_error_with_the_last_word_of_the_bus(regs: File) -> None:
    regs.bus.write(FIRST, 0x55)
    regs.bus.read(FIRST)
    assert regs.bus.read(12) == Reply(0x55, Response.SLVERR)
    regs.bus.read(8)
    regs.bus.read(12)
    assert regs.bus.read(12).response is Response.SLVERR


def test_a_high_word_answers_with_another_registers_latch(regs: File) -> None:
    regs.store.drive("result", 0xAAAA_0000_0000)
    regs.store.drive("dog", 0xBBBB_0000_0000)
    regs.bus.read(8)
    assert regs.bus.read(DOG + 4) == (0xAAAA, OKAY)


def test_a_narrow_read_ends_the_latch(regs: File) -> None:
    regs.bus.read(8)
    regs.bus.read(FIRST)
    assert regs.bus.read(12).response is Response.SLVERR


def test_narrow_registers_drop_what_does_not_fit(regs: File) -> None:
    regs.bus.write(CAT, 0xDEADBEEF)
    assert regs.bus.read(CAT) == (0xBEEF, OKAY)


def test_reads_of_nothing_answer_with_the_last_readable_register(regs: File) -> None:
    regs.bus.write(ENABLE, 1)
    for address in (0, CLEAR, 56, 60):
        assert regs.bus.read(address) == (1, OKAY)


def test_writes_to_nothing_clear_the_profile_where_bit_0_is_set(regs: File) -> None:
    for address in (4, 8, DOG, FISH, 56):
        assert regs.bus.write(address, 1).pulses == ("Profile_clear",)
        assert regs.bus.write(address, 2).pulses == ()


def test_addresses_above_the_map_are_aliases(regs: File) -> None:
    assert regs.bus.write(64, 1).pulses == ("start",)
    regs.bus.write(FIRST, 0x77)
    assert regs.bus.read(80) == (0x77, OKAY)
    assert regs.bus.read(80 + (1 << 31)) == (0x77, OKAY)


def test_reads_and_writes_alias_differently_where_counters_lie_behind(regs: File) -> None:
    file = File(design("profile"))
    assert file.bus.write(64, 1).pulses == ("start",), "writes decode 64 bytes"
    assert file.bus.read_word(64).address == 64, "reads decode 256"


def test_the_map_may_begin_elsewhere() -> None:
    file = File(design("prim_off"))
    assert file.bus.write(64, 1).pulses == ("start",)
    assert file.bus.write(0, 1).pulses == ("start",), "the offset's bit is not decoded"


def test_low_address_bits_do_not_matter(regs: File) -> None:
    regs.bus.write(FIRST + 3, 9)
    assert regs.bus.read(FIRST + 1) == (9, OKAY)


def test_registers_share_words_of_a_bus_of_64_bits() -> None:
    file = File(design("prim64"))
    file.store.drive("busy", 1)
    assert file.bus.read(0) == file.bus.read(4) == (1 << 33, OKAY)
    file.bus.write(16, 0x2_0000_0001)
    assert (file.store.value(16), file.store.value(20)) == (1, 2)
    file.bus.write(24, 0xABCD_0000_1234)
    assert file.store.value64(24) == 0xABCD_0000_1234, "no holding register"


def test_reset_clears_control_registers_and_what_is_held(regs: File) -> None:
    regs.bus.write(FIRST, 5)
    regs.bus.write(VALUES, 7)
    regs.bus.read(8)
    regs.bus.reset()
    assert regs.controls() == [0] * 5
    assert regs.bus.read(12).response is Response.SLVERR
    regs.bus.write(VALUES + 4, 1)
    assert regs.store.value64(VALUES) == 1 << 32


def test_state_goes_back(regs: File) -> None:
    regs.store.drive("result", 5 << 32)
    regs.bus.read(8)
    regs.bus.write(VALUES, 9)
    state = regs.bus.snapshot()
    regs.bus.read(FIRST)
    regs.bus.write(VALUES + 4, 1)
    regs.bus.restore(state)
    assert regs.bus.read(12) == (5, OKAY)
    regs.bus.write(VALUES + 4, 1)
    assert regs.store.value64(VALUES) == 0x1_0000_0009


def test_fields_have_names(regs: File) -> None:
    assert regs.bus.read_word(4).name == "status"
    assert regs.bus.read_word(8).name == "return0"
    assert regs.bus.read_word(12).name == "return1"
    assert regs.bus.write_word(VALUES).name == "R_number_values (low)"
    assert regs.bus.write_word(VALUES + 4).name == "R_number_values (high)"
    assert File(design("regs_odd")).bus.write_word(56).name == "big (word 2)"
    with pytest.raises(WireError, match="the register map has no field bird"):
        regs.store.named("bird")
