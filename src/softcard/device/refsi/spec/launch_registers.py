"""The checks of CMP_RETURN_ADDR and CMP_STACK_TOP when a kernel command of the `spec` profile starts.

A kernel returns to code that the host has put at CMP_RETURN_ADDR (choice `refsi/return-address`). That code is
executed. If it only calls EXIT 0, as the exit stubs of most hosts do, the instance ends there at once. If a hart cannot
execute code there, the instance ends as well, and a lint reports it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from softcard.core.device import Telemetry
from softcard.core.errors import AccessFault, BeyondModel
from softcard.core.space import Unit
from softcard.device.refsi import rules
from softcard.device.refsi.interfaces import HART
from softcard.device.refsi.launch import STACK_ALIGNMENT, KernelPlan
from softcard.isa.riscv.decode import decode, length
from softcard.isa.riscv.insn import IllegalInstruction
from softcard.isa.riscv.state import NO_ADDRESS

if TYPE_CHECKING:
    from softcard.device.refsi.spec.memory import SpecMemory

RETURN_LINT: Final = "return-address"
STACK_LINT: Final = "stack-top"
STUB_BYTES: Final = 16
"""The maximum length in bytes of code that is recognised as an EXIT 0 stub."""
PARCEL: Final = 2
NO_CODE: Final = "memory there holds 0x0000 instead of code"
MOST_KNOWN: Final = 64
A0, A7 = 10, 17
Code = tuple[int, int]
"""The host address of code, and the number of its readable bytes."""


@dataclass(slots=True)
class _Known:
    """The cached result of the checks of CMP_RETURN_ADDR and CMP_STACK_TOP.

    It is valid while windows and code are unchanged.
    """

    codes: list[Code]
    """The code at CMP_RETURN_ADDR that each hart sees."""
    places: tuple[Code, ...]
    """The elements of `codes` without duplicates."""
    lints: list[tuple[str, str]]
    """The lints about CMP_RETURN_ADDR and CMP_STACK_TOP, each as name of the check and message."""
    seen: tuple[bytes, ...] | None = None
    ends: Sequence[int] = ()


class LaunchRegisters:
    """The checker of CMP_RETURN_ADDR and CMP_STACK_TOP, which caches results."""

    def __init__(self, memory: SpecMemory, telemetry: Telemetry) -> None:
        self._memory = memory
        self._telemetry = telemetry
        self._decoder: object = None
        self._windows: object = None
        self._known: dict[tuple[int, int, int, int], _Known] = {}

    def return_addresses(self, plan: KernelPlan) -> Sequence[int]:
        """Return, for each hart of a command, the pc at which its instances end.

        The pc is `NO_ADDRESS` if the code at the return address has to be executed instead.
        """
        memory, harts = self._memory, plan.harts
        if memory.decoder is not self._decoder or memory.windows.active is not self._windows:
            self._decoder, self._windows = memory.decoder, memory.windows.active
            self._known.clear()
        key = plan.return_address, len(harts), harts[0].stack_top, harts[-1].stack_top
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = self._checked(plan)
        seen = tuple([ctypes.string_at(*each) for each in known.places])
        if seen != known.seen:
            known.seen, known.ends = seen, self._ends(plan.return_address, known, seen)
        for check, text in known.lints:
            self._telemetry.lint(check, text, rules.RUN_REGISTERS)
        return known.ends

    def _ends(self, address: int, known: _Known, seen: Sequence[bytes]) -> Sequence[int]:
        """Return, for each hart, the pc at which instances end; it depends on the present code at CMP_RETURN_ADDR.

        `address` is the value of that register. `known.places` has the host ranges of that code, one for each
        different view of the harts. `seen` has the present bytes of each of these ranges."""
        codes = dict(zip(known.places, seen, strict=True))
        known.lints = [each for each in known.lints if each[1] != _returns(address, NO_CODE)]
        if any(size and not any(codes[host, size][:PARCEL]) for host, size in known.codes):
            known.lints.append((RETURN_LINT, _returns(address, NO_CODE)))
        runs = {place: any(code[:PARCEL]) and not exits(code) for place, code in codes.items()}
        end = address & ~1  # the target of JALR
        return [NO_ADDRESS if runs[place] else end for place in known.codes]

    def _checked(self, plan: KernelPlan) -> _Known:
        """Check CMP_RETURN_ADDR and CMP_STACK_TOP for a kernel command; return the result for the cache."""
        codes, problem = self._find(plan.return_address, len(plan.harts))
        lints = [(RETURN_LINT, _returns(plan.return_address, problem))] if problem else []
        problem = self._stack_problem(tuple(each.stack_top for each in plan.harts))
        if problem:
            lints.append((STACK_LINT, problem))
        return _Known(codes, tuple(dict.fromkeys(codes)), lints)

    def _find(self, address: int, harts: int) -> tuple[list[Code], str]:
        """Return the code that each hart sees at `address`, and the reason why a hart cannot execute it.

        The reason is "" if all harts can.
        """
        codes, problem = [], ""
        for index in range(harts):
            try:
                place = self._memory.locate(address & ~1, PARCEL, Unit(HART, index), "execute")
            except AccessFault as fault:
                problem = problem or f"hart {index} cannot execute code there ({fault.message})"
                codes.append((0, 0))
                continue
            if place.ram is None:
                problem = problem or f"this address is in {place.mapping.name}, which holds registers"
                codes.append((0, 0))
                continue
            room = place.mapping.end - place.physical
            if place.window is not None:
                room = min(room, place.window.run(place.offset, place.seat)[1])
            codes.append((place.ram.base_host + place.physical - place.mapping.base, min(room, STUB_BYTES)))
        return codes, problem

    def _stack_problem(self, tops: tuple[int, ...]) -> str:
        """Return the reason why `tops`, the values of CMP_STACK_TOP, are not valid stacks; "" if they are valid."""
        for index, top in enumerate(tops):
            holds = f"CMP_STACK_TOP holds {top:#x}"
            if top % STACK_ALIGNMENT:
                return f"{holds}, expected a multiple of {STACK_ALIGNMENT}"
            try:
                if top < STACK_ALIGNMENT:
                    raise AccessFault(f"there is no memory below {top:#x}", address=top)
                place = self._memory.locate(top - STACK_ALIGNMENT, STACK_ALIGNMENT, Unit(HART, index), "write")
            except AccessFault as fault:
                return (
                    f"{holds}, but hart {index} has no memory for a stack below it ({fault.message}): set it to the "
                    "end of a memory"
                )
            if place.ram is None:
                return f"{holds}, but {place.mapping.name} below it holds registers: set it to the end of a memory"
        return ""


def _returns(address: int, problem: str) -> str:
    return (
        f"CMP_RETURN_ADDR holds {address:#x}: {problem}; instances end where they return to it, "
        "expected the address of code that ends the hart (EXIT)"
    )


@lru_cache(maxsize=256)
def exits(code: bytes) -> bool:
    """Return True if the code only sets a0 and a7 to 0 and calls EXIT."""
    known: dict[int, int] = {}
    at = 0
    while at + PARCEL <= len(code):
        size = length(int.from_bytes(code[at : at + PARCEL], "little"))
        word = code[at : at + size]
        if len(word) < size:
            return False
        try:
            insn = decode(int.from_bytes(word, "little"))
        except (IllegalInstruction, BeyondModel):
            return False
        if insn.name == "ecall":
            return known == {A0: 0, A7: 0}
        if insn.name != "addi" or insn.rs1 or insn.rd not in (A0, A7):
            return False
        known[insn.rd] = insn.imm
        at += size
    return False
