"""A GPU device that a worker reuses from task to task, with the code that was loaded on it last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from softcard.campaign.task import Task

if TYPE_CHECKING:
    from softcard.device.hsa.settings import GpuOptions
    from softcard.host.hsa.executable import Executable
    from softcard.host.hsa.gpu import Gpu


class CachedGpu:
    """A GPU device that is reused until a task needs other settings or fails."""

    def __init__(self) -> None:
        self._settings: tuple[object, ...] = ()
        self._opened = ExitStack()
        self._gpu: Gpu | None = None
        self._code = b""
        self._executable: Executable | None = None

    @contextmanager
    def device(self, agent: str, task: Task) -> Iterator[Gpu]:
        """Provide a device of `agent` for a task; if the block raises, the device is closed."""
        try:
            yield self._get(agent, task)
        except BaseException:
            self.drop()
            raise

    def _get(self, agent: str, task: Task) -> Gpu:
        from softcard.engine.gcn.tiered.engine import JitEngine
        from softcard.host.hsa.gpu import Gpu

        seed = task.seed if task.check == "strict" else 0
        settings = (agent, task.engine, task.check, seed, task.time_limit, task.limit)
        if self._gpu is None or settings != self._settings:
            self.drop()
            options: GpuOptions = {"engine": task.engine, "time_limit_seconds": task.time_limit}
            if task.check == "strict":
                options |= {"coherence": "strict", "seed": seed}
            self._gpu = self._opened.enter_context(Gpu.open(agent, exact=task.check == "exact", **options))
            engine = self._gpu.device.engine
            if isinstance(engine, JitEngine):  # a generated program does not recur: caching it would evict others
                engine.caches_programs = False
            self._settings = settings
        return self._gpu

    def loaded(self, gpu: Gpu, code: bytes) -> Executable:
        """Load `code` on the device `gpu` in place of the code loaded before; return the loaded executable.

        If the same code is loaded already, return its executable."""
        if self._executable is None or code != self._code:
            if self._executable is not None:
                self._executable.unload()
            self._code, self._executable = code, None
            self._executable = gpu.load(code)
        return self._executable

    def drop(self) -> None:
        """Close the device."""
        self._settings, self._executable = (), None
        self._opened.close()


GPU_CACHE: Final = CachedGpu()
"""The cached device of this process."""
