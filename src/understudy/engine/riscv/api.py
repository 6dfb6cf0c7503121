"""What a device may ask of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from understudy.engine.riscv.stops import Exit
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import Hart


class Engine(Protocol):
    """Runs harts. The reference and the JIT engine are interchangeable."""

    between_slices: Callable[[Hart], None] | None
    """Called on the hart's thread about 20 times a second or more often while it runs; may raise."""
    interpreted: int
    """Instructions that were executed one by one, not as machine code, since the engine was made."""

    def run(self, hart: Hart, fuel: int) -> Exit:
        """Execute from hart.pc until something happens, at most `fuel` instructions: the turn of a hart.

        A reservation lasts for one turn: it is gone after the exits FUEL and WAIT, where others may store next.
        """

    @property
    def translates(self) -> bool:
        """Whether there is machine code for harts: see `translated`."""

    def translated(self, hart: Hart) -> int:
        """The machine code that runs a hart for FUEL instructions and gives why it ended (`jit.dispatcher`), where the
        engine `translates`; good for this hart and all others asked for, until the engine does anything else."""

    def worked(self, hart: Hart, instructions: int) -> None:
        """Harts that were run so retired as many."""

    def flush_code(self, hart: Hart) -> None:
        """Forget cached instructions of `hart` (fence.i, SYNC_CACHE, reset)."""

    def flush_pages(self, hart: Hart) -> None:
        """Forget cached page translations of `hart` (window changes, SYNC_CACHE, sfence.vma)."""

    def code_synced(self) -> None:
        """The device has flushed the instruction caches of all harts, or has been reset."""

    def trapped(self, hart: Hart) -> None:
        """`hart` has taken a trap, by somebody else's doing: a simulated translation buffer is empty then."""

    def remapped(self) -> None:
        """Other memory may be behind some addresses. What harts have in a translation buffer they keep."""

    def instruction_counts(self) -> dict[int, int]:
        """How often the instruction at each pc has retired since the engine was made, of one that counts them."""

    def executed(self) -> dict[int, Insn]:
        """The instruction at each pc that `instruction_counts` has: where there were several, one of them."""

    def close(self) -> None:
        """Give memory and threads back; harts run no more."""

    def code_written(self, host_address: int, size: int) -> None:
        """Somebody else (host, DMA, command processor) wrote these bytes of this process: reservations of them end,
        and coherent engines drop instructions cached from there."""

    def code_exposed(self, holds: Callable[[int, int], bool]) -> None:
        """Memory for which `holds(host_address, size)` may have been written without notice: coherent engines drop
        instructions cached from there."""
