"""The check `init` of a device's harts: it reports recorded uses of undefined values as findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import numpy as np

from softcard.core.checks import INIT
from softcard.core.findings import Finding, FindingLog
from softcard.core.space import Ram
from softcard.engine.riscv.evaluate import Evaluator
from softcard.engine.riscv.hooks import HartCheck, Instrumentation
from softcard.engine.riscv.shadow.reference import ReferenceShadow, ShadowedEvaluator
from softcard.engine.riscv.shadow.uses import PRINTF, Origins, Site, Use, Uses
from softcard.engine.riscv.shadow_layout import ShadowBlock, ShadowedRam, SharedShadowedRam
from softcard.engine.shadow.bits import NOT_FIRST
from softcard.isa.riscv.assembler import text
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart

WHAT: Final = {
    "branch": "decides a branch of the hart",
    "address": "is used as an address",
    "atomic": "is used as an operand of an atomic operation",
}
SUGGESTION: Final = "write the value before, on every path that leads here"
RESULT: Final = "undefined-result"
IN_PRINTF: Final = "The value was used inside of refsi_printf, so the registers at the call are lost."
"""The reason why the registers of a call of refsi_printf are unknown."""
LONG_CALL, SHORT_CALL = 4, 2
"""The sizes in bytes of calls: jal or jalr, and their compressed forms."""
CALLS: Final = ("jal", "jalr")
ZERO, RA, SP, A0 = 0, 1, 2, 10


class ShadowCheck(HartCheck):
    """Manages the shadow state of a device's harts, and reports uses of undefined values to a log.

    `code` is a function that returns the instruction that a hart has at an address.
    """

    name = INIT

    def __init__(self, log: FindingLog, code: Callable[[Hart, int], Insn | None]) -> None:
        self.log = log
        self.uses = Uses()
        self._code = code
        self._blocks: dict[int, ShadowBlock] = {}
        self._reported: dict[Site, int] = {}
        self._entry, self._defined = 0, 0

    @property
    def shadow(self) -> ShadowCheck:
        """This object itself, as the owner of shadow memory."""
        return self

    @property
    def instrumentation(self) -> Instrumentation:
        """The code that updates shadow bits along with values. The import is local, since it loads the compiler."""
        from softcard.engine.riscv.shadow.translated import DEFINEDNESS

        return DEFINEDNESS

    @property
    def allows_threads(self) -> bool:
        """True: harts have shadow registers of their own, and shadow memory is ordered as memory is."""
        return True

    def ram(self, is_shared: bool) -> type[Ram]:
        """Return the class of memories with a shadow byte for each byte."""
        return SharedShadowedRam if is_shared else ShadowedRam

    def observe(self, evaluator: Evaluator) -> ShadowedEvaluator:
        """Return an evaluator that executes a hart's instructions with shadow bits."""
        hart = evaluator.hart
        return ShadowedEvaluator(evaluator, ReferenceShadow(hart, self.block(hart), self.uses))

    def block(self, hart: Hart) -> ShadowBlock:
        """Return the shadow registers of a hart, as a `ShadowBlock`."""
        if hart.index not in self._blocks:
            self._blocks[hart.index] = ShadowBlock(hart)
        return self._blocks[hart.index]

    def kernel_begins(self, entry: int, arguments: int) -> None:
        """Begin a kernel command whose instances start at `entry`.

        Each instance gets a0 and `arguments` further arguments from a1 on.
        """
        self._entry, self._defined = entry, defined_with(arguments)

    def instance_begins(self, hart: Hart, arguments: int) -> None:
        """Begin an instance on a hart: ra, sp, a0 and `arguments` registers after it are initialised.

        All other registers are uninitialised.
        """
        self.block(hart).begin(defined_with(arguments))

    def kernel_ends(self) -> None:
        """Report uses of undefined values that were recorded since the last call."""
        blocks = list(self._blocks.values())
        for site, use in list(self.uses.sites.items()):
            if use.what not in WHAT and use.what != PRINTF:
                continue
            new = self.uses.count(site, blocks) - self._reported.get(site, 0)
            if new:
                self._reported[site] = self._reported.get(site, 0) + new
                self.log.note(self._finding(use, new))

    def _finding(self, use: Use, count: int) -> Finding:
        code = partial(self._code, use.hart)
        if use.what == PRINTF:
            return _printed(use, count, code)
        origin = Origins(self._entry, self._defined, code, self.uses).of(use.pc, use.insn)
        origin = f"it comes from {origin}" if origin else ""
        message = f"an undefined value {WHAT[use.what]}" + (f": {origin}" if origin else "")
        return Finding(
            INIT,
            f"undefined-{use.what}",
            message,
            insn=text(use.insn, use.pc),
            pc=use.pc,
            unit=f"hart {use.hart.index}",
            suggestion=SUGGESTION,
            origin=origin,
            count=count,
            registers=use.registers,
        )

    # ---- what the host reads back --------------------------------------------------------------------------------
    def read_back(self, address: int, parts: Iterable[tuple[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]]) -> None:
        """Check memory that the host reads, and report bytes in it that harts stored as undefined values.

        The host reads at the device address `address`. `parts` contains the segments of this memory, each with its
        address in this process and its shadow bytes. Afterwards the reported bytes count as initialised.
        """
        bad, first, store = 0, -1, None
        done = 0
        for host, shadows in parts:
            places = np.flatnonzero(shadows)
            stored = [key for key in self.uses.stored if host <= key < host + len(shadows)] if len(places) else []
            found = [(key, self.uses.stored.pop(key)) for key in sorted(stored)]
            if found:
                bad += len(places)
                first = done + int(places[0]) if first < 0 else first
                store = store or found[0][1]
            done += len(shadows)
        if store is None:
            return
        message = f"{bad} bytes of memory at {address:#x} were stored with undefined values: the first is byte {first}"
        self.log.note(
            Finding(
                INIT,
                RESULT,
                message,
                access="write",
                space="global",
                address=store.address,
                size=store.size,
                pc=store.pc,
                insn=text(store.insn, store.pc),
                unit=f"hart {store.hart.index}",
                suggestion=SUGGESTION,
                count=bad,
                registers=store.registers,
                no_registers=NOT_FIRST,
            )
        )


def _printed(use: Use, count: int, code: Callable[[int], Insn | None]) -> Finding:
    """Return the finding for an undefined argument of refsi_printf, at the call."""
    sizes = (LONG_CALL, SHORT_CALL)
    pc, call = next(
        ((pc, found) for pc in (use.caller - size for size in sizes) if (found := code(pc)) and found.name in CALLS),
        (use.caller - LONG_CALL, None),
    )
    return Finding(
        INIT,
        f"undefined-{PRINTF}",
        "an undefined value is an argument of refsi_printf",
        insn="" if call is None else text(call, pc),
        pc=pc,
        unit=f"hart {use.hart.index}",
        suggestion=SUGGESTION,
        count=count,
        no_registers=IN_PRINTF,
    )


def defined_with(arguments: int) -> int:
    """Return a mask of the integer registers that an instance receives: ra, sp, a0 and `arguments` after it."""
    return 1 << ZERO | 1 << RA | 1 << SP | (1 << arguments + 1) - 1 << A0
