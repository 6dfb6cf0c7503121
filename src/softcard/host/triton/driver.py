"""The driver that runs Triton's kernels on a virtual GPU.

Triton from 3.4 on finds the driver by the entry point `softcard` of the group ``triton.backends``, and uses it if
SOFTCARD_TRITON or TRITON_DEFAULT_BACKEND select it. With every version from 3.2 on, `activate` selects it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from softcard.core.errors import NotInstalled
from softcard.core.tracebacks import OURS
from softcard.device.hsa.agents import WORKGROUP_LIMIT, agent
from softcard.host.triton.launcher import Function, Launcher, card, chosen_agent
from softcard.host.triton.tensors import Tensor

VARIABLE: Final = "SOFTCARD_TRITON"
"""The environment variable that selects the driver if it is 1."""
BACKEND_VARIABLE: Final = "TRITON_DEFAULT_BACKEND"
"""Triton's environment variable with the name of a backend."""
NAME: Final = "softcard"
_MAJOR, _MINOR = triton.__version__.split(".")[:2]
LINKER_VARIABLE: Final = "TRITON_HIP_LLD_PATH"
"""Triton's environment variable with the path of a linker, which versions before 3.5 need."""
VERSION: Final = int(_MAJOR), int(_MINOR)
TICKS: Final = 1000
"""The number of wave instructions that count as a millisecond.

Then Triton's benchmarks, which repeat a kernel for a time, do not repeat long kernels.
"""


class Utils:
    """The functions of a driver with which Triton loads code."""

    def load_binary(self, name: str, code: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Load a kernel; return its module, its function, its registers, its spills and its largest work-group."""
        function = Function(name, code)
        metadata = function.kernel(card()).image.metadata
        found = function, function, 0 if metadata is None else metadata.vgprs, 0, WORKGROUP_LIMIT
        return found if VERSION >= (3, 4) else found[:4]

    def unload_module(self, module: Function) -> None:
        """Free the device memory of a module."""
        module.unload()

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """Return the properties of the GPU."""
        found = agent(chosen_agent())
        return {
            "max_shared_mem": found.lds_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": found.compute_units,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 4096,
            "max_threads_per_sm": found.waves_per_cu * 64,
            "arch": found.name,
            "warpSize": 64,
            "cooperativeLaunch": 1,
        }


# ---- events and streams ----------------------------------------------------------------------------------------------


class Stream:
    """A stream of launches: a queue of the GPU. Each launch ends before the next call of the host."""

    _made = 0

    def __init__(self, *_: object, **__: object) -> None:
        Stream._made += 1
        self.number = Stream._made
        self._outer: list[int] = []

    @property
    def cuda_stream(self) -> int:
        """The number of the stream, which launchers get."""
        return self.number

    def synchronize(self) -> None:
        """Do nothing, since no launch is running."""

    wait_stream = wait_event = record_event = lambda self, *_: None

    def __enter__(self) -> Stream:
        self._outer.append(Interface.current)
        Interface.current = self.number
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        Interface.current = self._outer.pop()


_Stream = Stream


class Event:
    """An event on the GPU's clock, which counts wave instructions; 1000 of them are a millisecond."""

    def __init__(self, *_: object, **__: object) -> None:
        self._time = 0

    def record(self, *_: object) -> None:
        """Store the time of the clock."""
        self._time = card().gpu.device.time

    def elapsed_time(self, end: Event) -> float:
        """Return the time between this event and `end`, in thousands of wave instructions, but more than 0."""
        return max(end._time - self._time, 1) / TICKS

    def query(self) -> bool:
        """Return True, since no launch is running."""
        return True

    def wait(self, *_: object) -> None:
        """Do nothing, since no launch is running."""

    synchronize = wait


class Interface:
    """The functions of ``torch.cuda`` that Triton's benchmarks use."""

    current = 0
    """The number of the current stream."""
    Event = Event
    Stream = Stream

    @staticmethod
    def synchronize(*_: object) -> None:
        """Do nothing, since no launch is running."""

    @staticmethod
    def current_device() -> int:
        """Return the number of the GPU."""
        return 0

    @staticmethod
    def stream(stream: _Stream) -> _Stream:
        """Return a context manager that makes a stream the current one."""
        return stream


# ---- the driver ------------------------------------------------------------------------------------------------------


class SoftcardDriver(DriverBase):  # type: ignore[misc]
    """A driver whose GPU is a `Gpu` of this process."""

    _is_chosen = False

    def __init__(self) -> None:
        self.utils = Utils()
        self.launcher_cls = partial(Launcher, version=VERSION)
        _accept_arrays()
        OURS.add("triton")
        if VERSION < (3, 5) and LINKER_VARIABLE not in os.environ and (linker := _linker()):
            os.environ[LINKER_VARIABLE] = linker

    @classmethod
    def is_active(cls) -> bool:
        """Return True if `activate` or an environment variable has selected the driver."""
        chosen = os.environ.get(VARIABLE, "") not in ("", "0")
        return cls._is_chosen or chosen or os.environ.get(BACKEND_VARIABLE, "") == NAME

    def get_current_target(self) -> GPUTarget:
        """Return the GPU that SOFTCARD_AGENT selects, for Triton's AMD compiler."""
        return GPUTarget("hip", chosen_agent(), 64)

    def get_current_device(self) -> int:
        """Return the number of the only GPU."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing, since there is one GPU."""

    def get_current_stream(self, device: int = 0) -> int:
        """Return the number of the current stream."""
        return Interface.current

    def get_active_torch_device(self) -> Any:
        """Return the device of tensors of PyTorch: the CPU, whose memory is that of the GPU."""
        try:
            import torch
        except ImportError:
            text = "PyTorch is not installed: pip install torch, or pass NumPy arrays to kernels"
            raise NotInstalled(text) from None

        return torch.device("cpu")

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return a type of Triton unchanged, since no C++ code is made."""
        return ty

    def get_device_interface(self) -> type[Interface]:
        """Return the functions for events and streams."""
        return Interface

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return the function that measures a kernel for the autotuner."""
        return _measured

    def get_empty_cache_for_benchmark(self) -> None:
        """Return None: the GPU has no caches to clear."""

    def clear_cache(self, cache: None) -> None:
        """Do nothing: the GPU has no caches."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int | None) -> Any:
        """Return zeros for the profiler's scratch memory."""
        return np.zeros(size, np.uint8)


def _measured(kernel_call: Callable[[], object], *, quantiles: Sequence[float] | None = None, **_: object) -> Any:
    """Return the time of one call in thousands of wave instructions, once for each of `quantiles`.

    The number of instructions is the same in every run.
    """
    start, end = Event(), Event()
    start.record()
    kernel_call()
    end.record()
    found = start.elapsed_time(end)
    return found if quantiles is None else [found] * len(quantiles)


# ---- NumPy arrays as arguments ---------------------------------------------------------------------------------------


def _accept_arrays() -> None:
    """Let kernels of Triton accept NumPy arrays: each is passed as a `Tensor`.

    The binder of a kernel, which Triton calls with the arguments, replaces them. No frame of this package is then in
    the traceback of an error of Triton's compiler.
    """
    from triton.runtime import jit  # here, since Triton imports this module before these
    from triton.runtime.autotuner import Autotuner

    make, tune = jit.create_function_from_signature, Autotuner.run
    if make.__module__ != __name__:
        jit.create_function_from_signature = _binder_maker(make)
        Autotuner.run = lambda self, *args, **kwargs: _with_tensors(partial(tune, self))(*args, **kwargs)


def _binder_maker(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes the binder of a kernel as `make` does, but one that accepts NumPy arrays."""

    def create(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        return _with_tensors(make(*args, **kwargs))

    return create


_CONVERTED: Final = (np.ndarray, tuple)
"""The types of arguments that may have to be replaced."""


def _with_tensors(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `call` with tensors in place of NumPy arrays."""

    def called(*args: Any, **kwargs: Any) -> Any:
        for each in (*args, *kwargs.values()):
            if isinstance(each, _CONVERTED):
                return call(*map(_tensor, args), **{name: _tensor(each) for name, each in kwargs.items()})
        return call(*args, **kwargs)

    return called


def _tensor(value: Any) -> Any:
    """Return an argument of a kernel with NumPy arrays as tensors."""
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if type(value) is tuple:
        return tuple(map(_tensor, value))
    return value


def _linker() -> str | None:
    """Return the path of a linker of LLVM that is in the PATH."""
    names = ("ld.lld", *(f"ld.lld-{version}" for version in range(30, 13, -1)))
    return next((found for name in names if (found := shutil.which(name))), None)


def activate() -> None:
    """Run the kernels of Triton on the virtual GPU from now on."""
    SoftcardDriver._is_chosen = True
    active = triton.runtime.driver
    if type(getattr(active, "_active", None)) is not SoftcardDriver:
        active.set_active(SoftcardDriver())
