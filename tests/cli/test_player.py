"""The player beyond the recordings: every call, every refusal, both profiles."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.cli.exits import ExitCode, UsageError
from softcard.cli.recordings import FORMS, Player, Settings
from softcard.core.errors import SoftcardError, WireError

FOLDER = Path(__file__).parents[1] / "vectors" / "refsi"


def play(*lines: str, folder: Path = FOLDER, **settings_: object) -> tuple[int, list[str], list[str]]:
    out, err = io.BytesIO(), io.StringIO()
    player = Player(Settings(**settings_), out, err, folder)  # type: ignore[arg-type]
    code = player.play(lines)
    return code, out.getvalue().decode().splitlines(), err.getvalue().splitlines()


def printed(*lines: str, **settings_: object) -> list[str]:
    code, out, err = play(*lines, **settings_)
    assert (code, err) == (0, [])
    return out


def test_query_m() -> None:
    assert printed("open m", "query") == [
        "open ok",
        "info r=0 family=1 cores=1 harts=4 maps=4 isa=RV64GCVZbc vlen=512 elen=64",
        "map[0] r=0 kind=3 base=0x10000000 size=0x400000",
        "map[1] r=0 kind=1 base=0x40000000 size=0x80000000",
        "map[2] r=0 kind=6 base=0x20002000 size=0x100",
        "map[3] r=0 kind=7 base=0x20100000 size=0x200",
    ]


def test_query_g() -> None:
    assert printed("open g", "query")[1].startswith("info r=0 family=2 cores=1 ")


def test_allocation_goes_down_from_the_end_of_dram_and_buffers_do_not_disturb_it() -> None:
    assert printed("open m", "alloc 256 256", "cb 0xc0000100", "alloc 16 16", "alloc 8 8 3") == [
        "open ok",
        "alloc 0xbfffff00",
        "cb r=0",
        "alloc 0xbffffef0",
        "alloc 0x1",
    ]


def test_reads_and_writes() -> None:
    assert printed(
        "open m",
        "w64 0x50000000 1 0x2",
        "w32 0x50000004 3",
        "r64 0x50000000 2",
        "r64each 0x50000000 2",
        "rb 0x50000000 5",
        "fill 0x50000000 9 0xff",
        "r64 0x50000000 2",
        "str 0x50000000 a b",
        "r64 0x50000000",
    ) == [
        "open ok",
        "w64 0x50000000 r=0",
        "w32 0x50000004 r=0",
        "r64 0x50000000 r=0 300000001 2",
        "r64 0x50000000 r=0 300000001",
        "r64 0x50000008 r=0 2",
        "rb 0x50000000 n=5 r=0",
        "fill r=0",
        "r64 0x50000000 r=0 ffffffffffffffff ff",
        "str r=0",
        "r64 0x50000000 r=0 ffffff000a622061",
    ]


def test_refused_accesses_show_the_preset() -> None:
    assert printed("open m", "r64 0x100 2", "r64each 0x100 1", "rb 0x100 1", "w64 0x100 1", "fill 0x100 8 0")[1:] == [
        "r64 0x100 r=1 deaddeaddeaddead deaddeaddeaddead",
        "r64 0x100 r=1 dead",
        "rb 0x100 n=1 r=1",
        "w64 0x100 r=1",
        "fill r=1",
    ]


def test_mapping() -> None:
    assert printed("open m", "map 0x40000000 64", "map 0x20002000 8", "map 0x100 8")[1:] == [
        "map ptr",
        "map null",
        "map null",
    ]


def test_units_have_their_own_registers() -> None:
    lines = ("unit 2 0", "w64 0x20002018 5", "r64 0x20002018", "unit 3 1", "r64 0x20002018")
    assert printed("open m", *lines)[1:] == [
        "w64 0x20002018 r=0",
        "r64 0x20002018 r=0 5",
        "r64 0x20002018 r=0 0",
    ]


def test_a_device_is_opened_once_and_closed_for_good() -> None:
    assert printed("open m", "w64 0x50000000 7", "open m", "r64 0x50000000", "close", "open m", "r64 0x50000000")[
        1:
    ] == [
        "w64 0x50000000 r=0",
        "open ok",
        "r64 0x50000000 r=0 7",
        "close r=0",
        "open ok",
        "r64 0x50000000 r=0 0",
    ]


def test_without_a_device_everything_is_refused() -> None:
    calls = ("query", "alloc 1 1", "w64 0 0", "w32 0 0", "r64 0", "r64each 0 1", "rb 0 1", "map 0 1", "str 0 x")
    more = ("fill 0 1 0", "elf kernels.elf", "cb 0xc0000100", "exec 0 1", "close")
    assert printed(*calls, *more) == [
        "info r=2",
        "alloc 0x0",
        "w64 0x0 r=2",
        "w32 0x0 r=2",
        "r64 0x0 r=2 deaddeaddeaddead",
        "r64 0x0 r=2 dead",
        "rb 0x0 n=1 r=2",
        "map null",
        "str r=2",
        "fill r=2",
        "load 0x10000+0x590 r=2",
        "cb r=2",
        "exec r=2",
        "close r=2",
    ]


def test_each_family_has_its_own_way_to_run() -> None:
    assert printed("open m", "exec 0x10000 1", "open g", "cb 0xc0000100")[1:] == ["exec r=4", "open ok", "cb r=4"]


def test_kernel_on_g() -> None:
    code, out, err = play("open g", "exec 0x10000 1")  # the loader ROM is empty
    assert (code, out) == (0, ["open ok", "exec r=1"])
    assert "Illegal Instruction" in err[0]


def test_loading_outside_of_memory_is_refused() -> None:
    assert printed("open m", "elf kernels.elf") == ["open ok", "load 0x10000+0x590 r=1"]


def test_zeros_behind_a_segment(tmp_path: Path) -> None:
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 2, 243, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    program = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x50000000, 0, 8, (2 << 20) + 8, 1)
    (tmp_path / "big.elf").write_bytes(ident + head + program)
    lines = ("open m", "fill 0x50000000 0x200010 0xff", "elf big.elf", "r64 0x50000000 2", "r64 0x50200000 2")
    assert printed(*lines, folder=tmp_path)[2:] == [
        "load 0x50000000+0x200008 r=0",
        "r64 0x50000000 r=0 10102464c457f 0",
        "r64 0x50200000 r=0 0 ffffffffffffffff",
    ]


def test_comments_and_empty_lines() -> None:
    assert printed("# a comment", "", "  open m  ", "\tclose") == ["open ok", "close r=0"]


def test_explanations() -> None:
    code, out, err = play("open m", "cb 0xc0000a00", "cb 0xc0000100", "r64 0x100", explain=True)
    assert code == 0
    assert out[1:] == ["cb r=0", "cb r=0", "r64 0x100 r=1 deaddeaddeaddead"]
    assert err[0].startswith("warning[refsi/header-opcode]: ")
    assert "unknown opcode 10" in err[0]
    explained = next(number for number, line in enumerate(err) if line.startswith("buffer 2 at 0x4f000000: "))
    assert err[explained].endswith("1 commands, 0 instructions")
    assert err[explained + 1].startswith("note: the device refuses this access: ")


def test_spec_reports_broken_rules() -> None:
    code, out, err = play("open m", "cb 0xc0000a00", "cb 0xc0000100", profile="spec")
    assert code == ExitCode.GUEST
    assert out == ["open ok", "cb r=0", "cb r=0"]
    assert err[0] == "error[refsi/header-opcode]: header 0x00000000c0000a00: unknown opcode 10"
    assert [line for line in err if line.startswith("error")] == err[:1]
    assert "   = note: at chunk 0, command 0, buffer 1, line 2 (cb)" in err


def test_spec_has_no_g() -> None:
    with pytest.raises(SoftcardError, match=r"RefSi G1 .* at line 1 \(open\)"):
        play("open g", profile="spec")


def test_step_limit() -> None:
    spin = ("open m", "w64 0x50000000 0xa001", "cb 0x1c0020200 0x50000000 0x1c0020800 1 0xc0000100")
    code, out, err = play(*spin, profile="spec", step_limit=10_000)
    assert (code, out[-1]) == (1, "cb r=0")
    assert "10000" in err[0].replace(",", "")
    code, out, err = play(*spin, step_limit=10_000)
    assert (code, out[-1]) == (1, "w64 0x50000000 r=0"), "the reference driver would hang in the third line"
    assert err[0].startswith(
        "error: this call does not return: the kernel command has not ended after 10000 instructions"
    )


WRONG = {
    "jump 5": "unknown call 'jump', expected one of open, query",
    "open": "an operand is missing, expected open m|g",
    "open x": "open: unknown device family 'x', expected m or g",
    "query 1": "too many operands, expected query",
    "unit 3": "an operand is missing, expected unit KIND INDEX",
    "unit 256 0": "256 does not fit 8 bits",
    "unit 3 0x10000": "0x10000 does not fit 16 bits",
    "alloc 1": "expected alloc SIZE ALIGN [KIND]",
    "w64 5": "expected w64 ADDR V...",
    "w64 zero 5": "'zero' is not a number, expected decimal or 0x hex",
    "w64 -1 5": "-1 does not fit 64 bits",
    "w64 0x10000000000000000 5": "does not fit 64 bits",
    "w32 0 0x100000000": "0x100000000 does not fit 32 bits",
    "w32 0 1 2": "too many operands, expected w32 ADDR V",
    "r64": "expected r64 ADDR [N]",
    "r64 0 0x100001": "r64: expected at most 0x100000, got 0x100001",
    "rb 0 0xffffffffffffffff": "rb: expected at most 0x10000000",
    "fill 0 1 256": "256 does not fit 8 bits",
    "fill 0 0x10000001 1": "fill: expected at most 0x10000000",
    "str": "expected str ADDR TEXT",
    "elf": "expected elf FILE",
    "cb 0x": "'0x' is not a number",
    "cb 0b11": "'0b11' is not a number",
    "elf nothing.elf": "cannot read nothing.elf: No such file",
    "elf a\0b": "cannot read",
}


@pytest.mark.parametrize("line", WRONG)
def test_lines_that_are_no_call(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        play("open m", line)
    assert WRONG[line] in str(caught.value)
    assert "at line 2" in str(caught.value)


def test_a_file_that_is_no_elf() -> None:
    with pytest.raises(WireError, match=r"expected 7f 45 4c 46 \(ELF\), at byte 0x0, at line 2 \(elf\)"):
        play("open m", "elf bench.c")


def test_what_was_printed_before_a_mistake_stays() -> None:
    out = io.BytesIO()
    with pytest.raises(UsageError):
        Player(Settings(), out, io.StringIO()).play(["open m", "nonsense"])
    assert out.getvalue() == b"open ok\n"


OPERAND = st.sampled_from(["0", "1", "0x10000", "0x20002000", "0x40000000", "0x50000000", "0xbffffff8", "-1", "m", "8"])
VERB = st.sampled_from(sorted(FORMS))
LINE = st.builds(lambda verb, operands: " ".join([verb, *operands]), VERB, st.lists(OPERAND, max_size=4))


@settings(max_examples=40)
@given(st.lists(LINE, max_size=8), st.text(max_size=20))
def test_any_script_is_survived(lines: list[str], last: str) -> None:
    out = io.BytesIO()
    try:
        code = Player(Settings(engine="reference", step_limit=1000), out, io.StringIO(), FOLDER).play(
            ["open m", *lines, last]
        )
    except SoftcardError as error:
        code = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.GUEST
    assert code in ExitCode
    assert out.getvalue().startswith(b"open ok\n")


def test_equal_findings_of_one_line_are_limited() -> None:
    _, out, err = play("open m", "r64each 0x100 1000", explain=True)
    assert len(out) == 1001
    assert sum(line.startswith("note: the device refuses this access: ") for line in err) == 5
    assert "   = note: further ones of this line are not shown" in err
