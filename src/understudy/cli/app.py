"""The tree of commands, and the last line of defence."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from understudy import __version__
from understudy.cli import fletcher, refsi, serve
from understudy.cli.assembly import asm, disasm
from understudy.cli.check import check
from understudy.cli.demo import demo
from understudy.cli.describe import describe, devices
from understudy.cli.doctor import doctor
from understudy.cli.exec_program import exec_program
from understudy.cli.exits import ExitCode, exit_code, report, report_bug
from understudy.cli.inspect import inspect
from understudy.cli.report import report as report_page
from understudy.cli.run import run
from understudy.cli.trace import trace
from understudy.core.errors import UnderstudyError

app = typer.Typer(
    name="understudy",
    help="Virtual accelerators: documented host interfaces played bit for bit, kernels really executed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(fletcher.app, name="fletcher")
app.add_typer(refsi.app, name="refsi")
app.add_typer(serve.app, name="serve")
app.command("asm")(asm)
app.command("check")(check)
app.command("demo")(demo)
app.command("describe")(describe)
app.command("devices")(devices)
app.command("disasm")(disasm)
app.command("doctor")(doctor)
app.command("exec", context_settings={"allow_interspersed_args": False})(exec_program)
app.command("inspect")(inspect)
app.command("report")(report_page)
app.command("run")(run)
app.command("trace")(trace)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Virtual accelerators: documented host interfaces played bit for bit, kernels really executed."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and give its exit status; nothing gets past it as a traceback, except with --debug."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        app(args=given, prog_name="understudy")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitCode.OK if ended.code is None else ExitCode.GUEST
    except UnderstudyError as error:
        if "--debug" in given:
            raise
        report(error)
        return exit_code(error)
    except Exception as error:  # whatever is left is a bug of ours, and is reported as one
        if "--debug" in given:
            raise
        report_bug(error, given)
        return ExitCode.BUG
    return ExitCode.OK
