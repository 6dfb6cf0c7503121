"""All commands: names, what help says of each, and which module has it, which is loaded when the command is called."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Listed:
    """A command, or a group of them: `place` is the attribute `NAME` of the module `understudy.cli.MODULE`."""

    place: str
    help: str

    def load(self) -> Any:
        """The function, or the group's `typer.Typer`."""
        module, name = self.place.split(".")
        return getattr(import_module(f"understudy.cli.{module}"), name)


COMMANDS: Final = {
    "asm": Listed(
        "assembly.asm", "Assemble text of AMD GPUs into a code object or bare code, of RISC-V into a program."
    ),
    "bench": Listed("bench.bench", "Measure how fast this machine is, or a kernel of your own."),
    "campaign": Listed("campaign.campaign", "Run a matrix of programs, compilers and seeds, on many machines."),
    "check": Listed("check.check", "Look for mistakes in a file without running it."),
    "compare": Listed("compare.compare", "Say what is different between two campaigns, or two columns of one."),
    "demo": Listed("demo.demo", "Run kernels and commands on all five devices, and check all results."),
    "describe": Listed(
        "describe.describe", "Show a device's registers, commands or packets: for people, or as a file for tools."
    ),
    "devices": Listed("describe.devices", "List the devices, agents and built-in kernels that can be had."),
    "diff": Listed("diff.diff", "Say where two records of runs, or two files, begin to differ."),
    "disasm": Listed("assembly.disasm", "Show machine code as assembly text that `asm` turns into the same bytes."),
    "doctor": Listed("doctor.doctor", "Say what this machine can do, and which command adds what is missing."),
    "exec": Listed(
        "exec_program.exec_program", "Run a host program, unmodified, with a virtual device for the real one."
    ),
    "inspect": Listed("inspect.inspect", "Show what stands in a file."),
    "report": Listed("report.report", "Write a trace as one HTML file that needs no network."),
    "run": Listed("run.run", "Run one kernel of any interface, and print what its arrays hold then."),
    "rv64": Listed("rv64.rv64", "Run an RV64 program by itself; the exit status is the program's."),
    "trace": Listed("trace.trace", "Turn a trace into what another program reads."),
    "triage": Listed(
        "triage.triage", "Put failures of a campaign together where they are the same, and make them small."
    ),
    "amdcl2": Listed("amdcl2.app", "AMD OpenCL 2.0: other machine code in a program's file."),
    "fletcher": Listed("fletcher.app", "Fletcher: register maps from Arrow schemas, and kernels to begin with."),
    "refsi": Listed("refsi.app", "RefSi: build kernels, play scripts, read, check and write command buffers."),
    "serve": Listed("serve.app", "Plug a device into QEMU or another vfio-user client, or into a host program."),
}
_CONTEXTS: Final = {name: {"allow_interspersed_args": False} for name in ("exec", "rv64")}
"""What belongs to the program is not ours to read."""


def tree(names: list[str]) -> typer.Typer:
    """These commands, loaded."""
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
    """The group of all commands. Help knows of each what is listed; the one that is called is loaded."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, as listed."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What help and completion show of a command."""
        listed = COMMANDS.get(cmd_name)
        return None if listed is None else TyperCommand(cmd_name, help=listed.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            group: Any = typer.main.get_command(tree([name]))
            command = group.commands[name]
            _name_no_type_of_flags(command)
        return name, command, rest

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own options."""
        return _flags_without_type(super().get_params(ctx))


def _flags_without_type(parameters: list[Any]) -> list[Any]:
    """The same, of which help says no type where they are flags: newer versions of typer say <bool> of --json."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


def _name_no_type_of_flags(command: Any) -> None:
    """Likewise of a command, or of all commands of a group."""
    _flags_without_type(command.get_params(typer.Context(command)))
    for each in getattr(command, "commands", {}).values():
        _name_no_type_of_flags(each)
