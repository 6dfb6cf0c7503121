"""The command processor in both profiles: each command, and what becomes of a buffer."""

from __future__ import annotations

import pytest

from softcard.core.errors import AccessFault, RuleError, WireError
from softcard.device.refsi import rules
from softcard.device.refsi.commands import (
    CopyMem64,
    Finish,
    LoadReg64,
    Nop,
    RunKernelSlice,
    StoreImm64,
    StoreReg64,
    SyncCache,
    WriteReg64,
    encode_all,
)
from softcard.device.refsi.events import (
    BufferFinished,
    BufferStarted,
    BufferSubmitted,
    CommandFinished,
    CommandStarted,
    RegisterAccess,
)
from softcard.device.refsi.launch import INVALID_KTB, INVALID_PACKED_ARGS
from softcard.device.refsi.registers import DMA_BASE, KARGS_INFO, KUB_DESC, TSD_INFO
from tests.device.refsi.m1 import BUFFER, FLAG, OUT, RETURN, Bench, entry, flag, window, write

BOTH = pytest.mark.parametrize("profile", ["refsidrv", "spec"])
KUB = 0x53000000


def slice_setup(
    bench: Bench, kub_size: int = 1, kargs: tuple[int, int] = (0, 0), tsd: tuple[int, int] = (0, 0)
) -> list[WriteReg64]:
    bench.device.write(KUB, b"".join(bytes([k]) * 8 for k in range(1, 33)))
    return [
        write("ENTRY_PT_FN", entry("k_slice")),
        write("KUB_DESC", KUB_DESC.encode(KUB_ADDR=KUB, KUB_SIZE=kub_size)),
        write("KARGS_INFO", KARGS_INFO.encode(KARGS_OFFSET=kargs[0], KARGS_SIZE=kargs[1])),
        write("TSD_INFO", TSD_INFO.encode(TSD_OFFSET=tsd[0], TSD_SIZE=tsd[1])),
        write("STACK_TOP", 0),
        write("RETURN_ADDR", RETURN),
    ]


# ---- registers and memory


@BOTH
def test_registers_and_memory(profile: str) -> None:
    bench = Bench(profile)
    status = bench.run(
        WriteReg64(0, 0x1122334455667788),
        StoreReg64(0, OUT),
        StoreImm64(OUT + 8, 42),
        LoadReg64(0, OUT + 8),
        StoreReg64(0, OUT + 16),
        CopyMem64(3, OUT, OUT + 0x100),
        Nop(0, (1, 2)),
        SyncCache(3),
    )
    assert status.ok, status
    assert status.commands == 9
    assert bench.r64(OUT + 0x100, 3) == [0x1122334455667788, 42, 42]
    assert bench.device.registers[0] == 42
    writes = [(event.index, event.value) for event in bench.seen(RegisterAccess) if event.write]
    assert writes == [(0, 0x1122334455667788), (0, 42)]


@BOTH
def test_events_of_a_buffer(profile: str) -> None:
    bench = Bench(profile)
    bench.run(Nop(), StoreImm64(0x100, 1))
    kinds = [type(event) for event in bench.events]
    assert kinds == [BufferSubmitted, BufferStarted, CommandStarted, CommandFinished, CommandStarted, BufferFinished]
    first, second = bench.seen(CommandStarted)
    assert (first.index, first.chunk, second.index, second.chunk) == (0, 0, 1, 1)
    assert second.command == StoreImm64(0x100, 1)
    assert not bench.seen(BufferFinished)[0].status.ok


@BOTH
def test_an_abort_skips_the_rest_and_keeps_what_was_done(profile: str) -> None:
    bench = Bench(profile)
    status = bench.run(flag(1), StoreImm64(0x100, 1), flag(2))
    assert isinstance(status.error, AccessFault)
    assert (status.commands, status.command, status.opcode, status.offset) == (1, 1, "STORE_IMM64", 16)
    assert "at command 1 (STORE_IMM64), at byte 0x10, at buffer" in str(status.error)
    assert bench.r64(FLAG) == [1]
    assert bench.run(flag(3)).ok


@BOTH
def test_register_index_out_of_range(profile: str) -> None:
    bench = Bench(profile)
    for command in (WriteReg64(40, 1), LoadReg64(40, OUT), StoreReg64(0xFFFFFFFF, OUT)):
        status = bench.run(command)
        assert isinstance(status.error, RuleError)
        assert status.error.rule is rules.REG_IDX


def test_register_7() -> None:
    bench = Bench("refsidrv")
    assert bench.run(WriteReg64(7, 5), StoreReg64(7, OUT)).ok
    assert bench.r64(OUT) == [5]
    status = Bench("spec").run(WriteReg64(7, 5))
    assert "there is no CMP register 7, expected 0 to 6 or 8 to 39" in str(status.error)


def test_load_reg64_into_a_window_register() -> None:
    for profile, reachable in (("refsidrv", False), ("spec", True)):
        bench = Bench(profile)
        bench.device.write(OUT, (0xFFF_0000_0001).to_bytes(8, "little"))
        closed = window(2, 0x30000000, 0x52000000, 0x1000)[:3]
        status = bench.run(*closed, LoadReg64(26, OUT), StoreImm64(0x30000000, 7), flag())
        assert status.ok is reachable
        assert bench.device.registers[26] == 0xFFF_0000_0001
        assert bench.r64(0x52000000) == [7 if reachable else 0]


def test_a_window_that_cannot_open_leaves_its_register() -> None:
    bench = Bench("refsidrv")
    status = bench.run(*window(2, 0x30000000, 0x100, 0x1000))
    assert "window 2 (base 0x30000000, target 0x100) cannot be opened: its target is not memory" in str(status.error)
    assert bench.device.registers[26] == 0


# ---- buffers


@BOTH
def test_a_buffer_needs_no_finish(profile: str) -> None:
    bench = Bench(profile)
    assert bench.words(encode_all([flag()])).ok
    assert bench.words(b"").ok
    assert bench.r64(FLAG) == [1]


@BOTH
def test_nothing_behind_finish_is_read(profile: str) -> None:
    bench = Bench(profile)
    assert bench.words(encode_all([Finish(), flag()]) + bytes(8)).ok
    assert bench.r64(FLAG) == [0]


@BOTH
def test_a_buffer_that_changes_itself(profile: str) -> None:
    bench = Bench(profile)
    replacement = int.from_bytes(encode_all([Finish()]), "little")
    assert bench.run(StoreImm64(0x4F00_0010, replacement), flag()).ok
    assert bench.r64(FLAG) == [0]


def test_a_partial_chunk() -> None:
    assert Bench("refsidrv").words(encode_all([flag()]) + b"abc").ok
    status = Bench("spec").words(encode_all([flag()]) + b"abc")
    assert isinstance(status.error, WireError)
    assert "the command buffer has 19 bytes, expected a multiple of 8" in str(status.error)
    assert status.chunk is None


def test_a_truncated_command() -> None:
    bench = Bench("refsidrv")
    bench.device.write(0x4F00_0008, (0x99).to_bytes(8, "little"))
    assert bench.words(WriteReg64(0, 0).encode()[0].to_bytes(8, "little")).ok
    assert bench.device.registers[0] == 0x99
    bench = Bench("spec")
    status = bench.words(WriteReg64(0, 0).encode()[0].to_bytes(8, "little"))
    assert isinstance(status.error, WireError)
    assert status.error.rule is rules.CHUNKS
    assert str(status.error).count("byte 0x0") == 1


@BOTH
@pytest.mark.parametrize("address", [0x100, 0x20002000, 0xBFFFFFF8, 0x14000000, 1 << 63])
def test_a_buffer_where_no_memory_is(profile: str, address: int) -> None:
    bench = Bench(profile)
    bench.device.submit(address, 16)
    (status,) = bench.device.wait()
    assert isinstance(status.error, AccessFault)
    assert (status.chunk, status.command, status.offset) == (None, None, None)


@BOTH
def test_a_buffer_at_the_end_of_memory(profile: str) -> None:
    bench = Bench(profile)
    bench.device.write(0xBFFFFFF0, encode_all([flag()]))
    bench.device.submit(0xBFFFFFF0, 16)
    assert bench.device.wait()[0].ok
    assert bench.r64(FLAG) == [1]


@pytest.mark.parametrize(
    "word", [0x80000000, 0xC0000001, 0xC0000A00, 0xC0000200, 0xC0060200, 0xC0000800, 0x300C0060800, 0xC0020900]
)
@BOTH
def test_words_that_are_no_command(profile: str, word: int) -> None:
    bench = Bench(profile)
    status = bench.words(word.to_bytes(8, "little") * 8)
    assert isinstance(status.error, WireError)
    assert (status.commands, status.chunk, status.opcode) == (0, 0, "")


# ---- RUN_KERNEL_SLICE


def test_slice_in_the_profile_spec() -> None:
    bench = Bench("spec")
    setup = slice_setup(bench, kargs=(0x40, 0x10), tsd=(8, 0x10))
    assert bench.run(*setup, RunKernelSlice(2, 2, 1)).ok
    assert bench.r64(OUT + 0x1040, 6) == [1, 1, KUB + 0x40, 0x10300000, 0x10400000, 1]
    assert bench.r64(0x10300000, 3) == [0x0202020202020202, 0x0303030303030303, 0]


def test_slice_in_the_profile_refsidrv() -> None:
    bench = Bench("refsidrv")
    setup = slice_setup(bench, kub_size=0, kargs=(0x40, 0x10), tsd=(8, 0x10))
    assert bench.run(*setup, RunKernelSlice(2, 1, 1)).ok
    assert bench.r64(OUT + 0x1000, 6) == [0, 1, KUB, 0x10200000, 0x10300000, 0]
    assert bench.r64(0x10300000, 2) == [0x0202020202020202, 0x0303030303030303], "blocks of harts that do not run too"


@pytest.mark.parametrize("change", [{"kub_size": 0}, {"kargs": (0, 0)}, {"tsd": (0, 0)}])
def test_absent_parts_are_invalid_addresses(change: dict[str, object]) -> None:
    bench = Bench("spec")
    parts = {"kub_size": 1, "kargs": (0x40, 0x10), "tsd": (8, 0x10)} | change
    assert bench.run(*slice_setup(bench, **parts), RunKernelSlice(0, 1, 0)).ok  # type: ignore[arg-type]
    args, block = bench.r64(OUT + 16, 2)
    assert (args == INVALID_PACKED_ARGS) == ("tsd" not in change)
    assert (block == INVALID_KTB) == ("kargs" not in change)


def test_blocks_outside_the_kub_are_refused() -> None:
    bench = Bench("spec")
    status = bench.run(*slice_setup(bench, kargs=(0xF8, 0x10)), RunKernelSlice(0, 1, 0))
    assert status.error is not None
    assert status.error.rule is rules.KUB_SIZE_UNIT
    status = bench.run(*slice_setup(bench, kub_size=0xFFFF, tsd=(0, 0x80001)), RunKernelSlice(0, 1, 0))
    assert status.error is not None
    assert status.error.rule is rules.TSD_OWN_COPY


def test_a_block_that_leaves_tcdm_fails_before_anything_runs() -> None:
    bench = Bench("refsidrv")
    status = bench.run(*slice_setup(bench, tsd=(0, 0x200001)), RunKernelSlice(1, 1, 0), flag())
    assert "write of 2097153 bytes at 0x10200000 is refused, at Kernel Thread Block of hart 0" in str(status.error)
    assert bench.r64(OUT, 2) == [0, 0]


def test_the_kub_is_read_only_while_a_slice_runs() -> None:
    for profile, works in (("refsidrv", True), ("spec", False)):
        bench = Bench(profile)
        setup = slice_setup(bench, kargs=(0, 8))
        poke = bench.code("sd a0, 0(a2); jalr zero, 0(ra)")
        status = bench.run(*setup, write("ENTRY_PT_FN", poke), RunKernelSlice(1, 1, 0))
        assert status.ok is works
        if not works:
            assert status.error is not None
            assert status.error.rule is rules.KUB_READ_ONLY
        assert bench.run(*bench.kernel("k_poke", KUB, 9)).ok, "RUN_INSTANCES has no KUB"


def test_the_entry_point_must_be_set() -> None:
    bench = Bench("spec")
    status = bench.run(*bench.kernel(0), flag())
    assert status.error is not None
    assert status.error.rule is rules.ENTRY_SET
    status = bench.run(*bench.kernel(0x1_0001_0000), flag())
    assert status.error is not None
    assert status.error.rule is rules.ENTRY_32_BIT
    status = bench.run(*bench.kernel(0x6007_7001), flag())
    assert status.error is not None
    assert status.error.rule is rules.ENTRY_SET
    assert "CMP_ENTRY_PT_FN holds 0x60077001, expected an even entry point" in str(status.error)
    assert Bench("refsidrv").run(*bench.kernel(0x1_0001_0000)).ok, "the upper half is ignored"


# ---- caches


def changed_code(bench: Bench, *between: SyncCache) -> int:
    """Run k_poke, let the host replace it by a return, run it again: what it stored last."""
    assert bench.run(*bench.kernel("k_poke", OUT, 0x11)).ok
    bench.device.write(entry("k_poke"), bytes.fromhex("6780000067800000"))
    assert bench.run(*between, *bench.kernel("k_poke", OUT, 0x33)).ok
    if bench.device.profile_name == "spec":
        assert bench.run(SyncCache(1)).ok
    return bench.r64(OUT)[0]


def test_changed_code_needs_a_sync_in_the_reference() -> None:
    assert changed_code(Bench("refsidrv")) == 0x33
    for flags in (0, 1, 2, 3):
        assert changed_code(Bench("refsidrv"), SyncCache(flags)) == 0x11


def test_changed_code_is_seen_by_coherent_harts() -> None:
    assert changed_code(Bench("spec")) == 0x11
    assert changed_code(Bench("spec", coherence="strict"), SyncCache(3)) == 0x11
    assert changed_code(Bench("spec", coherence="strict"), SyncCache(1)) == 0x33


def closed_window(bench: Bench, *between: SyncCache) -> bool:
    """Store through a window, close it, store again: whether the second store still works."""
    opened = window(2, 0x30003000, 0x52000000, 0x1000)
    poke = bench.kernel("k_poke", 0x30003000, 0x59)
    return bench.run(*opened, *poke, write("REG_WINDOW_MODE2", 0), *between, *poke).ok


def test_a_closed_window_lingers_in_the_reference() -> None:
    assert closed_window(Bench("refsidrv"))
    assert closed_window(Bench("refsidrv"), SyncCache(2))
    assert not closed_window(Bench("refsidrv"), SyncCache(1))
    assert not closed_window(Bench("spec"))


def test_dma_by_commands() -> None:
    bench = Bench("spec")
    bench.device.write(OUT, b"payload!")
    base = [StoreImm64(DMA_BASE + 8 * index, value) for index, value in ((3, OUT), (4, OUT + 64), (5, 8), (0, 0x11))]
    assert bench.run(*base, LoadReg64(0, DMA_BASE + 8), StoreReg64(0, DMA_BASE + 16)).ok
    assert bench.device.read(OUT + 64, 8) == b"payload!"


@pytest.mark.parametrize("profile", ["spec", "refsidrv"])
def test_a_buffer_that_was_overwritten_while_it_ran(profile: str) -> None:
    bench = Bench(profile)
    status = bench.run(StoreImm64(BUFFER + 16, 0x1234_5678), StoreImm64(OUT, 1))
    assert status.error is not None
    was = encode_all([StoreImm64(OUT, 1)])[:8][::-1].hex()
    reported = (
        f"(the buffer was overwritten while it ran: this chunk is 0x0000000012345678, but was 0x{was} at the start)"
    )
    assert reported in str(status.error)
    status = bench.words((0x1234_5678).to_bytes(8, "little"))
    assert "overwritten" not in str(status.error)
