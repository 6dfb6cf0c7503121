"""The library of handlers, which is cached on disk.

Each handler is compiled once per machine and version, for all kernels. On disk there are objects with many handlers
each, and one index from handler keys to objects. Their names contain a digest of everything that determines their
contents, so that another version, CPU or LLVM does not find them.
"""

from __future__ import annotations

import hashlib
import json
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from softcard.core.threads import reset_after_fork
from softcard.engine.gcn.jit.basics import Untranslated
from softcard.engine.gcn.threaded.records import STUBS, Handler
from softcard.ir import llvm
from softcard.ir.background import BACKGROUND, Task
from softcard.ir.compile_process import PROCESS
from softcard.ir.object_cache import ObjectCache
from softcard.ir.translator import translator_key
from softcard.isa.gcn.target import TARGETS, Target

if TYPE_CHECKING:
    from softcard.engine.gcn.threaded.frontend import Frontend
    from softcard.engine.gcn.threaded.kind import Kind
    from softcard.engine.gcn.threaded.records import Example


# ---- index on disk ---------------------------------------------------------------------------------------------------
# The index of the library's kinds on disk: one line for each, which is parsed on first use.
#
# There are thousands of them, and a process needs a few dozen: neither reading nor writing the index parses the other
# lines.


@dataclass(frozen=True, slots=True)
class Known:
    """The library's entry for a kind of instruction: its handler, and the object file that contains it.

    `is_optimised` is True if the object is optimised.
    """

    handler: Handler
    image: str
    is_optimised: bool


class Index:
    """The index of the handlers on disk, by key of their kind.

    Each value is a `Known`, or None if a handler is impossible. `name` is the name of the file.
    """

    def __init__(self, objects: ObjectCache, name: str) -> None:
        self._objects = objects
        self._name = name
        self._lines: dict[str, str] = {}
        self._data = b""
        """The data of the file that was last read or written. If a key occurs twice, the later line counts."""
        self._count = 0
        """The number of lines in `_data`."""
        self._added: dict[str, str] = {}
        """The lines that this process has added and that `_data` does not contain yet, by key."""
        self.refresh()
        self._found: dict[str, Known | None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __getitem__(self, key: str) -> Known | None:
        if key not in self._found:
            self._found[key] = _parsed(self._lines[key])
        return self._found[key]

    def __setitem__(self, key: str, known: Known | None) -> None:
        self._lines[key] = self._added[key] = _written(known)
        self._found[key] = known

    def __delitem__(self, key: str) -> None:
        del self._lines[key]
        self._added.pop(key, None)
        self._found.pop(key, None)

    def refresh(self) -> None:
        """Load the lines that other processes have added to the file."""
        data = self._objects.get(self._name, fresh=True)
        if data is None or data is not self._data:
            self._data, found = data or b"", _parsed_lines(data or b"")
            self._count = len(found)
            self._added = {key: line for key, line in self._lines.items() if found.get(key) != line}
            self._lines = found | self._lines

    def write(self) -> None:
        """Write the index to its file, including the lines that other processes have added."""
        self.refresh()
        if self._count + len(self._added) > 2 * len(self._lines):  # too many lines are outdated
            self._data, self._count, self._added = b"", 0, self._lines
        self._data += "".join(f"{key}\t{line}\n" for key, line in self._added.items()).encode()
        self._count += len(self._added)
        self._added = {}
        self._objects.put(self._name, self._data)


def _parsed_lines(data: bytes) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in data.decode().split("\n") if line)


def _written(known: Known | None) -> str:
    if known is None:
        return "null"
    made = known.handler
    parts = (known.image, known.is_optimised, made.name, made.size, made.places, made.caches, made.target)
    return json.dumps(parts, separators=(",", ":"))


def _parsed(line: str) -> Known | None:
    parts = json.loads(line)
    if parts is None:
        return None
    image, is_optimised, name, size, places, caches, target = parts
    handler = Handler(name, size, tuple(places), tuple((kind, at) for kind, at in caches), target)
    return Known(handler, image, is_optimised)


# ---- library ---------------------------------------------------------------------------------------------------------


BATCH: Final = 64
"""The maximum number of handlers per LLVM module."""
WORTH: Final = 64
"""The number of work-group batches without new handlers after which handlers are optimised."""


class Patched(Protocol):
    """The interface of an object that contains addresses of handlers and can replace them."""

    def patch(self, addresses: dict[int, int]) -> None:
        """Replace addresses of handlers by those of equivalent handlers; `addresses` maps old to new ones."""


class Library:
    """The library of handlers for vectors of `lanes` lanes. `index` lists them.

    `compiled` counts the handlers that this process has compiled. Missing handlers are first compiled without
    optimisation. If kernels run long enough, their handlers are optimised in the background, and `adopt`
    installs the optimised handlers."""

    def __init__(self, objects: ObjectCache, lanes: int) -> None:
        self.objects = objects
        self.lanes = lanes
        self.compiled = 0
        self.lock = threading.RLock()
        parts = repr(("handlers", translator_key(), llvm.host_key(), llvm.is_x86(), lanes))
        self.key = hashlib.sha256(parts.encode()).hexdigest()
        self.programs: weakref.WeakSet[Patched] = weakref.WeakSet()
        self.frontends: dict[tuple[str, int], Frontend] = {}
        self._codes: dict[str, llvm.Code] = {}
        self._addresses: dict[str, int] = {}
        self._optimising: dict[Task[list[str]], list[str]] = {}
        self._unimprovable: set[str] = set()
        """The keys of handlers whose optimisation has failed and is not tried again."""
        self._later: dict[str, Kind | Example] = {}
        """The unoptimised handlers that this process's programs use, by key."""
        self._left = WORTH
        self.index = Index(objects, self.key)
        code = self._stubs()
        self.stubs = {name: code.address(name) for name in STUBS}
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Reset the lock and the background tasks in a child process.

        Handlers whose optimisation was pending are optimised when they are next needed.
        """
        self.lock = threading.RLock()
        self._optimising = {}

    def _stubs(self) -> llvm.Code:
        key = hashlib.sha256(f"{self.key} glue".encode()).hexdigest()
        image = self.objects.get(key)
        if image is None:
            from softcard.engine.gcn.threaded.stubs import stubs

            image = llvm.compile_ir(stubs(), llvm.OPTIMISED)
            self.objects.put(key, image)
        self._codes[key] = code = llvm.Code(image)
        return code

    def frontend(self, target: Target, mode: int) -> Frontend:
        """Return the front end for code of a processor under a MODE, with its cached plans."""
        found = self.frontends.get((target.name, mode))
        if found is None:
            from softcard.engine.gcn.threaded.frontend import Frontend

            found = self.frontends[target.name, mode] = Frontend(target, mode)
        return found

    # ---- look-up -----------------------------------------------------------------------------------------------
    def find(self, key: str) -> tuple[int, Handler] | None:
        """Return the address and record layout of the handler with this key, or None if no handler can be made.

        `make` must have been called for the handler before."""
        known = self.index[key]
        if known is None:
            return None
        address = self._addresses.get(key)
        if address is None:
            address = self._addresses[key] = self._code(known.image).address(known.handler.name)
        return address, known.handler

    def has(self, key: str) -> bool:
        """Return True if handler `key` is in the index: it is compiled, or is known to be impossible to make."""
        if key not in self.index:
            return False
        known = self.index[key]
        if known is None or known.image in self._codes:
            return True
        if self.objects.get(known.image) is None:  # the cache folder was cleared
            del self.index[key]
            return False
        return True

    def has_all(self, examples: dict[str, Example]) -> bool:
        """Return True if all handlers of a program exist; schedule the unoptimised ones for optimisation."""
        with self.lock:
            if not all(self.has(key) and self.index[key] is not None for key in examples):
                return False
            self._wait(examples)
            return True

    def _is_optimised(self, key: str) -> bool:
        known = self.index[key]
        return known is None or known.is_optimised

    def make(self, kinds: Iterable[Kind]) -> None:
        """Compile those of the given handlers that are missing in the library."""
        with self.lock:
            wanted = {kind.key: kind for kind in kinds}
            missing = [kind for key, kind in wanted.items() if not self.has(key)]
            if missing:
                self.index.refresh()
                missing = [kind for kind in missing if not self.has(kind.key)]
            for at in range(0, len(missing), BATCH):
                self._compile(missing[at : at + BATCH])
            if missing:
                self.index.write()
            self._wait(wanted)

    def _compile(self, kinds: list[Kind]) -> None:
        handlers, text = self._emit(kinds)
        image = self._image(text, llvm.SOON)
        if handlers:
            self.objects.put(image, llvm.compile_ir(text, llvm.SOON))
            self.compiled += len(handlers)
        for kind in kinds:
            handler = handlers.get(kind.key)
            self.index[kind.key] = None if handler is None else Known(handler, image, is_optimised=False)

    def _emit(self, kinds: list[Kind]) -> tuple[dict[str, Handler], str]:
        """Return the handlers that can be emitted, and the LLVM IR of their module."""
        from softcard.engine.gcn.threaded.emit import HandlerEmitter, module

        functions: list[str] = []
        declarations: dict[str, str] = {}
        made: dict[str, Handler] = {}
        for kind in kinds:
            emitter = HandlerEmitter(kind, self.lanes)
            try:
                handler, text = emitter.emit("h" + hashlib.sha256(kind.key.encode()).hexdigest()[:20])
            except Untranslated:
                continue
            made[kind.key] = handler
            functions.append(text)
            declarations |= emitter.text.declarations
        return made, module(functions, declarations, self.lanes)

    def _image(self, text: str, tier: int) -> str:
        return hashlib.sha256(f"{self.key} {tier} {text}".encode()).hexdigest()

    # ---- in the background -----------------------------------------------------------------------------------------
    def _wait(self, kinds: Mapping[str, Kind | Example]) -> None:
        """Schedule handlers for later optimisation, except those that are optimised already."""
        waiting = {
            key: each for key, each in kinds.items() if key not in self._unimprovable and not self._is_optimised(key)
        }
        if waiting:
            self._later |= waiting
            self._left = WORTH

    def _optimise(self, wanted: list[str], kinds: Callable[[list[str]], list[Kind]]) -> None:
        """Submit handlers for optimisation in the background.

        The background thread calls `kinds` to get their specifications."""
        busy = {key for keys in self._optimising.values() for key in keys}
        left = [key for key in wanted if key not in busy]
        for at in range(0, len(left), BATCH):
            batch = left[at : at + BATCH]
            self._optimising[BACKGROUND.submit(partial(self._optimised, batch, kinds))] = batch

    def _optimised(self, keys: list[str], kinds: Callable[[list[str]], list[Kind]]) -> list[str]:
        """Compile optimised handlers on the background thread, and cache them; return their keys."""
        handlers, text = self._emit(kinds(keys))
        image = self._image(text, llvm.OPTIMISED)
        self.objects.put(image, PROCESS.compile_ir(text, llvm.OPTIMISED))
        with self.lock:
            for key, handler in handlers.items():
                self.index[key] = Known(handler, image, is_optimised=True)
            self.index.write()
        return list(handlers)

    def optimise(self) -> None:
        """Begin to optimise all scheduled handlers."""
        with self.lock:
            waiting, self._later = self._later, {}

            def kinds(keys: list[str]) -> list[Kind]:
                from softcard.engine.gcn.threaded.kind import Kind, kind_like

                found = ((key, waiting[key]) for key in keys)
                return [
                    each if isinstance(each, Kind) else kind_like(TARGETS[key.split(" ")[0]], each)
                    for key, each in found
                ]

            self._optimise([key for key in waiting if not self._is_optimised(key)], kinds)

    @property
    def is_optimising(self) -> bool:
        """True while handlers are being optimised in the background."""
        return bool(self._optimising)

    def adopt(self) -> None:
        """Install optimised handlers in programs. It is called after a batch of work-groups has run."""
        if self._later:
            self._left -= 1
            if self._left < 0:
                self.optimise()
        if not any(task.done for task in tuple(self._optimising)):
            return
        with self.lock:  # another thread may have installed them meanwhile
            for task in [task for task in self._optimising if task.done]:
                keys = self._optimising.pop(task)
                if task.failed:
                    self._unimprovable.update(keys)
                made = task.result() or []
                old = {key: self._addresses.pop(key) for key in made if key in self._addresses}
                found = {address: self.find(key) for key, address in old.items()}
                addresses = {address: better[0] for address, better in found.items() if better is not None}
                for program in list(self.programs):
                    program.patch(addresses)

    def _code(self, image: str) -> llvm.Code:
        if image not in self._codes:
            found = self.objects.get(image)
            assert found is not None
            self._codes[image] = llvm.Code(found)
        return self._codes[image]


@cache
def shared_library(folder: Path | None, lanes: int) -> Library:
    """Return the handler library that all engines of this process share."""
    return Library(ObjectCache(folder), lanes)
