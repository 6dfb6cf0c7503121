"""The functions that Triton calls through the driver: loading of code, streams, events, and NumPy arguments."""

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

from softcard.core.errors import NotInstalled
from softcard.core.tracebacks import OURS
from softcard.device.hsa.agents import WORKGROUP_LIMIT, agent
from softcard.host.triton.launcher import FLAGS, Function, Launcher, card, chosen_agent
from softcard.host.triton.tensors import Tensor

_MAJOR, _MINOR = triton.__version__.split(".")[:2]
VERSION: Final = int(_MAJOR), int(_MINOR)
LINKER_VARIABLE: Final = "TRITON_HIP_LLD_PATH"
"""Triton's environment variable with the path of a linker, which versions before 3.5 need."""
TICKS: Final = 1000
"""The number of wave instructions that count as a millisecond.

With this value, Triton's benchmarks, which repeat a kernel for a fixed time, do not repeat long kernels.
"""


def _flags() -> tuple[str, ...]:
    """Return the flags that Triton's tensor descriptors have; versions before 3.4 have no descriptors of the host."""
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor
    except ImportError:
        return ()
    return tuple(flag for flag in FLAGS if flag in TensorDescriptor.__dataclass_fields__)


make_launcher: Final = partial(Launcher, version=VERSION, flags=_flags())
"""A function that returns the launcher of a kernel from its source and metadata."""


def target() -> GPUTarget:
    """Return the GPU that SOFTCARD_AGENT selects, for Triton's AMD compiler."""
    return GPUTarget("hip", chosen_agent(), 64)


def zeros(size: int) -> Any:
    """Return memory of zeros."""
    return np.zeros(size, np.uint8)


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

    @classmethod
    def default(cls) -> Stream:
        """Return the default stream."""
        made = cls.__new__(cls)
        made.number, made._outer = 0, []
        return made

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


def measured(kernel_call: Callable[[], object], *, quantiles: Sequence[float] | None = None, **_: object) -> Any:
    """Return the time of one call in thousands of wave instructions, once for each of `quantiles`.

    The number of instructions is the same in every run.
    """
    start, end = Event(), Event()
    start.record()
    kernel_call()
    end.record()
    found = start.elapsed_time(end)
    return found if quantiles is None else [found] * len(quantiles)


def torch_device() -> Any:
    """Return the device of CPU tensors of PyTorch; raise `NotInstalled` without PyTorch."""
    try:
        import torch
    except ImportError:
        text = "PyTorch is not installed: pip install torch, or pass NumPy arrays to kernels"
        raise NotInstalled(text) from None

    return torch.device("cpu")


# ---- preparation -----------------------------------------------------------------------------------------------------


def prepare() -> None:
    """Prepare Triton for the driver: NumPy arrays as arguments, a linker, and short tracebacks."""
    _accept_arrays()
    OURS.add("triton")
    if VERSION < (3, 5) and LINKER_VARIABLE not in os.environ and (linker := _linker()):
        os.environ[LINKER_VARIABLE] = linker


def _accept_arrays() -> None:
    """Let kernels of Triton accept NumPy arrays: each is passed as a `Tensor`.

    The binder of a kernel, which Triton calls with the arguments, replaces them. No frame of this package is then in
    the traceback of an error of Triton's compiler.
    """
    from triton.runtime import jit
    from triton.runtime.autotuner import Autotuner

    make, tune = jit.create_function_from_signature, Autotuner.run
    if make.__module__ != __name__:
        jit.create_function_from_signature = _binder_maker(make)
        Autotuner.run = lambda self, *args, **kwargs: _with_tensors(partial(tune, self))(*args, **kwargs)


def _binder_maker(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes the binder of a kernel like `make`, and lets it accept NumPy arrays."""

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
        return Tensor.for_launch(value)
    if type(value) is tuple:
        return tuple(map(_tensor, value))
    return value


def _linker() -> str | None:
    """Return the path of a linker of LLVM that is in the PATH."""
    names = ("ld.lld", *(f"ld.lld-{version}" for version in range(30, 13, -1)))
    return next((found for name in names if (found := shutil.which(name))), None)
