"""The commands as users type them: output, exit status, and that nothing ends in a traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer

import softcard
from softcard.attach.library import NoLibraryCompiler
from softcard.cli import app, main, refsi
from softcard.cli.app import COMMANDS, tree
from softcard.cli.demo_cases import BODIES
from softcard.cli.demo_cases import check_findings as findings
from softcard.cli.exits import exit_code
from softcard.core.checks import CHECKS, LEAKS
from softcard.core.errors import ModelBug, SoftcardError
from softcard.device.refsi.toolkit.builder import CommandBuffer
from softcard.host.compiling import NoCompiler
from softcard.hsa import bare_code_object
from softcard.image.arrow_schema import ArrowMissing
from softcard.report.diagnostic_text import as_text
from tests.cli.test_run import CODE

GOOD = CommandBuffer().write_reg64("CMP_SCRATCH", 5).finish()
BAD = CommandBuffer().chunks(0xC0000A00).finish()
Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.bin"
    path.write_bytes(GOOD.to_bytes())
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.bin"
    path.write_bytes(BAD.to_bytes())
    return str(path)


# ---- decode, encode, lint ------------------------------------------------------------------------------------------


def test_decode(capsys: Capture, good: str) -> None:
    code, out, err = run(capsys, "refsi", "decode", good)
    assert (code, err) == (0, "")
    assert out == "0x0000: WRITE_REG64 REG_IDX=CMP_SCRATCH IMM_VAL=0x5\n0x0010: FINISH\n"


def test_decode_of_what_are_no_commands(capsys: Capture, bad: str) -> None:
    code, out, _ = run(capsys, "refsi", "decode", bad)
    assert code == 1
    assert "; header 0x00000000c0000a00: unknown opcode 10" in out


@pytest.mark.parametrize(
    "text",
    [
        "0xc0020200 5 0xc0000100",
        "cb 0xc0020200 0x5, 3221225728  # a line of a script\n",
        "WRITE_REG64 REG_IDX=0 IMM_VAL=5\nFINISH",
        "0x0000: .chunk 0xc0020200\n0x0008: .chunk 0x5 ; its payload\nFINISH\n",
    ],
)
def test_other_forms_of_input(capsys: Capture, tmp_path: Path, text: str) -> None:
    path = tmp_path / "buffer.txt"
    path.write_text(text)
    code, out, _ = run(capsys, "refsi", "decode", str(path))
    assert code == 0
    assert out.endswith("0x0010: FINISH\n")


def test_form_can_be_said(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    path.write_text("12345678")
    assert run(capsys, "refsi", "decode", "--as", "binary", str(path))[1].startswith(
        "0x0000: .chunk 0x3837363534333231"
    )
    assert run(capsys, "refsi", "decode", "--as", "words", str(path))[1].startswith("0x0000: .chunk 0xbc614e")


def test_encode_and_decode_are_inverse(capsys: Capture, tmp_path: Path, good: str) -> None:
    listing = tmp_path / "listing.txt"
    listing.write_text(run(capsys, "refsi", "decode", good)[1])
    code, out, _ = run(capsys, "refsi", "encode", str(listing))
    assert (code, out) == (0, "0xc0020200\n0x5\n0xc0000100\n")
    assert run(capsys, "refsi", "encode", str(listing), "-o", str(tmp_path / "again.bin")) == (0, "", "")
    assert (tmp_path / "again.bin").read_bytes() == GOOD.to_bytes()


def test_lint(capsys: Capture, good: str, bad: str) -> None:
    assert run(capsys, "refsi", "lint", good) == (0, "0 errors, 0 warnings, 0 notes\n", "")
    code, out, _ = run(capsys, "refsi", "lint", bad)
    assert code == 1
    assert out.startswith("\nerror[header-opcode]: header 0x00000000c0000a00: unknown opcode 10\n")
    assert f"  --> {bad}: byte 0x0, chunk 0" in out
    assert out.endswith("1 error, 0 warnings, 0 notes\n")


def test_warnings_are_no_failure(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "open.bin"
    path.write_bytes(CommandBuffer().write_reg64(0, 1).to_bytes())
    code, out, _ = run(capsys, "refsi", "lint", str(path))
    assert code == 0
    assert "warning[finish-missing]: " in out


def test_lint_options(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "many.bin"
    path.write_bytes(CommandBuffer().run_instances(9, max_harts=8).finish().to_bytes())
    assert "max-harts" in run(capsys, "refsi", "lint", str(path))[1]
    assert "max-harts" not in run(capsys, "refsi", "lint", "--harts", "8", "--profile", "refsidrv", str(path))[1]


# ---- exit status ---------------------------------------------------------------------------------------------------

USAGE = {
    ("nonsense",): "error: no such command 'nonsense'\n   = note: usage: softcard [OPTIONS] COMMAND [ARGS]...\n",
    ("rnu",): "error: no such command 'rnu'; did you mean 'run'?\n",
    ("refsi", "decod"): "error: no such command 'decod'; did you mean 'decode'",
    ("refsi", "lint", "--as", "poem"): "error: invalid value for '--as': 'poem' is not one of 'auto', 'binary', ",
    ("serve", "acceldev"): "error: missing option '--vfio-user'",
    ("run", CODE, "saxpy", "--gird", "64"): "--grid",
    ("run", CODE, "saxyp"): "unknown kernel 'saxyp'; did you mean 'saxpy'",
    ("run", CODE, "saxpy", "--time-limit", "-1"): "--time-limit is -1, expected a number of seconds above 0",
    ("describe", "refis"): "did you mean 'refsi'",
    ("describe", "refsi", "--json", "--format", "svd"): "--json and --format svd choose the format of the same output",
    ("disasm", "--agent", "gfx99", "--word", "0"): "; did you mean 'gfx909'",
    ("exec", "--agent", "gfx9o0", "true"): "; did you mean 'gfx950'",
    ("exec", "--time-limit", "1", "true"): "--time-limit requires --device rocm, opencl or refsi, or --agent NAME",
    ("exec", "--error-exitcode", "3", "true"): "--error-exitcode requires --check, with at least one of memory, ",
    (
        "fletcher",
        "new",
        "name",
        "/no/schema",
        "-o",
        "-",
    ): "--output is -, expected a folder: the command writes several",
    ("exec", "--device", "rcom", "true"): "; did you mean 'rocm'",
    ("refsi", "decode", "/no/such/file"): "cannot read /no/such/file: No such file or directory",
    ("refsi", "lint", "/"): "cannot read /: Is a directory",
    ("refsi", "play", "/no/such/file"): "cannot read /no/such/file: No such file or directory",
    ("refsi", "play", "--engine", "magic"): "magic",
    ("refsi", "play", "--step-limit", "-1"): "step-limit",
    ("describe", "refsi", "--format", "poem"): "poem",
    ("run", "k.co", "--grid", "9" * 5000): "9' is not a size, expected one like 1024",
    (
        "run",
        CODE,
        "saxpy",
        "--grid",
        "0",
    ): "size '0' is too small or too large, expected 1 to 4294967295 in each dimension",
    (
        "run",
        CODE,
        "saxpy",
        "--group",
        "64x4294967296",
    ): "size '64x4294967296' is too small or too large, expected 1 to 4294967295",
    ("run", CODE, "saxpy", "--agent", "gfx90"): "unknown agent 'gfx90', expected one of rv64gc, gfx700,",
    ("run", CODE, "saxpy", "--arg", "f16=1e9"): "argument 'f16=1e9': 1000000000.0 does not fit float16",
    ("run", CODE, "saxpy", "--arg", "f16:2:1,1e9"): "1000000000.0 does not fit float16",
    ("run", CODE, "saxpy", "--arg", "local:-1"): "argument 'local:-1': the size of LDS must be 0 to 65536 bytes",
    ("check", CODE, "--agent", "gfx90"): "unknown agent 'gfx90', expected one of gfx700,",
    ("inspect", CODE, "--agent", "gfx90"): "unknown agent 'gfx90', expected one of gfx700,",
    ("disasm", CODE, "--agent", "gfx90"): "unknown agent 'gfx90', expected one of rv64gc, gfx700,",
    ("exec", "--agent", "gfx90", "true"): "the kernel driver has no agent 'gfx90', expected one of gfx803,",
    (
        "exec",
        "--agent",
        "gfx900",
        "--time-limit",
        "nan",
        "true",
    ): "--time-limit is nan, expected a number of seconds above 0",
    ("exec", "--offset", "3", "true"): "--offset is 0x3, expected a multiple of 4",
    ("rv64", "--isa", "rv32i", "/no/such/file"): "'rv32i' must be an instruction set of 64-bit harts",
    (
        "rv64",
        "--vlen",
        "100",
        "/no/such/file",
    ): "vector registers must have a power of two of bits, 64 to 65536, not 100",
    ("rv64", "--time-limit", "inf", "/no/such/file"): "--time-limit is inf, expected a number of seconds above 0",
    (
        "serve",
        "acceldev",
        "--vfio-user",
        "/no/such/socket",
        "--pause",
        "nan",
    ): "--pause is nan, expected 0 or a positive number",
    ("serve", "acceldev", "--vfio-user", "/no/such/socket"): "cannot listen at /no/such/socket: No such file",
    (
        "serve",
        "fletcher",
        "--no-library",
        "--socket",
        "/no/such/socket",
    ): "cannot listen at /no/such/socket: No such file",
    ("serve", "refsi", "--no-library", "--socket", "/no/such/socket"): "cannot listen at /no/such/socket: No such",
    ("describe", "gfx900"): "unknown device 'gfx900', expected one of refsi, acceldev",
}


@pytest.mark.parametrize("arguments", USAGE)
def test_usage_errors(capsys: Capture, arguments: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert USAGE[arguments] in err
    assert "Traceback" not in err


def test_errors_do_not_quote_without_end(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "buffer.txt"
    path.write_text("1 2\n3 " + "x" * 100_000)
    code, _, err = run(capsys, "refsi", "decode", str(path))
    assert code == 1
    assert len(err) < 2500
    assert err.startswith(f"{path}:2:3: error: 'xxx")
    assert "' is not a number, expected decimal or 0x hex\n" in err


def test_bad_text_files(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("1 2\n3 four")
    code, _, err = run(capsys, "refsi", "decode", str(path))
    assert code == 1
    assert (
        err
        == f"{path}:2:3: error: 'four' is not a number, expected decimal or 0x hex\n   |\n 2 | 3 four\n   |   ^^^^\n"
    )
    path.write_bytes(b"\xff")
    code, _, err = run(capsys, "refsi", "decode", "--as", "words", str(path))
    assert (code, err) == (2, f"error: {path} has byte 0xff at 0x0, expected text in ASCII\n")


def test_odd_bytes_cannot_be_words(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "odd.bin"
    path.write_bytes(b"\xc0\0\0")
    code, _, err = run(capsys, "refsi", "encode", str(path))
    assert code == 2
    assert "3 bytes, expected whole chunks of 8 bytes" in err
    assert run(capsys, "refsi", "encode", str(path), "-o", "/no/such/folder/x")[0] == 2


def test_a_bad_script_line_names_its_number(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("open m\n\nfly away\n")
    code, out, err = run(capsys, "refsi", "play", str(path))
    assert (code, out) == (2, "open ok\n")
    assert err.startswith(f"{path}:3:1: error: unknown call 'fly', expected one of open,")


def test_scripts_may_hold_any_bytes(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"open m\nstr 0x50000000 \xff\xfe\nr64 0x50000000\n\xff\xff\n")
    code, out, _ = run(capsys, "refsi", "play", "--profile", "spec", "--engine", "reference", str(path))
    assert (code, out) == (2, "open ok\nstr r=0\nr64 0x50000000 r=0 afeff\n")


def test_scripts_have_lines_of_some_length(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refsi, "MAX_FILE_BYTES", 20)
    path = tmp_path / "script"
    path.write_text("open m\n# 45678901234567890\n")
    assert run(capsys, "refsi", "play", str(path))[:2] == (0, "open ok\n")
    path.write_text("open m\n# 456789012345678901\n")
    code, out, err = run(capsys, "refsi", "play", str(path))
    assert (code, out) == (2, "open ok\n")
    assert err.startswith(f"{path}:2: error: a line has more than 20 bytes\n")


def test_beyond_the_model(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("open g\n")
    code, _, err = run(capsys, "refsi", "play", "--profile", "spec", str(path))
    assert code == 3
    assert err.startswith(f"{path}:1:1: not modelled: RefSi G1 is modelled only in profile refsidrv")


def test_profile_level_from_the_environment(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "script"
    path.write_text("open m\n")
    monkeypatch.setenv(refsi.PROFILE_LEVEL_VARIABLE, "many")
    assert run(capsys, "refsi", "play", str(path)) == (2, "", "error: CA_PROFILE_LEVEL is 'many', expected a number\n")
    assert run(capsys, "refsi", "play", "--profile", "spec", str(path))[0] == 0
    assert run(capsys, "refsi", "play", "--profile-level", "3", str(path))[0] == 0
    monkeypatch.setenv(refsi.PROFILE_LEVEL_VARIABLE, "3")
    assert run(capsys, "refsi", "play", str(path))[0] == 0


def explode(*_: object) -> None:
    raise ZeroDivisionError("by design")


def test_our_own_mistakes_are_reported_as_such(capsys: Capture, good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refsi, "lines", explode)
    code, _, err = run(capsys, "refsi", "decode", good)
    assert code == 4
    assert err.startswith("bug in softcard: ZeroDivisionError: by design\n   = note: in explode (line ")
    assert "please report it" in err
    assert "Traceback" not in err
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "refsi", "decode", good])


@pytest.mark.parametrize("kind", [NoCompiler, NoLibraryCompiler, ArrowMissing])
def test_what_is_not_installed_is_no_mistake_of_a_guest(kind: type[SoftcardError]) -> None:
    assert exit_code(kind("pip install it")) == 2


def test_a_vcd_without_its_package(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vcd", None)
    path = tmp_path / "run.jsonl"
    path.write_text('{"time": 0, "event": "command-started"}\n')
    code, _, err = run(capsys, "trace", str(path), "--format", "vcd")
    assert (code, err) == (2, "error: VCD needs pyvcd: pip install 'softcard[vcd]'\n")


def test_a_model_bug_has_its_status(capsys: Capture, good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def confess(*_: object) -> None:
        raise ModelBug("not our day")

    monkeypatch.setattr(refsi, "lines", confess)
    assert run(capsys, "refsi", "decode", good) == (4, "", "bug in softcard: not our day\n")
    with pytest.raises(ModelBug):
        main(["--debug", "refsi", "decode", good])


def test_help(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "refsi" in out
    assert run(capsys, "refsi", "play", "--help")[0] == 0
    assert app.main is main
    assert run(capsys, "--version") == (0, f"softcard {softcard.__version__}\n", "")


# ---- from outside --------------------------------------------------------------------------------------------------


def options_of(group: typer.Typer, name: str = "") -> Iterator[tuple[str, dict[str, tuple[Any, Any]]]]:
    """Every command with its options by name: the type of the value, and what typer knows of the option.

    In annotations, typer stores the first name as the default.
    """
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from options_of(below.typer_instance, f"{name} {below.name}".strip())
    for command in group.registered_commands:
        assert command.callback is not None
        hints = get_type_hints(command.callback, include_extras=True).values()
        options = [(get_args(hint)[0], option) for hint in hints for option in getattr(hint, "__metadata__", ())]
        full = f"{name} {command.name or command.callback.__name__}".strip()
        yield full, {word: each for each in options for word in (each[1].default, *(each[1].param_decls or ()))}


def test_options_have_one_name_on_all_commands() -> None:
    commands = dict(options_of(tree(list(COMMANDS))))
    assert len(commands) > 30
    for name, options in commands.items():
        assert not {"--to", "--form", "--sarif", "--timeout"} & set(options), name
        forms = list(options["--format"][0]) if "--format" in options and "asm" not in name else []
        assert ("json" in forms) == ("--json" in options), name
        if "--json" in options:
            assert (options["--json"][0], options["--json"][1].help) == (bool, "Short for --format json."), name
        assert ("-o" in options) == ("--output" in options), name
        if "--as" in options:
            assert name.partition(" ")[0] in ("inspect", "check", "refsi"), name
    for name in ("run", "exec"):
        assert {"--time-limit", "--error-exitcode", "--format", "--json"} <= set(commands[name])


def test_a_narrow_terminal(tmp_path: Path) -> None:
    """Of 40 columns: help, errors of options and diagnostics fit, without words that are lost."""
    (tmp_path / "bad.bin").write_bytes(BAD.to_bytes())
    for arguments, status, text in (
        (["--help"], 0, "Show the content of a file."),
        (["rnu"], 2, "error: no such command 'rnu'; did you mean 'run'"),
        (
            ["check", "bad.bin", "--as", "refsi"],
            1,
            "error[header-opcode]: header 0x00000000c0000a00: unknown opcode 10",
        ),
        (["check", "bed.bin"], 2, "error: cannot read bed.bin: No such file or directory; did you mean 'bad.bin'"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "softcard", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path,
            env=os.environ | {"COLUMNS": "40", "PYTHONPATH": str(Path(softcard.__file__).parents[1])},
        )  # fmt: skip
        shown = done.stdout + done.stderr
        assert done.returncode == status, shown
        summary = "RefSi command buffer: "  # a terminal wraps this line
        assert all(len(line) <= 40 for line in shown.splitlines() if not line.startswith(summary)), shown
        assert text in " ".join(shown.replace("│", " ").split()), shown


def outside(code: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(softcard.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, **kwargs
    )  # type: ignore[call-overload]


@pytest.mark.slow
def test_decoding_does_not_load_the_compiler() -> None:
    code = (
        "import sys; from softcard.cli import main; status = main(['refsi', 'decode']); "
        "status += main(['disasm', '--agent', 'rv64gc', '--word', '0x73']); "
        "print(status, [name for name in ('llvmlite', 'elftools') if name in sys.modules])"
    )
    result = outside(code, input="0xc0000100")
    assert result.stdout == f"0x0000: FINISH\n    .option norvc\n    {'ecall':<40}# 0x0: 00000073\n0 []\n"


@pytest.mark.slow
def test_a_closed_pipe_is_no_traceback() -> None:
    code = "import sys; from softcard.cli import main; sys.exit(main(['refsi', 'registers', '--file', 'counters']))"
    environment = {**os.environ, "PYTHONPATH": str(Path(softcard.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.slow
def test_a_closed_pipe_ends_all_commands_alike(tmp_path: Path) -> None:
    """Without a message, and as well as if all had been read; whether little or much is left to write."""
    trace, code = tmp_path / "run.jsonl", tmp_path / "k.co"
    trace.write_text('{"time": 1, "event": "signal-changed", "address": "0x10", "value": 1}\n' * 3000)
    code.write_bytes(bare_code_object(bytes.fromhex("000080bf" * 3000 + "000081bf"), "gfx900", name="k"))
    commands = [
        ["trace", trace], ["trace", trace, "-o", "-"], ["trace", trace, "--format", "jsonl"], ["--help"],
        ["run", "--help"], ["refsi", "--help"], ["inspect", code, "--json"],
        ["inspect", code, trace], ["check", code, code, "--format", "sarif"],
        ["inspect", code], ["disasm", code], ["report", trace, "-o", "-"], ["describe", "refsi"],
        ["devices"], ["check", code], ["asm", "--agent", "gfx900", "-o", "-", "-"],
    ]  # fmt: skip
    program = "import sys; from softcard.cli import main; sys.exit(main(sys.argv[1:]))"
    for command in commands:
        with subprocess.Popen(
            [sys.executable, "-c", program, *map(str, command)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            process.stdout.close()
            process.stdout = None
            _, err = process.communicate(b"s_endpgm\n")
        assert (process.returncode, b"roken" in err, b"rror" in err) == (0, False, False), (command, err)
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("arguments", [["rnu"], ["run"], ["check", "/no/such/file"]])
def test_a_closed_standard_error_keeps_the_status(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        command = [sys.executable, "-m", "softcard", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=closed, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_standard_output_as_a_file(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Bytes as they are; what is said besides goes to standard error."""
    code = tmp_path / "k.s"
    code.write_text("s_endpgm\n")
    assert main(["asm", "--agent", "gfx900", str(code), "--format", "binary", "-o", "-"]) == 0
    assert capfdbinary.readouterr() == (bytes.fromhex("000081bf"), b"4 bytes\n")
    (tmp_path / "run.jsonl").write_text('{"time": 1, "event": "signal-changed", "address": "0x10", "value": 1}\n')
    assert main(["report", str(tmp_path / "run.jsonl"), "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"<!doctype html>")
    assert err.startswith(b"-: ")


@pytest.mark.slow
def test_demo(capsys: Capture) -> None:
    code, out, err = run(capsys, "demo", "--quick")
    assert (code, err) == (0, "")
    assert out.count(" OK ") == 13  # 8 kernels of RefSi, 5 of HSA
    assert "WRONG" not in out
    assert "count announces 2 payload chunks, expected 1" in out
    assert "  --> broken+0xe (pc 0x102f2)\n" in out
    assert "c.sw a0,0(a1), a1 = 0x200000014\n" in out
    assert " hart 1, instance 5\n" in out
    assert "error[sync/barrier-not-reached]: wave 1 of 2 ended without reaching this barrier\n" in out


def test_demo_has_a_finding_of_each_check() -> None:
    found = list(findings())
    assert [check for check, _ in found] == list(CHECKS)
    assert all(each.check == check for check, each in found if check != LEAKS)
    assert {check: each.kind for check, each in found} == {
        "memory": "out-of-bounds",
        "leaks": "leak",
        "init": "undefined-exec",
        "fidelity": "approximate-exec",
        "races": "write-write",
        "lanes": "read-write",
        "waits": "vector-result-read",
        "sync": "barrier-not-reached",
    }
    texts = [as_text([each]) for _, each in found]
    assert all(f"--> {check}+0x" in text for (check, _), text in zip(found, texts, strict=True) if check in BODIES)


def test_help_says_what_each_command_says_of_itself(capsys: Capture) -> None:
    shown = " ".join(run(capsys, "--help")[1].replace("│", " ").split())
    for name, listed in COMMANDS.items():
        assert f"{name} {listed.help}" in shown
        found = listed.load()
        itself = found.info.help if isinstance(found, typer.Typer) else (found.__doc__ or "").partition("\n\n")[0]
        assert " ".join(itself.split()) == listed.help, name


@pytest.mark.parametrize("arguments", [[], ["run"], ["serve"], ["serve", "fletcher"], ["refsi", "play"]])
def test_help_names_no_type_of_flags(capsys: Capture, arguments: list[str]) -> None:
    _, out, _ = run(capsys, *arguments, "--help")
    assert "--help" in out
    assert "bool" not in out


def test_help_loads_no_command() -> None:
    """Nor NumPy: it is there at once."""
    text = "import sys; from softcard.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "numpy" not in loaded
    assert not loaded & {f"softcard.cli.{listed.place.partition('.')[0]}" for listed in COMMANDS.values()}


def test_garbage_is_collected_rarely() -> None:
    """Hundreds of times while modules are loaded, and once more over all of it at the end, cost a tenth of a start."""
    text = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 1000)); "
        "from softcard.cli import main; before = gc.get_threshold(), gc.get_stats()[0]['collections']; "
        "main(['disasm', '--agent', 'rv64gc', '--word', '0x73']); "
        "print(gc.get_threshold() == before[0], gc.get_stats()[0]['collections'] - before[1] < 10)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["True True", "True"]


def test_a_shell_completes_names_and_options() -> None:
    for words, *expected in (
        ("softcard dis", "disasm"),
        ("softcard run --both", "--both-engines"),
        ("softcard run --agent gfx906", "gfx906"),
        ("softcard asm --agent rv", "rv64gc"),
        ("softcard exec --agent gfx8", "gfx803"),
        ("softcard check --agent gfx702", "gfx702"),
        ("softcard run --check memory,i", "memory,init"),
        ("softcard describe acceldev/", "acceldev/commands"),
        ("softcard serve fletcher --kernel su", "sum"),
        ("softcard bench refs", "refsi"),
    ):
        asked = {"_SOFTCARD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command = [sys.executable, "-c", "from softcard.cli import main; main([])"]
        done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
        assert done.stdout.split() == expected, words


def test_a_file_that_may_not_be_read(capsys: Capture, good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer versions of typer test this before the command runs."""
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr("builtins.open", refused := lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "")))
    monkeypatch.setattr(Path, "open", refused)
    code, _, err = run(capsys, "refsi", "decode", good)
    assert code == 2
    assert err.startswith(f"error: cannot read {good}: ")


def test_interrupts_end_with_130(capsys: Capture, good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(refsi, "lines", interrupted)
    assert run(capsys, "refsi", "decode", good) == (130, "", "")


def test_groups_without_a_command(capsys: Capture) -> None:
    code, out, err = run(capsys, "refsi")
    assert (code, out) == (2, "")
    assert err.startswith("error: missing command\n   = note: usage: softcard refsi [OPTIONS] COMMAND [ARGS]...\n")
    assert err.endswith("   = help: softcard refsi --help shows all options\n")
    assert run(capsys)[0] == 2, "with the help"


def test_lints_of_a_text_have_its_positions(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("# a comment\ncb 0xc0000100 0xc0000a00\n")
    code, out, _ = run(capsys, "refsi", "lint", str(path))
    assert code == 0, "the second command comes after FINISH"
    path.write_text("# a comment\n  0xc0000000, 0xc0000a00\n")
    code, out, _ = run(capsys, "refsi", "lint", str(path))
    assert code == 1
    excerpt = "   |\n 2 |   0xc0000000, 0xc0000a00\n   |               ^^^^^^^^^^\n"
    assert f"{path}:2:15: error[header-opcode]: header 0x00000000c0000a00: unknown opcode 10\n{excerpt}" in out
    assert "   = note: in the command buffer at byte 0x8, chunk 1\n" in out
    path.write_text("0x0000: NOP\n  0x0008: RUN_INSTANCES MAX_HARTS=9 NUM_INSTANCES=1 ; nine\n")
    code, out, _ = run(capsys, "check", str(path))
    assert code == 1
    assert f"{path}:2:11: error[max-harts]: " in out
    assert f"   | {' ' * 10}{'^' * 41}\n" in out


@pytest.mark.parametrize("command", ["lint", "play"])
def test_findings_of_refsi_in_other_formats(capsys: Capture, tmp_path: Path, command: str) -> None:
    path = tmp_path / "words.txt"
    path.write_text("open m\ncb 0xc0000a00 0xc0000100\n" if command == "play" else "0xc0000a00 0xc0000100\n")
    more = ["--profile", "spec"] if command == "play" else []
    code, out, err = run(capsys, "refsi", command, str(path), "--format", "sarif", *more)
    [found] = json.loads(err if command == "play" else out)["runs"]
    assert code == 1
    assert found["results"][0]["ruleId"] == "refsi/header-opcode"
    assert found["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 1 + (command == "play")
    code, out, err = run(capsys, "refsi", command, str(path), "--json", *more)
    assert json.loads(err if command == "play" else out)[0]["rule"] == "refsi/header-opcode"
    assert run(capsys, "refsi", command, str(path), "--json", "--format", "junit", *more)[0] == 2


def test_a_text_on_standard_input_is_shown(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be read again for the message."""
    for arguments, text, column in (
        (("refsi", "play", "-"), "open m\nr64 0x10 zz\n", 10),
        (("asm", "-"), "s_nop 0\n\tv_add_f32 v0, v1, q7 ; last\n", 20),
        (("refsi", "decode", "-", "--as", "words"), "1\n2 3 4x\n", 5),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code, _, err = run(capsys, *arguments)
        line = text.splitlines()[1].replace("\t", "    ")
        assert code in (1, 2)
        assert err.startswith(f"<stdin>:2:{column}: error: ")
        assert f"\n 2 | {line}\n" in err
