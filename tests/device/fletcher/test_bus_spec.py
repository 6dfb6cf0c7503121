"""The document's registers: what they do, and a refusal for every access that the document does not allow."""

from __future__ import annotations

import pytest

from softcard.core.errors import RuleError, WireError
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernel import Kernel
from tests.device.fletcher.rig import Rig, add_up, slow, vector_map

nothing = Kernel("Nothing", lambda job: None)


def device(name: str = "regs", **options: object) -> FletcherDevice:
    custom = ("c:16:cat", "s:64:dog", "s:32:fish") if name == "regs" else ()
    return FletcherDevice(vector_map(name, custom=custom, **options), nothing)


def test_control_information() -> None:
    """Status, control, buffer addresses and arguments all pass by MMIO, and nothing else is needed."""
    rig = Rig(slow, rows=6)
    rig.set("step", 6)
    rig.control(1)
    assert [rig.status, rig.status] == [2, 5]
    assert rig.result == 21


def test_host_access() -> None:
    """What the host may not write, the kernel's side may."""
    rig = Rig()
    with pytest.raises(RuleError):
        rig.device.write(rig.map.status, 1)
    rig.control(1)
    assert rig.status == 5


def test_control_read() -> None:
    rig = Rig()
    rig.control(0b110)
    assert rig.device.read(0).value == 0, "strobes"
    paper = FletcherDevice(vector_map("prim", profile="spec"), nothing)
    paper.write(0, 0b110)
    assert paper.read(0).value == 0b110, "registers of the document"


def test_status_read_only() -> None:
    with pytest.raises(RuleError, match="write to status, which is read-only, at register 0x4") as caught:
        device().write(4, 0)
    assert caught.value.rule is not None
    assert caught.value.rule.id == "fletcher/status-read-only"


@pytest.mark.parametrize("profile", ["fletchgen", "spec"])
@pytest.mark.parametrize(("address", "name"), [(8, "return0"), (12, "return1")])
def test_return_read_only(profile: str, address: int, name: str) -> None:
    with pytest.raises(RuleError, match=f"write to {name}, which is read-only.*fletcher/return-read-only"):
        FletcherDevice(vector_map("prim", profile=profile), nothing).write(address, 1)


def test_index_range() -> None:
    each = device()
    each.write(16, 0x1234)
    each.write(20, 0xFFFF_FFFF)
    assert (each.read(16).value, each.read(20).value) == (0x1234, 0xFFFF_FFFF)


@pytest.mark.parametrize("profile", ["fletchgen", "runtime", "spec"])
def test_address_halves(profile: str) -> None:
    each = FletcherDevice(vector_map("prim", profile=profile), nothing)
    each.write(28, 0x1)
    assert (each.read(24).value, each.read(28).value) == (0, 1), "each half by itself, in any order"
    each.write(24, 0x2000)
    assert (each.read(24).value, each.read(28).value) == (0x2000, 1)


def test_address_read() -> None:
    each = device("utf8")
    for slot in each.map.buffers:
        each.write(slot.address, 0x10)
        assert each.read(slot.address).value == 0x10, "the last one too"


def test_custom_control() -> None:
    each = device()
    each.write(32, 0xBEEF)
    assert each.read(32).value == 0xBEEF
    with pytest.raises(
        RuleError, match="write of 0xdeadbeef to cat, where bits 0xdead0000 cannot be written"
    ) as caught:
        each.write(32, 0xDEADBEEF)
    assert caught.value.rule is not None
    assert caught.value.rule.id == "fletcher/custom-control"
    assert each.read(32).value == 0xBEEF


@pytest.mark.parametrize(("address", "name"), [(36, r"dog \(low\)"), (40, r"dog \(high\)"), (44, "fish")])
def test_custom_status(address: int, name: str) -> None:
    with pytest.raises(RuleError, match=f"write to {name}, which is read-only.*fletcher/custom-status"):
        device().write(address, 1)


def test_profile_read_only() -> None:
    each = device("profile")
    stream = each.map.streams[0]
    with pytest.raises(RuleError, match=f"write to {stream.name}_elements, which is read-only.*profile-read-only"):
        each.write(stream.address, 0)


def test_undefined_control_bits_are_refused() -> None:
    rig = Rig()
    with pytest.raises(RuleError, match=r"write of 0x9 to control, where bits 0x8 cannot be written.*control-bits"):
        rig.control(9)
    assert rig.status == 1, "nothing was started"


@pytest.mark.parametrize(("name", "rule"), [("Profile_enable", "profile-enable"), ("Profile_clear", "profile-clear")])
def test_undefined_profile_bits_are_refused(name: str, rule: str) -> None:
    each = device()
    with pytest.raises(RuleError, match=f"write of 0x3 to {name}, where bits 0x2 cannot be written.*{rule}"):
        each.write(each.map.by_name[name].address, 3)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("address", [56, 64, 0xFFFF_FFFC])
def test_where_no_register_is(address: int, write: bool) -> None:
    each = device()
    verb = "write" if write else "read"
    with pytest.raises(
        RuleError, match=rf"{verb} at bus address {address:#x}, where there is no register.*after"
    ) as caught:
        each.write(address, 0) if write else each.read(address)
    assert caught.value.rule is not None
    assert caught.value.rule.id == "fletcher/derived-registers"


def test_below_the_map_is_no_register() -> None:
    with pytest.raises(RuleError, match=r"where there is no register, at address 0x0 .below the map at 0x40"):
        FletcherDevice(vector_map("prim", offset=64), nothing).read(0)


def test_addresses_are_aligned() -> None:
    with pytest.raises(RuleError, match=r"read at bus address 0x6, which must be a multiple of 4.*register-width"):
        device().read(6)
    with pytest.raises(RuleError, match="write at bus address 0x4, which must be a multiple of 8"):
        device("prim", bus_width=64).write(4, 0)


def test_byte_strobes_choose_bytes() -> None:
    each = device()
    each.write(16, 0x11223344)
    each.write(16, 0xFFFFFFFF, 0b0101)
    assert each.read(16).value == 0x11FF33FF
    each.write(4, 0xFFFFFFFF, 0)


def test_halves_of_a_bus_of_64_bits_are_registers_by_themselves() -> None:
    each = device("prim", bus_width=64)
    each.write(16, 7 << 32, 0xF0)
    each.write(16, 5, 0x0F)
    assert each.read(16).value == 7 << 32 | 5
    with pytest.raises(RuleError, match="write to control/status, which is read-only"):
        each.write(0, 0, 0xF0)
    each.write(0, 1)
    assert each.read(0).value == 0b101 << 32


def test_values_and_addresses_that_are_none() -> None:
    each = device()
    with pytest.raises(WireError, match="the written value 0x100000000 does not fit 32 bits"):
        each.write(16, 1 << 32)
    with pytest.raises(WireError, match="the written value -0x1 does not fit 32 bits"):
        each.write(16, -1)
    with pytest.raises(WireError, match="bus address 0x100000000 does not fit 32 bits"):
        each.read(1 << 32)
    with pytest.raises(WireError, match="bus address -0x4"):
        each.write(-4, 0)


def test_custom_init() -> None:
    layout = vector_map("prim", custom=("c:32:age:0x21", "c:8:plain", "s:16:out:0x7"))
    simulated = FletcherDevice(layout, nothing, initialize=True)
    age = layout.custom("age").address
    assert simulated.read(age).value == 0x21
    simulated.write(age, 1)
    simulated.reset()
    assert simulated.read(age).value == 0x21
    assert FletcherDevice(layout, nothing).read(age).value == 0, "hardware begins with 0"


def test_a_map_of_the_document_has_no_hardware() -> None:
    with pytest.raises(
        WireError, match="profile 'hardware' requires a register map of profile 'fletchgen' or 'runtime', not 'spec'"
    ):
        FletcherDevice(vector_map("prim", profile="spec"), nothing, profile="hardware")


def test_a_map_of_the_document_runs_a_kernel() -> None:
    each = FletcherDevice(add_up.map(profile="spec"), add_up)
    address = each.memory.adopt((9).to_bytes(8, "little"))
    for register, value in ((20, 1), (24, address & 0xFFFF_FFFF), (28, address >> 32), (0, 1)):
        each.write(register, value)
    assert each.read(4).value == 5
    assert each.read(8).value == 9
