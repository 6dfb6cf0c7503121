"""The `softcard` command line."""

from softcard.cli.app import main

__all__ = ["main"]
