"""Native functions that are there quickly and become better where they are used much.

Optimising takes several times as long as compiling, which somebody waits for who runs a little; whoever runs much
hardly notices it. Both forms are kept, so that a later process compiles neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

from understudy.core.forks import tell_forks
from understudy.ir import llvm
from understudy.ir.background import BACKGROUND, Task
from understudy.ir.compile_process import PROCESS
from understudy.ir.native import Function, Module
from understudy.ir.native_source import SourceChanged
from understudy.ir.object_cache import ObjectCache


class Improving:
    """Machine code of functions, and what they call, with further IR `text` beside it.

    `code` is the best there is; after `worth` uses better code is made in the background. Earlier code stays valid.
    `meanwhile` is called by another thread where somebody has to wait for the first code.
    """

    def __init__(
        self,
        objects: ObjectCache,
        *functions: Function[Any],
        worth: int,
        text: str = "",
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        self._module = Module(objects, functions, text)
        best = self._module.kept(llvm.OPTIMISED)
        if meanwhile is not None and best is None and self._module.kept(llvm.QUICK) is None:
            thread = Thread(target=meanwhile, name="understudy-meanwhile")
            os.register_at_fork(before=thread.join)  # what it holds, a child could never take
            thread.start()
        self.is_optimised = best is not None
        self.code = llvm.Code(best if best is not None else self._module.image(llvm.QUICK))
        self._left = worth
        self._task: Task[bytes] | None = None
        self._earlier: llvm.Code | None = None
        tell_forks(self)

    def after_fork(self) -> None:
        """In a child process: what another thread was compiling is asked for once more."""
        self._task = None

    def use(self, amount: int = 1) -> llvm.Code:
        """The best code there is, for so many uses of it."""
        if not self.is_optimised:
            self._left -= amount
            if self._left < 0:
                self._improve()
        return self.code

    def _improve(self) -> None:
        task = self._task
        if task is None:
            self._task = BACKGROUND.submit(partial(self._module.image, llvm.OPTIMISED, PROCESS.compile_ir))
        elif task.done and not self.is_optimised:
            self.is_optimised = True
            try:
                better = llvm.Code(task.result())
            except SourceChanged:  # as an upgrade under this process does: what runs is as good as it gets
                return
            self._earlier, self.code = self.code, better
