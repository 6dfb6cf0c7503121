"""The layout of command buffers: round trips, and one refusal per mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.device.refsi import rules
from softcard.device.refsi.commands import (
    COMMANDS,
    Command,
    CopyMem64,
    Finish,
    Header,
    Opcode,
    RunInstances,
    RunKernelSlice,
    StoreImm64,
    SyncCache,
    WriteReg64,
    decode,
    decode_all,
    decode_header,
    encode_all,
    encode_header,
)
from softcard.testing import refsi_commands

word = st.integers(0, (1 << 64) - 1)


@given(refsi_commands())
def test_round_trip(command: Command) -> None:
    words = command.encode()
    assert decode(words) == (command, len(words))
    assert decode_header(words[0]).chunks == len(words) - 1


@given(st.lists(refsi_commands(), max_size=6))
def test_buffers_round_trip(buffer: list[Command]) -> None:
    kept = [command for command in buffer if not isinstance(command, Finish)]
    data = encode_all([*kept, Finish()])
    words = memoryview(data).cast("Q")
    assert [command for _, command in decode_all(words)] == [*kept, Finish()]


@given(st.lists(word, min_size=1, max_size=12), st.booleans())
def test_hostile_words_give_commands_or_wire_errors(words: list[int], lenient: bool) -> None:
    error = None
    try:
        command, following = decode(words, lenient=lenient)
    except WireError as refused:
        error = refused
    if error is None:
        assert following >= 1
        assert int(command.opcode) in COMMANDS
    else:
        assert error.rule is not None
        assert [place.kind for place in error.path[-2:]] == ["chunk", "byte"]


def test_real_words() -> None:
    assert WriteReg64(8, 0x10000).encode() == (0x8C0020200, 0x10000)
    assert StoreImm64(0x50010000, 1).encode() == (0x50010000C0020500, 1)
    assert RunInstances(2, 5, (0x50000000,)).encode() == (0x102C0040800, 5, 0x50000000)
    assert CopyMem64(1, 0x20100000, 0x50000000, 0x3000000).encode()[0] == 0x1C0060600
    assert RunKernelSlice(4, 1, 0).encode() == (0x4C0040700, 1, 0)
    assert SyncCache(3).encode() == (0x3C0000900,)
    assert Finish().encode() == (0xC0000100,)
    assert encode_header(Header(Opcode.NOP, 2, 0)) == 0xC0040000


@pytest.mark.parametrize(
    ("words", "rule", "message"),
    [
        ([0x80000000], rules.HEADER_PACKET_ID, "packet identifier (bits 31-30) is 2, expected 3"),
        ([0xC0000101], rules.HEADER_RESERVED, "reserved bits 7-0 are 0x1, expected 0"),
        ([0xC0000A00], rules.HEADER_OPCODE, "unknown opcode 10"),
        ([0xC0030200, 5], rules.HEADER_COUNT, "count (bits 29-16) is 3, expected an even number"),
        ([0xC0000200], rules.HEADER_COUNT, "WRITE_REG64: count announces 0 payload chunks, expected 1"),
        ([0xC0020100, 0], rules.HEADER_COUNT, "FINISH: count announces 1 payload chunks, expected 0"),
        ([0x300C0060800, 1, 2, 3], rules.HEADER_COUNT, "RUN_INSTANCES: count announces 3 payload chunks, expected 4"),
        ([0xC0020200], rules.CHUNKS, "WRITE_REG64: 1 payload chunks announced, but the buffer ends after 0"),
        ([0x104C0040700, 1, 0], rules.ZERO_EXTENSION, "inline chunk 0x104 has bits 0x100 outside of its fields"),
        ([0x1804C0020800, 1], rules.ZERO_EXTENSION, "inline chunk 0x1804 has bits 0x1800 outside of its fields"),
        ([0x4C0000900], rules.SYNC_FLAGS, "flags 0x4 name caches that do not exist"),
        ([0x1C0060600, 0, 0, 0x5000000], rules.COPY_UNIT, "UNIT 0x5000000 is not a unit ID"),
        ([0x1C0060600, 0, 0, 0x3010000], rules.COPY_UNIT, "UNIT 0x3010000 is not a unit ID"),
    ],
)
def test_refusals(words: list[int], rule: object, message: str) -> None:
    with pytest.raises(WireError) as caught:
        decode([0xC0000000, *words], 1)
    assert message in str(caught.value)
    assert caught.value.rule is rule
    assert [str(place) for place in caught.value.path] == ["at chunk 1", "at byte 0x8"]


def test_lax_decoding_is_the_reference_drivers() -> None:
    assert decode([0xC0030200, 5], lenient=True) == (WriteReg64(0, 5), 2), "odd counts are halved"
    assert decode([0xC0020100, 9], lenient=True) == (Finish(), 2), "FINISH may announce payload"
    assert decode([0xFCC0000900], lenient=True) == (SyncCache(0xFC), 1)
    assert decode([0x104C0040700, 1, 2], lenient=True) == (RunKernelSlice(4, 1, 2), 3)
    assert decode([0xC0020200, 7], end=1, lenient=True) == (WriteReg64(0, 7), 2), "payload behind the buffer is used"
    assert decode([0xC0020200], lenient=True) == (WriteReg64(0, 0), 2), "and zeros behind the memory"
    for words in ([0x80000000], [0xC0000001], [0xC0000A00], [0xC0000200]):
        with pytest.raises(WireError):
            decode(words, lenient=True)


def test_fields_must_fit_when_encoding() -> None:
    with pytest.raises(WireError, match=r"chunk 1 is 0x10000000000000000, expected 64 bits"):
        WriteReg64(0, 1 << 64).encode()
    with pytest.raises(WireError, match=r"holds 32 bits \(0\.\.0xffffffff\), not 0x100000000"):
        StoreImm64(1 << 32, 0).encode()
    with pytest.raises(WireError, match="at most 7 extra arguments, not 8") as caught:
        RunInstances(0, 1, (0,) * 8).encode()
    assert caught.value.rule is rules.RUN_EXTRA_ARGS
    with pytest.raises(WireError, match="no chunk 1 in a buffer of 1 chunks"):
        decode([0xC0000100], 1)
