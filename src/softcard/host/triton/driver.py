"""The driver that runs Triton's kernels on a virtual GPU.

Triton from 3.4 on finds the driver by the entry point `softcard` of the group ``triton.backends``, and uses it if
SOFTCARD_TRITON or TRITON_DEFAULT_BACKEND select it. With every version from 3.2 on, `activate` selects it.

Every program that imports Triton imports this module if Softcard is installed. So it imports the rest of the package
only when the driver is used. If SOFTCARD_TRITON is 1, the import sets TRITON_DEFAULT_BACKEND unless it is set.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import triton
from triton import backends
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

VARIABLE: Final = "SOFTCARD_TRITON"
"""The environment variable that selects the driver if it is 1."""
BACKEND_VARIABLE: Final = "TRITON_DEFAULT_BACKEND"
"""Triton's environment variable with the name of a backend."""
NAME: Final = "softcard"


class DigestThread:
    """A thread that computes Triton's digest of its own files (500 MB in 3.9) while the process imports and prepares.

    Triton computes the digest at the first launch of a process, as a part of the names of its cache, and keeps the
    result. Hashing and reading release Python's lock, so the computation overlaps with other work.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the computation, unless it was started."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._compute, name="softcard-triton-digest", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait for the end of the computation, so that Triton does not repeat it meanwhile."""
        if self._thread is not None:
            self._thread.join()

    @staticmethod
    def _compute() -> None:
        with suppress(Exception):  # Triton itself repeats a failed computation, and reports the error
            try:
                importlib.import_module("triton.runtime.cache").triton_key()
            except AttributeError:  # before Triton 3.5
                importlib.import_module("triton.compiler.compiler").triton_key()


DIGEST: Final = DigestThread()


class SoftcardDriver(DriverBase):  # type: ignore[misc]
    """A driver whose GPU is a `Gpu` of this process."""

    _is_chosen = False

    def __init__(self) -> None:
        from softcard.host.triton import runtime

        self._runtime = runtime
        self.utils = runtime.Utils()
        self.launcher_cls = runtime.make_launcher
        runtime.prepare()

    @classmethod
    def is_active(cls) -> bool:
        """Return True if `activate` or an environment variable has selected the driver."""
        return cls._is_chosen or os.environ.get(VARIABLE) == "1" or os.environ.get(BACKEND_VARIABLE) == NAME

    def get_current_target(self) -> GPUTarget:
        """Return the GPU that SOFTCARD_AGENT selects, for Triton's AMD compiler."""
        DIGEST.wait()  # Triton asks for the target before it needs the digest
        return self._runtime.target()

    def get_current_device(self) -> int:
        """Return the number of the only GPU."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing, since there is one GPU."""

    def get_current_stream(self, device: int = 0) -> int:
        """Return the number of the current stream."""
        return self._runtime.Interface.current

    def get_active_torch_device(self) -> Any:
        """Return the device of tensors of PyTorch: the CPU, whose memory is that of the GPU."""
        return self._runtime.torch_device()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return a type of Triton unchanged, since no C++ code is made."""
        return ty

    def get_device_interface(self) -> type:
        """Return the functions for events and streams."""
        return self._runtime.Interface

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return the function that measures a kernel for the autotuner."""
        return self._runtime.measured

    def get_empty_cache_for_benchmark(self) -> None:
        """Return None: the GPU has no caches to clear."""

    def clear_cache(self, cache: None) -> None:
        """Do nothing: the GPU has no caches."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int | None) -> Any:
        """Return zeros for the profiler's scratch memory."""
        return self._runtime.zeros(size)


def _prefer() -> None:
    """Select the driver by Triton's own variable if SOFTCARD_TRITON is 1, and Triton is looking for its backends.

    Without that variable, Triton raises an error if a GPU's driver is active, too. Versions before 3.7 ignore it.
    """
    is_looking = "backends" not in vars(backends)
    if is_looking and os.environ.get(VARIABLE) == "1":
        os.environ.setdefault(BACKEND_VARIABLE, NAME)


_prefer()


def activate() -> None:
    """Run the kernels of Triton on the virtual GPU from now on."""
    SoftcardDriver._is_chosen = True
    active = triton.runtime.driver
    if type(getattr(active, "_active", None)) is not SoftcardDriver:
        active.set_active(SoftcardDriver())
