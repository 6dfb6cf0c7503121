"""A device that a worker keeps from task to task, and the code that was loaded on it last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from understudy.campaign.task import Task


class KeptGpu:
    """One device that is kept from task to task, while they ask for the same and nothing went wrong on it."""

    def __init__(self) -> None:
        self._wanted: tuple[Any, ...] = ()
        self._kept = ExitStack()
        self._gpu: Any = None
        self._code = b""
        self._executable: Any = None

    @contextmanager
    def lent(self, agent: str, task: Task) -> Iterator[Any]:
        """The device, for a task; it is closed where anything goes wrong."""
        try:
            yield self._get(agent, task)
        except BaseException:
            self.drop()
            raise

    def _get(self, agent: str, task: Task) -> Any:
        from understudy.engine.gcn.jit.engine import JitEngine
        from understudy.host.hsa.gpu import Gpu

        seed = task.seed if task.check == "strict" else 0
        wanted = (agent, task.engine, task.check, seed, task.time_limit, task.limit)
        if wanted != self._wanted:
            self.drop()
            more: dict[str, Any] = {"coherence": "strict", "seed": seed} if task.check == "strict" else {}
            options = {"engine": task.engine, "time_limit_seconds": task.time_limit} | more
            self._gpu = self._kept.enter_context(Gpu.open(agent, exact=task.check == "exact", **options))
            engine = self._gpu.device.engine
            if isinstance(engine, JitEngine):  # what was generated is not met again; others' kernels would make room
                engine.keeps_programs = False
            self._wanted = wanted
        return self._gpu

    def loaded(self, code: bytes) -> Any:
        """Code on the device, in place of what was loaded before."""
        if self._executable is None or code != self._code:
            if self._executable is not None:
                self._executable.unload()
            self._code, self._executable = code, None
            self._executable = self._gpu.load(code)
        return self._executable

    def drop(self) -> None:
        """Close it."""
        self._wanted, self._executable = (), None
        self._kept.close()


GPUS: Final = KeptGpu()
"""The one of this process."""
