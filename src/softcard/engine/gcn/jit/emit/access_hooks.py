"""The interface of a check that writes IR to report accesses of memory and their order."""

from __future__ import annotations

from typing import Protocol

from softcard.ir.builder import Value
from softcard.ir.operand import Operand


class AccessHooks(Protocol):
    """The interface of an emitter, for one region, of code that reports accesses to a check.

    It is created with the region's text, vector registers, control, helpers and addresses.
    """

    def begin_strip(self, exec: str, stores: set[str]) -> None:
        """Begin a strip-mined loop.

        `exec` is the variable that has EXEC, `stores` are the address spaces that the loop stores to.
        """

    def begin_chunk(self) -> None:
        """Begin the code for one lane vector: the lanes that one iteration of a strip-mined loop handles.

        Calls of `access` follow in the order of the accesses.
        """

    def access(self, kind: str, space: str, bits: int, number: int, address: Value, where: Value | None) -> None:
        """Emit the report of access `number` of an instruction, before the access itself.

        `where` is the mask of the lanes, in the lane vector, that make the access."""

    def end_chunk(self) -> None:
        """End the code for one lane vector (one iteration of a strip-mined loop)."""

    def scalar_access(self, dwords: int, address: Operand) -> None:
        """Emit the report that the wave loads dwords at an address."""

    def arrive(self) -> None:
        """Emit the report that the wave has reached a barrier."""

    def finish(self) -> None:
        """Emit the report that the wave ends."""

    def waited(self) -> None:
        """Emit the report that the wave has waited for its stores."""
