"""The table of all program generators: their names, versions and modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from softcard.campaign.generators.tree import Choices, Node


@dataclass(frozen=True, slots=True)
class Generator:
    """A program generator. `version` must change whenever the program of some seed changes.

    The function `maker` of the module `module` of ``softcard.campaign`` draws a program as a tree. `suffix` is the file
    name suffix of such programs.
    `kind` is the name of the generator whose programs are compiled and run in the same way; "" stands for the
    name of this generator. `everywhere` is True if a program has the same result on all agents."""

    name: str
    version: int
    module: str
    suffix: str
    about: str
    maker: str = "make"
    kind: str = ""
    everywhere: bool = False

    @property
    def runs_as(self) -> str:
        """The name of the generator whose programs are compiled and run like this generator's programs."""
        return self.kind or self.name

    def tree(self, choices: Choices) -> Node:
        """Return the program that `choices` determine, as a tree."""
        made: Node = getattr(self._loaded, self.maker)(choices)
        return made

    def seeded(self, seed: int) -> Node:
        """Return the program of a seed, as a tree."""
        from softcard.campaign.generators.tree import Seeded

        return self.tree(Seeded(f"{self.name} {self.version} {seed}"))

    @property
    def _loaded(self) -> Any:
        return import_module(f"softcard.campaign.{self.module}")


COMPILED: Final = ("opencl", "rv64")
"""The generators whose programs are source code for a compiler."""


def _all(*generators: Generator) -> Mapping[str, Generator]:
    return {each.name: each for each in generators}


GENERATORS: Final = _all(
    Generator("opencl", 1, "generators.opencl", ".opencl.cl", "OpenCL C: a kernel over 256 work-items in groups of 128",
              everywhere=True),
    Generator("opencl-small", 1, "generators.opencl", ".opencl.cl", "the same with a few variables and statements",
              "make_small", "opencl", everywhere=True),
    Generator("gcn", 1, "generators.gcn", ".gcn.s", "GCN assembly: 256 work-items, the same result on both engines"),
    Generator("refsi", 1, "perform_commands", ".refsi.txt", "command buffers of RefSi", "make_refsi"),
    Generator("acceldev", 1, "perform_commands", ".acceldev.txt", "user commands of Acceldev", "make_acceldev"),
    Generator("aql", 1, "perform_commands", ".aql.txt", "sequences of AQL packets", "make_aql", everywhere=True),
    Generator("rv64", 1, "generators.rv64", ".rv64.c", "C for RV64: a program that prints what it computed"),
    Generator("rv64-small", 1, "generators.rv64", ".rv64.c", "the same with a few variables and statements",
              "make_small", "rv64"),
)  # fmt: skip
