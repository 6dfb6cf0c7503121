"""All handlers of a process, kept on disk: a kind is compiled once per machine and version, for every kernel.

On disk there are objects of many handlers each, and one index: which kinds there are, and where they are. Both are
named by a digest of everything that decides their content, so that another version, CPU or LLVM finds none of them.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from understudy.core.forks import tell_forks
from understudy.engine.gcn.jit.basics import Untranslated
from understudy.engine.gcn.threaded.index import Index, Known
from understudy.engine.gcn.threaded.records import GLUE, Handler
from understudy.ir import llvm
from understudy.ir.background import BACKGROUND, Task
from understudy.ir.compile_process import PROCESS
from understudy.ir.object_cache import ObjectCache
from understudy.ir.translator import translator_key
from understudy.isa.gcn.target import TARGETS, Target

if TYPE_CHECKING:
    from understudy.engine.gcn.threaded.example import Example
    from understudy.engine.gcn.threaded.front import Front
    from understudy.engine.gcn.threaded.kind import Kind

BATCH: Final = 64
"""Kinds that are compiled together."""
WORTH: Final = 64
"""Batches of groups after which to optimise handlers, if no new ones were needed meanwhile."""


class Patched(Protocol):
    """What has addresses of handlers."""

    def patch(self, addresses: dict[int, int]) -> None:
        """Have handlers at other addresses, which do the same."""


class Library:
    """Handlers for chunks of `lanes` lanes; `index` says which there are.

    `compiled` counts those that this process has had to compile.

    What is missing is compiled quickly, and once more in the background where much is run: `adopt` takes that up.
    """

    def __init__(self, objects: ObjectCache, lanes: int) -> None:
        self.objects = objects
        self.lanes = lanes
        self.compiled = 0
        self.lock = threading.RLock()
        parts = repr(("handlers", translator_key(), llvm.host_key(), llvm.is_x86(), lanes))
        self.key = hashlib.sha256(parts.encode()).hexdigest()
        self.programs: weakref.WeakSet[Patched] = weakref.WeakSet()
        self.fronts: dict[tuple[str, int], Front] = {}
        self._codes: dict[str, llvm.Code] = {}
        self._addresses: dict[str, int] = {}
        self._optimising: dict[Task[list[str]], list[str]] = {}
        self._later: dict[str, Kind | Example] = {}
        """Kinds of this process's programs whose handlers are not optimised."""
        self._left = WORTH
        self.index = Index(objects, self.key)
        code = self._glue()
        self.glue = {name: code.address(name) for name in GLUE}
        tell_forks(self)

    def after_fork(self) -> None:
        """In a child process: what was being optimised is so when it is next asked for."""
        self.lock = threading.RLock()
        self._optimising = {}

    def _glue(self) -> llvm.Code:
        key = hashlib.sha256(f"{self.key} glue".encode()).hexdigest()
        image = self.objects.get(key)
        if image is None:
            from understudy.engine.gcn.threaded.glue import glue

            image = llvm.compile_ir(glue(), llvm.OPTIMISED)
            self.objects.put(key, image)
        self._codes[key] = code = llvm.Code(image)
        return code

    def front(self, target: Target, mode: int) -> Front:
        """The front end for code of a processor under a MODE, which knows what it has met."""
        found = self.fronts.get((target.name, mode))
        if found is None:
            from understudy.engine.gcn.threaded.front import Front

            found = self.fronts[target.name, mode] = Front(target, mode)
        return found

    # ---- what there is -----------------------------------------------------------------------------------------
    def find(self, key: str) -> tuple[int, Handler] | None:
        """Address and record of a kind's handler; None where it has none. `make` has been called for it."""
        known = self.index[key]
        if known is None:
            return None
        address = self._addresses.get(key)
        if address is None:
            address = self._addresses[key] = self._code(known.image).address(known.handler.name)
        return address, known.handler

    def has(self, key: str) -> bool:
        """Whether a kind is known: compiled, or known to have no handler."""
        if key not in self.index:
            return False
        known = self.index[key]
        if known is None or known.image in self._codes:
            return True
        if self.objects.get(known.image) is None:  # somebody has cleared the folder
            del self.index[key]
            return False
        return True

    def has_all(self, examples: dict[str, Example]) -> bool:
        """Whether kinds that a program was made of have handlers; they are optimised if much is run."""
        with self.lock:
            if not all(self.has(key) and self.index[key] is not None for key in examples):
                return False
            self._wait(examples)
            return True

    def _is_optimised(self, key: str) -> bool:
        known = self.index[key]
        return known is None or known.is_optimised

    def make(self, kinds: Iterable[Kind]) -> None:
        """Compile the handlers that are missing."""
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
        """The handlers of kinds that can have one, and the text of their module."""
        from understudy.engine.gcn.threaded.emit import HandlerEmitter, module

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
        """Optimise kinds if much is run."""
        waiting = {key: each for key, each in kinds.items() if not self._is_optimised(key)}
        if waiting:
            self._later |= waiting
            self._left = WORTH

    def _optimise(self, wanted: list[str], kinds: Callable[[list[str]], list[Kind]]) -> None:
        """Have handlers made optimised; `kinds` gives their kinds, on the background thread."""
        busy = {key for keys in self._optimising.values() for key in keys}
        left = [key for key in wanted if key not in busy]
        for at in range(0, len(left), BATCH):
            batch = left[at : at + BATCH]
            self._optimising[BACKGROUND.submit(partial(self._optimised, batch, kinds))] = batch

    def _optimised(self, keys: list[str], kinds: Callable[[list[str]], list[Kind]]) -> list[str]:
        """Compile kinds on the background thread; keep them for this process and the next."""
        handlers, text = self._emit(kinds(keys))
        image = self._image(text, llvm.OPTIMISED)
        self.objects.put(image, PROCESS.compile_ir(text, llvm.OPTIMISED))
        with self.lock:
            for key, handler in handlers.items():
                self.index[key] = Known(handler, image, is_optimised=True)
            self.index.write()
        return list(handlers)

    def optimise(self) -> None:
        """Begin to optimise all handlers that wait for it."""
        with self.lock:
            waiting, self._later = self._later, {}

            def kinds(keys: list[str]) -> list[Kind]:
                from understudy.engine.gcn.threaded.kind import Kind, kind_like

                found = ((key, waiting[key]) for key in keys)
                return [
                    each if isinstance(each, Kind) else kind_like(TARGETS[key.split(" ")[0]], each)
                    for key, each in found
                ]

            self._optimise([key for key in waiting if not self._is_optimised(key)], kinds)

    @property
    def is_optimising(self) -> bool:
        """Whether better handlers are on their way."""
        return bool(self._optimising)

    def adopt(self) -> None:
        """A batch of groups was run: have programs use the handlers that were optimised."""
        if self._later:
            self._left -= 1
            if self._left < 0:
                self.optimise()
        if not any(task.done for task in tuple(self._optimising)):
            return
        with self.lock:  # another thread may have taken them up meanwhile
            for task in [task for task in self._optimising if task.done]:
                del self._optimising[task]
                old = {key: self._addresses.pop(key) for key in task.result() if key in self._addresses}
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
    """One for all engines of this process."""
    return Library(ObjectCache(folder), lanes)
