"""Hook points: where RISC-V engines and devices call the checks of harts.

A check is an object of a subclass of `HartCheck` that overrides some of its hooks. Engines and devices hold a
collection, `HartChecks`, and know no check by name. `checks` creates the collection from the names in a
setting.

On the reference engine a check observes the evaluator of each hart. Translated code contains a part of the check itself
(`Instrumentation`). Two kinds of checks have further state, each at most once in a collection: shadow memory
(`Shadow`), and the order of accesses (`Tracker`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from softcard.core.errors import ModelBug
from softcard.core.space import Ram
from softcard.engine.hooks import by_hook, only
from softcard.engine.riscv.api import Engine
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import Hart

T = TypeVar("T")


# ---- the machine -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Machine:
    """The harts of one device and their memories, as checks see them.

    `harts` is the number of harts, and `hart` returns the hart with a number. `insn` returns the instruction that a
    hart would fetch at an address, `place` the address in this process of the byte that a hart accesses there, and
    `page` the distance in this process from the addresses of a page to its bytes; each returns None if there is none.
    `rams` returns the memories that the harts share.
    """

    harts: int
    hart: Callable[[int], Hart]
    insn: Callable[[Hart, int], Insn | None]
    place: Callable[[Hart, int], int | None]
    page: Callable[[Hart, int], int | None]
    rams: Callable[[], tuple[Ram, ...]]
    translates: bool = False
    """True if harts run as machine code, unless a check prevents it."""
    has_shadow_room: bool = False
    """True if the memories can have shadow memory, and translated code accesses them without the harts' ports."""


# ---- translated code -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Instrumentation:
    """The code that checks insert into translated code. `names` identify the checks in the keys of cached code."""

    names: tuple[str, ...] = ()
    perform: Callable[[Any], Any] | None = None
    """A function that returns an emitter of instructions with the check, a `jit.emit_region.Performer`.

    Its argument is the operations interface that emits instructions without the check.
    """
    prepare: Callable[[Hart], None] | None = None
    """A function that makes a hart ready for the code of `perform`."""
    access_check: Callable[[Any], Any] | None = None
    """A function that returns the emitter of code before memory accesses, a `jit.emit_memory.AccessCheck`."""
    store_notes: Callable[[Any, Any], Any] | None = None
    """A function that returns the emitter of code that records stores, a `jit.emit_memory.Notes`.

    Its arguments are the operations interface and the region.
    """

    @classmethod
    def of(cls, parts: Iterable[Instrumentation]) -> Instrumentation:
        """Join the parts of several checks.

        Raise `ModelBug` if two of them have a part that may exist only once.
        """
        found = PLAIN
        for part in parts:
            for name in ("perform", "access_check", "store_notes"):
                if getattr(found, name) is not None and getattr(part, name) is not None:
                    raise ModelBug(f"checks {found.names} and {part.names}: both define {name}, expected one at most")
            found = cls(
                found.names + part.names,
                found.perform or part.perform,
                found.prepare or part.prepare,
                found.access_check or part.access_check,
                found.store_notes or part.store_notes,
            )
        return found


PLAIN: Final = Instrumentation()
"""The instrumentation of code without any check."""


# ---- shadow memory ---------------------------------------------------------------------------------------------------
class Shadow(Protocol):
    """The shadow registers and shadow memory (definedness) of a device's harts.

    The device updates the shadow memory (`shadow_layout.ShadowedRam`) for accesses that harts do not make.
    """

    def read_back(self, address: int, parts: Iterable[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Check memory that the host reads at the device address `address`.

        `parts` contains the segments of this memory, each with its address in this process and its shadow bytes.
        """


# ---- the order of accesses -------------------------------------------------------------------------------------------
Extents = Sequence[tuple[int, int]]
"""Byte ranges of this process, each with its start and end."""
Outstanding = tuple[object, str, Extents, Extents, int, int]
"""A DMA transfer that was not waited for.

It is a tuple of: its key, its name in findings (unit), the byte ranges that it reads, those that it writes, and the
device addresses of its source and target.
"""


class Tracker(Protocol):
    """The tracker of the order of accesses by harts, DMA transfers and the host, as the race detector needs it."""

    @property
    def starter(self) -> tuple[int, int]:
        """The address of machine code that begins the next group, and the argument to pass to it.

        The code returns 0 on success. It exists only for harts that run as machine code.
        """

    def started(
        self, hart: int | None, key: object, unit: str, reads: Extents, writes: Extents, source: int, target: int
    ) -> None:
        """Record the start of a DMA transfer by a hart, or by a command if `hart` is None.

        `key` identifies the transfer until it is finished. `unit` is its name in findings. `reads` and `writes` are
        byte ranges in this process; `source` and `target` are their device addresses.
        """

    def finished(self, hart: int | None, key: object) -> None:
        """Record that a hart has waited for the transfer `key`.

        With `hart` None, the transfer is one of the command processor, and the call has no effect.
        """

    def remember(self) -> None:
        """Remember all accesses from now on; called before kernels that the host does not wait for.

        A later access by the host is checked against the remembered accesses.
        """

    def host(self, access: str, address: int, extents: Extents) -> None:
        """Check a host access against the accesses since `remember`: it is ordered after none of them.

        `address` is the device address, and `extents` are the byte ranges in this process.
        """


# ---- checks ----------------------------------------------------------------------------------------------------------
class HartCheck:
    """A check of the harts of one device. Hooks do nothing in this base class; a check overrides those it needs."""

    name = ""
    """The name of the check in settings and findings."""

    @property
    def shadow(self) -> Shadow | None:
        """The check's shadow registers and shadow memory; None if it has none."""
        return None

    @property
    def tracker(self) -> Tracker | None:
        """The check's tracker of the order of accesses; None if it has none."""
        return None

    @property
    def instrumentation(self) -> Instrumentation:
        """The check's part in translated code."""
        return PLAIN

    @property
    def engine(self) -> Callable[..., Engine] | None:
        """The constructor of an engine that performs the check; None if the usual engines do.

        It takes the arguments of `ReferenceEngine`, or those of `JitEngine` if harts run as machine code.
        """
        return None

    @property
    def allows_threads(self) -> bool:
        """True if harts may run on several threads."""
        return False

    def ram(self, is_shared: bool) -> type[Ram] | None:
        """Return the class of memories with the shadow memory that the check needs; None if it needs none.

        `is_shared` states that another process maps the memories.
        """

    # kernels
    def kernel_begins(self, entry: int, arguments: int) -> None:
        """Handle the start of a kernel command, whose instances start at `entry`.

        Each instance receives its first argument in a0, and `arguments` further ones in a1 and the next registers.
        """

    def kernel_ends(self) -> None:
        """Handle the end of a kernel command."""

    def group_begins(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Handle the start of a group of instances. `outstanding` are the DMA transfers that were not waited for."""

    def instance_begins(self, hart: Hart, arguments: int) -> None:
        """Handle the start of an instance on a hart; see `kernel_begins`.

        Machine code that begins an instance sets the hart's shadow registers instead.
        """

    def barrier_opens(self) -> None:
        """Handle a barrier that all harts of the group have reached."""

    # single instructions
    def observe(self, evaluator: Any) -> Any:
        """Return a hart's evaluator, changed so that the check observes the instructions that it executes."""
        return evaluator

    def instruction_begins(self, hart: Hart, pc: int, insn: Insn) -> None:
        """Handle an instruction before its execution."""

    # the device
    def device_closes(self) -> None:
        """Handle the closing of the device."""


class HartChecks:
    """The checks of one device's harts, collected by hook point: at a hook, only checks that override it are called.

    `is_translated` states that harts run as machine code.
    """

    def __init__(self, *checks: HartCheck, is_translated: bool = False) -> None:
        self.every = checks
        self.is_translated = is_translated
        self.shadow = only("shadow registers", (check.shadow for check in checks))
        self.tracker = only("the order of accesses", (check.tracker for check in checks))
        self.engine = only("an engine", (check.engine for check in checks))
        self.instrumentation = Instrumentation.of(check.instrumentation for check in checks if is_translated)
        self.allows_threads = all(check.allows_threads for check in checks)
        self._of = by_hook(checks, HartCheck)
        self.observes = bool(self._of["observe"] or self._of["instruction_begins"])
        """True if a check observes the evaluators of harts."""
        self.at_groups = bool(self._of["group_begins"])

    def __bool__(self) -> bool:
        return bool(self.every)

    def find(self, kind: type[T]) -> T | None:
        """Return the check of this class; None if it is not selected."""
        return next((each for each in self.every if isinstance(each, kind)), None)

    @property
    def starter(self) -> tuple[int, int]:
        """The address of machine code that begins a group, and its argument; zeros if no check needs it."""
        return (0, 0) if self.tracker is None else self.tracker.starter

    def ram(self, is_shared: bool) -> type[Ram] | None:
        """Return the class of memories with the shadow memory that all checks need; None if they need none."""
        kinds = [kind for each in self._of["ram"] if (kind := each.ram(is_shared)) is not None]
        found = max(kinds, key=lambda kind: len(kind.__mro__), default=None)
        if found is not None and not all(_includes(found, kind) for kind in kinds):
            raise ModelBug(f"no class of memories is a subclass of {[kind.__name__ for kind in kinds]}")
        return found

    def kernel_begins(self, entry: int, arguments: int) -> None:
        """Call `HartCheck.kernel_begins` of the checks."""
        for each in self._of["kernel_begins"]:
            each.kernel_begins(entry, arguments)

    def kernel_ends(self) -> None:
        """Call `HartCheck.kernel_ends` of the checks."""
        for each in self._of["kernel_ends"]:
            each.kernel_ends()

    def group_begins(self, outstanding: Iterable[Outstanding] = ()) -> None:
        """Call `HartCheck.group_begins` of the checks."""
        for each in self._of["group_begins"]:
            each.group_begins(outstanding)

    def instance_begins(self, hart: Hart, arguments: int) -> None:
        """Call `HartCheck.instance_begins` of the checks."""
        for each in self._of["instance_begins"]:
            each.instance_begins(hart, arguments)

    def barrier_opens(self) -> None:
        """Call `HartCheck.barrier_opens` of the checks."""
        for each in self._of["barrier_opens"]:
            each.barrier_opens()

    def observe(self, evaluator: Any) -> Any:
        """Return a hart's evaluator, changed so that all checks observe the instructions that it executes.

        The first check wraps the evaluator last.
        """
        if self._of["instruction_begins"]:
            self._call_before_instructions(evaluator)
        for each in reversed(self._of["observe"]):
            evaluator = each.observe(evaluator)
        return evaluator

    def _call_before_instructions(self, evaluator: Any) -> None:
        begin = evaluator.begin

        def observed(pc: int, insn: Insn) -> None:
            for each in self._of["instruction_begins"]:
                each.instruction_begins(evaluator.hart, pc, insn)
            begin(pc, insn)

        evaluator.begin = observed

    def device_closes(self) -> None:
        """Call `HartCheck.device_closes` of the checks."""
        for each in self._of["device_closes"]:
            each.device_closes()


NO_CHECKS: Final = HartChecks()


def _includes(found: type[Ram], kind: type[Ram]) -> bool:
    """Return True if memories of class `found` have all properties of those of class `kind`.

    A class that combines several base classes has the properties of these."""
    combined = kind.__bases__
    return issubclass(found, kind) or (len(combined) > 1 and all(issubclass(found, each) for each in combined))
