"""PyTorch and the virtual GPU: kernels that torch.compile makes, and programs that require the device ``cuda``.

The functions import PyTorch when they are called, since it is optional."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, Final

from softcard.core.errors import NotInstalled
from softcard.device.hsa.agents import WORKGROUP_LIMIT, agent
from softcard.host.triton.driver import SoftcardDriver, activate
from softcard.host.triton.launcher import chosen_agent
from softcard.host.triton.runtime import Event, Interface, Stream

CUDA: Final = "cuda"
CPU: Final = "cpu"
ROCM: Final = "6.4"
"""The version of ROCm that a program reads, which selects code for AMD's GPUs."""
MEMORY_BYTES: Final = 1 << 34
"""The size of the GPU's memory that a program reads."""


def _torch() -> Any:
    """Return PyTorch; raise `NotInstalled` without it."""
    try:
        import torch
    except ImportError:
        raise NotInstalled("PyTorch is not installed: pip install torch") from None
    return torch


# ---- torch.compile ---------------------------------------------------------------------------------------------------


@contextmanager
def inductor() -> Iterator[None]:
    """Let torch.compile make Triton kernels for CPU tensors in a ``with`` block, and run them on the virtual GPU.

    Both the call of a compiled function that compiles it, and its later calls, belong in the block. Inductor compiles
    in this process, since its other processes do not know the virtual GPU.
    """
    torch = _torch()
    import torch._inductor.config as config
    from torch.utils import _triton
    from triton.backends import Backend, backends

    activate()
    before = backends.get(CPU)
    backends[CPU] = Backend(compiler=_cpu_compiler(), driver=SoftcardDriver)
    _triton.has_triton.cache_clear()
    try:
        with config.patch(cpu_backend="triton", compile_threads=1):
            yield
    finally:
        if before is None:
            del backends[CPU]
        else:
            backends[CPU] = before
        _triton.has_triton.cache_clear()
        torch.compiler.reset()  # code of the block would not find the backend any more


def _cpu_compiler() -> type:
    """Return a compiler for the target ``cpu``, which Inductor requires for CPU tensors.

    It is Triton's AMD compiler for the GPU that SOFTCARD_AGENT selects.
    """
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    class CpuCompiler(backends["amd"].compiler):  # type: ignore[misc]
        """Triton's AMD compiler under the name of the target ``cpu``."""

        @staticmethod
        def supports_target(target: GPUTarget) -> bool:
            """Return True for the target ``cpu``."""
            return bool(target.backend == CPU)

        def __init__(self, target: GPUTarget) -> None:
            super().__init__(GPUTarget(CPU, chosen_agent(), 64))

    return CpuCompiler


# ---- torch.cuda ------------------------------------------------------------------------------------------------------


@contextmanager
def cuda_on_cpu() -> Iterator[None]:
    """Let a program use the virtual GPU as PyTorch's device ``cuda`` in a ``with`` block.

    A tensor on the device ``cuda`` is a CPU tensor there, whose attribute `device` is ``cuda:0`` and whose `is_cuda` is
    True. The functions of ``torch.cuda`` describe the GPU that SOFTCARD_AGENT selects, and ``torch.version.hip`` is
    set. These functions are replaced for all threads; devices and tensors are mapped for the calling thread only.
    Operators of PyTorch run on the CPU; Triton's kernels run on the virtual GPU.
    """
    torch = _torch()
    activate()
    with ExitStack() as stack:
        stack.enter_context(_replaced(torch.version, {"hip": ROCM, "cuda": None}))
        stack.enter_context(_replaced(torch.cuda, _functions(torch)))
        stack.enter_context(_mode(torch))
        yield


_ABSENT: Final = object()


@contextmanager
def _replaced(owner: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Replace attributes of an object in a ``with`` block."""
    before = {name: getattr(owner, name, _ABSENT) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


class _Device(nullcontext[None]):
    """A context manager that selects the only GPU."""

    def __init__(self, device: object = 0) -> None:
        super().__init__()
        self.idx = 0


def _functions(torch: Any) -> dict[str, Any]:
    """Return the attributes of ``torch.cuda`` that describe the virtual GPU."""
    name = chosen_agent()
    found = agent(name)
    capability = 9, int(name[4], 16)
    properties = SimpleNamespace(
        name=name, gcnArchName=name, major=capability[0], minor=capability[1], total_memory=MEMORY_BYTES,
        multi_processor_count=found.compute_units, warp_size=64, is_integrated=0,
        max_threads_per_multi_processor=found.waves_per_cu * 64, max_threads_per_block=WORKGROUP_LIMIT,
        shared_memory_per_block=found.lds_bytes, shared_memory_per_multiprocessor=found.lds_bytes,
        regs_per_multiprocessor=65536, L2_cache_size=4 << 20,
    )  # fmt: skip
    stream = Stream.default()
    values = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0, "set_device": None,
        "init": None, "_lazy_init": None, "get_device_properties": properties, "get_device_capability": capability,
        "get_device_name": name, "get_arch_list": [name], "synchronize": None, "empty_cache": None,
        "mem_get_info": (MEMORY_BYTES // 2, MEMORY_BYTES), "memory_allocated": 0, "max_memory_allocated": 0,
        "reset_peak_memory_stats": None, "is_bf16_supported": True, "is_current_stream_capturing": False,
        "current_stream": stream, "default_stream": stream,
    }  # fmt: skip

    def always(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    return {
        **{name: always(value) for name, value in values.items()},  # PyTorch requires another function for each name
        "device": _Device, "device_of": type("device_of", (_Device,), {}), "Stream": Stream, "Event": Event,
        "stream": Interface.stream, "default_generators": (torch.default_generator,),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "manual_seed": lambda seed: torch.manual_seed(seed),
        "manual_seed_all": lambda seed: torch.default_generator.manual_seed(seed),  # torch.manual_seed calls it
    }  # fmt: skip


def _mode(torch: Any) -> Any:
    """Return a mode of PyTorch in which the device ``cuda`` is the CPU."""
    from torch.overrides import TorchFunctionMode

    tensor, cuda = torch.Tensor, torch.device(CUDA, 0)
    answers = {tensor.device.__get__: cuda, tensor.is_cuda.__get__: True, tensor.get_device: 0}
    themselves = {tensor.cuda, tensor.pin_memory}

    def mapped(device: Any) -> Any:
        """Return the device that takes the place of `device`."""
        if isinstance(device, str):
            return CPU if device.partition(":")[0] == CUDA else device
        if isinstance(device, torch.device):
            return torch.device(CPU) if device.type == CUDA else device
        return CPU if type(device) is int else device

    class CudaOnCpu(TorchFunctionMode):  # type: ignore[misc]
        """The mode: it replaces devices among the arguments of PyTorch's functions."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            """Call a function of PyTorch with the CPU in place of the device ``cuda``."""
            if function in answers:
                is_on_cpu = tensor.device.__get__(args[0]).type == CPU  # not of the device "meta"
                return answers[function] if is_on_cpu else function(*args, **(kwargs or {}))
            if function in themselves:
                return args[0]
            kwargs = dict(kwargs or {})
            if kwargs.get("device") is not None:
                kwargs["device"] = mapped(kwargs["device"])
            if kwargs.get("pin_memory"):
                del kwargs["pin_memory"]
            if function is tensor.to:
                args = (args[0], *(mapped(each) if isinstance(each, str | torch.device) else each for each in args[1:]))
            return function(*args, **kwargs)

    return CudaOnCpu()
