"""Lints: what works on paper or by luck, told in the words of the hardware."""

from __future__ import annotations

from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.events import Lint
from softcard.device.fletcher.kernel import Kernel
from softcard.device.fletcher.lints import CHECKS
from tests.device.fletcher.rig import REGS, START, Rig, add_up, vector_map

nothing = Kernel("Nothing", lambda job: None)


class Watched:
    """A device and the lints it tells."""

    def __init__(self, name: str = "utf8", **options: str) -> None:
        self.device = FletcherDevice(vector_map(name, custom=REGS if name == "regs" else ()), nothing, **options)
        self.lints: list[Lint] = []
        self.device.probes.subscribe(lambda event: self.lints.append(event) if isinstance(event, Lint) else None)

    @property
    def checks(self) -> list[str]:
        return [lint.check for lint in self.lints]


def hardware(name: str = "utf8") -> Watched:
    return Watched(name, profile="hardware")


def test_a_correct_host_hears_nothing() -> None:
    for profile in ("spec", "hardware"):
        rig = Rig(profile=profile)
        rig.control(START)
        assert rig.status == 5
        assert rig.result == 10
        rig.control(4)
        assert rig.lints == []


def test_a_stray_read_is_reported() -> None:
    watched = hardware("regs")
    watched.device.read(60)
    assert str(watched.lints[0]) == (
        "stray-read: read of 0x3c, which has no readable register: the hardware returns Profile_enable "
        "[fletcher/derived-registers: MMIO]"
    )


def test_an_alias_is_reported() -> None:
    watched = hardware("regs")
    watched.device.write(64, 1)
    assert watched.checks == ["stray-write"]
    assert "write to 0x40, which has no writable register: the hardware writes control" in str(watched.lints[0])


def test_an_unlatched_word_is_reported() -> None:
    watched = hardware()
    watched.device.read(12)
    assert watched.checks == ["unlatched-word"]
    assert "read of return1 returns SLVERR: read the first word of the register before" in str(watched.lints[0])


def test_a_foreign_latch_is_reported() -> None:
    watched = hardware()
    watched.device.read(8)
    watched.device.read(watched.device.map.buffers[0].address + 4)
    assert watched.checks == ["mixed-register-read"]
    assert (
        watched.lints[0].message
        == "read of Str_s_offsets (high) returns a word of return0: read the first word of the register before"
    )


def test_words_of_another_register_are_reported() -> None:
    watched = hardware()
    first, second = (slot.address for slot in watched.device.map.buffers[:2])
    watched.device.write(first, 1)
    watched.device.write(second + 4, 1)
    assert watched.checks == ["mixed-register-write"]
    assert "takes word 0 from an earlier write of" in watched.lints[0].message


def test_a_lone_high_word_is_reported() -> None:
    watched = hardware()
    first = watched.device.map.buffers[0].address
    watched.device.write(first, 1)
    watched.device.write(first + 4, 1)
    assert watched.checks == []
    watched.device.write(first + 4, 2)
    assert watched.checks == ["mixed-register-write"]


def test_an_unfinished_write_is_reported_at_the_start() -> None:
    watched = hardware()
    watched.device.write(watched.device.map.buffers[0].address, 1)
    watched.device.write(watched.device.map.control, START)
    assert watched.checks == ["unfinished-write"]


def test_paper_and_hardware_differ_where_halves_are_read_the_wrong_way_around() -> None:
    rig = Rig()
    rig.control(START)
    rig.status  # noqa: B018  # a read
    rig.device.read(12)
    assert rig.lints == ["hardware-differs"]
    assert "read of return1 would return SLVERR on the hardware" in str(rig.named(Lint)[0])


def test_paper_and_hardware_differ_in_a_value() -> None:
    watched = Watched()
    first, second = (slot.address for slot in watched.device.map.buffers[:2])
    for address, value in ((first, 1), (first + 4, 1), (second, 2), (second + 4, 2)):
        watched.device.write(address, value)
    watched.device.read(first)
    watched.device.read(second + 4)
    assert watched.checks == ["hardware-differs"]
    assert "(high) returns 0x2, but would return 0x1 on the hardware" in watched.lints[0].message


def test_paper_and_hardware_differ_at_the_start_where_halves_are_written_the_wrong_way_around() -> None:
    rig = Rig()
    values = rig.map.batches[0].buffers[0]
    rig.device.write(values.address + 4, 0x1)
    rig.device.write(values.address, 0x1000)
    rig.control(START)
    assert rig.lints == ["hardware-differs"]
    assert "start with ExampleBatch_number_values = 0x100001000, but it would be 0x10000" in str(rig.named(Lint)[0])


def test_an_ignored_start_is_reported() -> None:
    rig = Rig(pacing=0)
    rig.control(START)
    rig.control(START)
    rig.device.step()
    rig.control(START)
    messages = [event.message for event in rig.named(Lint)]  # type: ignore[attr-defined]
    assert messages == [
        "start while the kernel is busy: nothing happens, expected a start after the kernel is done",
        "start while the kernel is done: nothing happens, expected a reset first",
    ]


def test_every_check_has_a_sentence() -> None:
    assert all(text and not text.endswith(".") for text in CHECKS.values())
    assert add_up.schemas
