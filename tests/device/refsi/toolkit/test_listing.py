"""The listing: explains good buffers, survives bad ones, and reads back as the same bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import WireError
from softcard.device.refsi.commands import Finish, encode_header
from softcard.device.refsi.commands import Header as HeaderChunk
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.device.refsi.toolkit.listing import assemble, describe_address, lines, listing, unit_name

RECORDINGS = Path(__file__).parents[3] / "vectors" / "refsi"


def pack(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}Q", *words)


def one(data: bytes) -> str:
    (line,) = listing(data).splitlines()
    return " ".join(line.split())


def test_commands_are_explained() -> None:
    def text(buffer: CommandBuffer) -> str:
        return one(buffer.to_bytes())

    def new() -> CommandBuffer:
        return CommandBuffer()

    assert text(new().finish()) == "0x0000: FINISH"
    assert text(new().add(Finish(5))) == "0x0000: FINISH DUMMY=0x5"
    assert text(new().write_reg64(1, 0x10002)) == (
        "0x0000: WRITE_REG64 REG_IDX=CMP_ENTRY_PT_FN IMM_VAL=0x10002 ; ENTRY_POINT_ADDR=0x10002"
    )
    assert text(new().write_reg64(17, 0x1020_0000)).endswith(
        "REG_IDX=CMP_REG_WINDOW_TARGET1 IMM_VAL=0x10200000 ; TCDM+0x200000"
    )
    assert text(new().write_reg64(25, 0x7FFFF00000003)).endswith(
        "; ACTIVE=1 MODE=1 (PER_HART) INTERLEAVE=0 PERMS=0 STRIDE=0 SIZE=0x7ffff, a window of 0x80000 bytes"
    )
    assert text(new().load_reg64(0, 0x20002008)) == (
        "0x0000: LOAD_REG64 REG_IDX=CMP_SCRATCH SRC_ADDR=0x20002008 ; from DMASTARTSEQ"
    )
    assert text(new().load_reg64(0, 0x100)).endswith("SRC_ADDR=0x100")
    assert text(new().store_reg64(0, 0x4000_0010)).endswith("DST_ADDR=0x40000010 ; to DRAM+0x10")
    assert text(new().store_imm64(0x20002000, 0x11)).endswith(
        "; DMACTRL = 0x11: START=1 DIM=1 (1D) STRIDE_DST=0 STRIDE_SRC=0"
    )
    assert text(new().store_imm64(0x20002018, 0x1000_0000)).endswith("; DMASRCADDR = TCDM+0x0")
    assert text(new().store_imm64(0x20002028, 8)).endswith("IMM_VAL=0x8 ; DMAXFERSIZE0")
    assert "reserved range" in text(new().store_imm64(0x200020F8, 8))
    assert text(new().store_imm64(0x5000_0000, 8)).endswith("; to DRAM+0x10000000")
    assert text(new().copy_mem64(32, 0x2010_0000, 0x5000_0000, 0x3000001)).endswith(
        "UNIT=0x3000001 ; 0x100 bytes, from CYCLE, to DRAM+0x10000000, as ACC_HART 1"
    )
    assert text(new().run_kernel_slice(4, 2)).endswith("RUN_KERNEL_SLICE MAX_HARTS=0 NUM_INSTANCES=4 SLICE_ID=2")
    assert text(new().run_instances(4, 7, 8, max_harts=2)).endswith(
        "RUN_INSTANCES MAX_HARTS=2 NUM_INSTANCES=4 EXTRA_ARG_0=0x7 EXTRA_ARG_1=0x8"
    )
    assert text(new().sync_cache(2)).endswith("SYNC_CACHE FLAGS=2 ; CMP_CACHE_SYNC_ACC_ICACHE")
    assert text(new().sync_cache(0)).endswith("; no cache")
    assert text(new().nop(1, 2)) == "0x0000: NOP SKIPPED_0=0x1 SKIPPED_1=0x2"


def test_registers_that_do_not_exist_keep_their_number() -> None:
    assert "REG_IDX=40" in one(pack(0x28C0020200, 1))


def test_addresses_and_units() -> None:
    assert describe_address(0x2010_0010) == "RETIRED_INSN"
    assert describe_address(0x2000_2004) == "KERNEL_DMA_PRIVATE+0x4"
    assert describe_address(0) == ""
    assert [unit_name(unit) for unit in (0, 0x2000000, 0x3000000, 0x3000002, 0x9000000)] == [
        "ANY",
        "CMP",
        "ACC_HART 0",
        "ACC_HART 2",
        "kind 9 0",
    ]


GARBAGE = {
    "packet id": ((0x80000000,), "packet identifier (bits 31-30) is 2, expected 3"),
    "reserved": ((0xC0000001,), "reserved bits 7-0 are 0x1, expected 0"),
    "opcode": ((0xC0000A00,), "unknown opcode 10"),
    "odd": (
        (0xC0030200, 5),
        "count (bits 29-16) is 3, expected an even number (the reference driver reads WRITE_REG64",
    ),
    "count": ((0xC0040200, 1, 2), "WRITE_REG64: count announces 2 payload chunks, expected 1"),
    "cut": ((0xC0020200,), "1 payload chunks announced, but the buffer ends after 0 (the reference driver reads"),
    "num args": ((0x300C0060800, 1, 2, 3), "RUN_INSTANCES: count announces 3 payload chunks, expected 4"),
    "inline": ((0x100C0040700, 1, 2), "RUN_KERNEL_SLICE: inline chunk 0x100 has bits 0x100 outside of its fields"),
    "unit": ((0x1C0060600, 0, 0, 1 << 40), "COPY_MEM64: UNIT 0x10000000000 is not a unit ID"),
    "flags": ((0xFCC0000900,), "SYNC_CACHE: flags 0xfc name caches that do not exist"),
}


@pytest.mark.parametrize("mistake", GARBAGE)
def test_what_cannot_be_decoded_is_shown_with_its_reason(mistake: str) -> None:
    words, reason = GARBAGE[mistake]
    shown = list(lines(pack(*words)))
    assert reason in shown[0].comment
    assert shown[0].error is not None
    assert shown[0].text == f".chunk {words[0]:#x}"
    assert [line.offset for line in shown] == [8 * index for index in range(len(words))]
    assert all(line.comment == "its payload" for line in shown[1:])
    assert assemble(listing(pack(*words))) == pack(*words)


def test_left_over_bytes() -> None:
    assert one(b"\x01\x02") == "0x0000: .byte 0x01 0x02 ; the last 2 bytes are not a whole chunk of 8 bytes"


def test_commands_behind_finish_are_listed() -> None:
    assert len(list(lines(pack(0xC0000100, 0xC0000100)))) == 2


WILD_HEADER = st.builds(
    lambda opcode, chunks, inline: encode_header(HeaderChunk(opcode, chunks, inline)),
    st.integers(0, 11),
    st.integers(0, 5),
    st.integers(0, 40) | st.integers(0, (1 << 32) - 1),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WILD_HEADER | st.integers(0, (1 << 64) - 1), max_size=20), st.binary(max_size=7))
def test_any_bytes_come_back(words: list[int], rest: bytes) -> None:
    data = pack(*words) + rest
    assert assemble(listing(data)) == data


def test_recorded_buffers_come_back() -> None:
    seen = 0
    for path in sorted(RECORDINGS.glob("*.json")):
        for line in json.loads(path.read_text())["script"]:
            if line.startswith("cb "):
                data = pack(*(int(word, 0) for word in line.split()[1:]))
                assert assemble(listing(data)) == data
                seen += 1
    assert seen > 200


def test_hand_written_text() -> None:
    source = """
        ; offsets may be left out, fields may come in any order
        WRITE_REG64 IMM_VAL=16 REG_IDX=CMP_SCRATCH
        0x99: WRITE_REG64 REG_IDX=0 IMM_VAL=0x10
        .chunk 1 2
        COPY_MEM64 COUNT=1 SRC_ADDR=0 DST_ADDR=0   ; UNIT has a default
        .byte 7
    """
    assert assemble(source) == pack(0xC0020200, 16, 0xC0020200, 16, 1, 2, 0x1C0060600, 0, 0, 0) + b"\x07"


UNREADABLE = {
    "JUMP X=1": "unknown command 'JUMP', expected one of NOP, FINISH",
    "FINISH 5": "FINISH: '5' is not a field, expected NAME=VALUE",
    "FINISH DUMMY=1 DUMMY=2": "field DUMMY is given twice",
    "WRITE_REG64 REG_IDX=0": "WRITE_REG64: field IMM_VAL is missing",
    "WRITE_REG64 REG_IDX=CMP_X IMM_VAL=0": "has no register CMP_X",
    "WRITE_REG64 REG_IDX=0 IMM_VAL=0 SIZE=3": "WRITE_REG64 has no field SIZE",
    "WRITE_REG64 REG_IDX=0 IMM_VAL=ten": "IMM_VAL: 'ten' is not a number, expected decimal or 0x hex",
    "WRITE_REG64 REG_IDX=0 IMM_VAL=0x10000000000000000": "does not fit 64 bits",
    "RUN_INSTANCES MAX_HARTS=0 NUM_INSTANCES=1 EXTRA_ARG_1=2": "has no field EXTRA_ARG_1",
    ".byte 256": ".byte: 256 does not fit 8 bits",
}


@pytest.mark.parametrize("line", UNREADABLE)
def test_unreadable_text(line: str) -> None:
    with pytest.raises(WireError) as caught:
        assemble("FINISH\n" + line)
    assert UNREADABLE[line] in str(caught.value)
    assert str(caught.value.path[-1]) == f"at line 2 ({line.partition(' ')[0]})"
