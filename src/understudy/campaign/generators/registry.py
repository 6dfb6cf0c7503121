"""All generators: what they are called, which version they are of, and which module has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from understudy.campaign.generators.choices import Choices
    from understudy.campaign.generators.tree import Node


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator by name. `version` changes whenever a seed gives another program than before.

    `maker` of `module` makes a program, a tree; `suffix` is that of the file of one.
    """

    name: str
    version: int
    module: str
    suffix: str
    about: str
    maker: str = "make"

    def tree(self, choices: Choices) -> Node:
        """A program as these choices have it."""
        made: Node = getattr(self._loaded, self.maker)(choices)
        return made

    def seeded(self, seed: int) -> Node:
        """The program of a seed."""
        from understudy.campaign.generators.choices import Seeded

        return self.tree(Seeded(f"{self.name} {self.version} {seed}"))

    @property
    def _loaded(self) -> Any:
        return import_module(f"understudy.campaign.generators.{self.module}")


def _all(*generators: Generator) -> Mapping[str, Generator]:
    return {each.name: each for each in generators}


GENERATORS: Final = _all(
    Generator("opencl", 1, "opencl", ".opencl.cl", "OpenCL C: a kernel over 256 work-items in groups of 128"),
    Generator("gcn", 1, "gcn", ".gcn.s", "GCN assembly: 256 work-items, the same result on both engines"),
    Generator("refsi", 1, "command_text", ".refsi.txt", "command buffers of RefSi", "make_refsi"),
    Generator("acceldev", 1, "command_text", ".acceldev.txt", "user commands of Acceldev", "make_acceldev"),
    Generator("aql", 1, "command_text", ".aql.txt", "sequences of AQL packets", "make_aql"),
    Generator("rv64", 1, "rv64", ".rv64.c", "C for RV64: a program that prints what it computed"),
)
