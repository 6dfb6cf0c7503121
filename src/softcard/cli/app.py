"""The command line: the table of commands, their parsing, exit status, and unexpected errors."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from softcard import __version__
from softcard.cli.exits import (
    INTERRUPTED,
    ExitCode,
    UsageError,
    exit_code,
    is_of_arguments,
    report,
    report_arguments,
    report_bug,
)
from softcard.cli.output import escaping, is_closed, unwritten
from softcard.core.errors import SoftcardError
from softcard.core.tracebacks import show_whole

# ---- the table of commands -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of the command table: a command or group of commands, which is imported only when it is used.

    `place` is MODULE.NAME, an attribute of the module `softcard.cli.MODULE`.
    """

    place: str
    help: str

    def load(self) -> Any:
        """Import the module; return the command's function, or the group's `typer.Typer`."""
        module, _, name = self.place.rpartition(".")
        return getattr(import_module(f"softcard.cli.{module}"), name)


COMMANDS: Final = {
    "asm": Listed(
        "assembly.asm", "Assemble text of AMD GPUs into a code object or bare code, of RISC-V into a program."
    ),
    "bench": Listed("running.bench.bench", "Measure how fast this machine is, or a kernel of your own."),
    "campaign": Listed("campaign.campaign", "Run a matrix of programs, compilers and seeds, on many machines."),
    "check": Listed("inspect.check", "Look for mistakes in a file without running it."),
    "compare": Listed("campaign.compare", "Compare two campaigns, or two columns of one."),
    "demo": Listed("demo.demo", "Run kernels and commands on all five devices, and check all results."),
    "describe": Listed(
        "describe.describe", "Show a device's registers, commands or packets: for people, or as a file for tools."
    ),
    "devices": Listed("describe.devices", "List the available devices, agents and built-in kernels."),
    "diff": Listed("diff.diff", "Show where two records of runs, or two files, begin to differ."),
    "disasm": Listed("assembly.disasm", "Show machine code as assembly text that `asm` turns into the same bytes."),
    "doctor": Listed("doctor.doctor", "Show what this machine can do, and the commands that add missing parts."),
    "exec": Listed(
        "attach.exec_program.exec_program", "Run a host program, unmodified, with a virtual device for the real one."
    ),
    "inspect": Listed("inspect.inspect", "Show the content of a file."),
    "report": Listed("traces.report", "Write a trace as one HTML file that needs no network."),
    "run": Listed("running.run.run", "Run one kernel of any interface, and print its arrays afterwards."),
    "rv64": Listed("running.rv64.rv64", "Run an RV64 program by itself; the exit status is the program's."),
    "trace": Listed("traces.trace", "Convert a trace to the format of another program."),
    "triage": Listed("campaign.triage", "Group the failures of a campaign, and reduce their programs."),
    "amdcl2": Listed("assembly.amdcl2", "AMD OpenCL 2.0: replace machine code in a program's file."),
    "fletcher": Listed("fletcher.app", "Fletcher: register maps from Arrow schemas, and templates of kernels."),
    "opencl": Listed("opencl.app", "OpenCL: install the platform for programs, or print its environment variables."),
    "refsi": Listed("refsi.app", "RefSi: build kernels, play scripts, read, check and write command buffers."),
    "serve": Listed("attach.serve.app", "Plug a device into QEMU or another vfio-user client, or into a host program."),
}
_CONTEXTS: Final = {name: {"allow_interspersed_args": False} for name in ("exec", "rv64")}
"""The settings of commands that run a program: options after the program's name belong to the program."""


def tree(names: list[str]) -> typer.Typer:
    """Return the command tree that consists of the commands `names`, and import their modules."""
    made = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    for name in names:
        found = COMMANDS[name].load()
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name)
        else:
            made.command(name, context_settings=_CONTEXTS.get(name))(found)
    made.callback()(lambda: None)
    return made


class LazyGroup(TyperGroup):
    """The group of all commands. Help uses the command table; only the module of the called command is imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the table of commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command as help and completion show it, without importing its module."""
        listed = COMMANDS.get(cmd_name)
        return None if listed is None else TyperCommand(cmd_name, help=listed.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import and return the command that is called."""
        if args[0] not in COMMANDS:
            self._suggest(ctx, args[0])
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            group: Any = typer.main.get_command(tree([name]))
            command = group.commands[name]
            _hide_types_of_flags(command)
            _escape_output(command)
        return name, command, rest

    def _suggest(self, ctx: Any, name: str) -> None:
        """End with an error if the unknown name is similar to commands; typer knows only those that are loaded."""
        from difflib import get_close_matches

        if near := get_close_matches(name, COMMANDS):
            ctx.fail(f"No such command {name!r}. Did you mean {', '.join(map(repr, near))}?")

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the group's own options."""
        return _flags_without_type(super().get_params(ctx))


def _flags_without_type(parameters: list[Any]) -> list[Any]:
    """Return the parameters after clearing the displayed type of flags.

    Newer versions of typer would show --json as <bool>.
    """
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


def _hide_types_of_flags(command: Any) -> None:
    """Clear the displayed type of the flags of a command, or of all commands in a group."""
    _flags_without_type(command.get_params(typer.Context(command)))
    for each in getattr(command, "commands", {}).values():
        _hide_types_of_flags(each)


def _escape_output(command: Any) -> None:
    """Let a command, or all commands of a group, escape control characters in their output, except in their help."""
    if hasattr(command, "commands"):
        for each in command.commands.values():
            _escape_output(each)
        return
    invoke = command.invoke

    def escaped(context: Any) -> Any:
        try:
            with escaping():
                return invoke(context)
        except BrokenPipeError:
            if is_closed():  # the reader has closed the pipe; click would end with status 1
                raise typer.Exit(ExitCode.OK) from None
            raise

    command.invoke = escaped


# ---- the entry point -------------------------------------------------------------------------------------------------

app = typer.Typer(
    name="softcard",
    cls=LazyGroup,
    help="Softcard emulates accelerators (AMD GPUs, RISC-V accelerators, a PCI device, Fletcher FPGAs), runs "
    "your unmodified kernels, drivers and programs at JIT speed, and tells you which rule they broke, in "
    "which source line.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


LOST = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The errno values for which printing to standard output fails because it is closed or full.

Errors of other files have their own messages.
"""


GC_THRESHOLD: Final = 50_000
"""The number of new objects after which Python collects garbage.

With Python's default of 700, there are hundreds of collections during imports.
"""
atexit.register(gc.freeze)  # the process ends: a last garbage collection would be wasted time


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"softcard {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Softcard emulates accelerators (AMD GPUs, RISC-V accelerators, a PCI device, Fletcher FPGAs), runs your
    unmodified kernels, drivers and programs at JIT speed, and tells you which rule they broke, in which source
    line.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit status; a traceback is only printed with --debug."""
    words = sys.argv[1:] if arguments is None else arguments
    status: int = ExitCode.OK
    lost = None
    try:
        with _rare_collections(), _printing_any_name():
            status = _run(words)
    except OSError as error:
        lost = error
    lost = unwritten() or lost
    if lost is None or status:  # with a status, the error is reported already
        return status
    if "--debug" in words:
        raise lost
    if lost.errno == errno.EPIPE:  # the reader has closed the pipe, as `head` does
        return ExitCode.OK
    report(UsageError(f"cannot write standard output: {lost.strerror}"))
    return ExitCode.USAGE


def _is_of_closed_pipe(ended: SystemExit) -> bool:
    """Return True if rich has ended the command since the reader of help closed the pipe."""
    at = ended.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_name == "on_broken_pipe"


@contextmanager
def _rare_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _printing_any_name() -> Iterator[None]:
    """Let the block print file names that are not valid text, without an encoding error.

    With UTF-8 output, such names are printed as their original bytes, and otherwise with escapes."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        yield
        return
    stream.reconfigure(errors="surrogateescape" if stream.encoding.lower() == "utf-8" else "backslashreplace")
    try:
        yield
    finally:
        stream.reconfigure(errors="strict")


def _run(words: list[str]) -> int:
    try:
        status = app(args=words, prog_name="softcard", standalone_mode=False)
        return status if isinstance(status, int) else ExitCode.OK
    except typer.Abort:  # Ctrl-C, in older versions of typer, or the end of the input at a prompt
        return INTERRUPTED
    except SystemExit as ended:
        if _is_of_closed_pipe(ended):
            return ExitCode.OK
        return ended.code if isinstance(ended.code, int) else ExitCode.OK if ended.code is None else ExitCode.GUEST
    except SoftcardError as error:
        if "--debug" in words:
            show_whole(error)
            raise
        with suppress(BrokenPipeError):
            report(error)
        return exit_code(error)
    except MemoryError:
        if "--debug" in words:
            raise
        report(UsageError("the command needs more memory than is left: give it smaller files or arrays"))
        return ExitCode.USAGE
    except Exception as error:
        if is_of_arguments(error):
            with suppress(BrokenPipeError):
                report_arguments(error)
            return ExitCode.USAGE
        # any other exception is a bug in Softcard, and is reported as one
        if "--debug" in words or (isinstance(error, OSError) and error.filename is None and error.errno in LOST):
            raise
        report_bug(error, words)
        return ExitCode.BUG
