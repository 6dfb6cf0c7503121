"""PyTorch with the virtual GPU: the mapping with a small fake of PyTorch, and both functions with the real one."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import NotInstalled
from tests.host.triton import load_kernels

k = load_kernels()

from triton.backends import backends  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler.compiler import make_backend  # noqa: E402

import softcard.triton  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.slow(seconds=1)]
with_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch"
)


@pytest.fixture(scope="module", autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    softcard.triton.gpu().close()


# ---- a fake of PyTorch -----------------------------------------------------------------------------------------------


class Device:
    def __init__(self, kind: str, index: int | None = None) -> None:
        self.type, self.index = kind, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    __hash__ = None  # type: ignore[assignment]


class FakeTensor:
    device = property(lambda self: Device("cpu"))
    is_cuda = property(lambda self: False)

    def get_device(self) -> int:
        return -1

    def cuda(self) -> Any:
        raise AssertionError

    def pin_memory(self) -> Any:
        raise AssertionError

    def to(self, *given: Any, **named: Any) -> Any:
        return given, named


class Mode:
    """The base of modes, with the mode that is active."""

    active: Any = None

    def __enter__(self) -> Any:
        Mode.active = self
        return self

    def __exit__(self, *_: object) -> None:
        Mode.active = None


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fake of PyTorch with what the functions use, and a record of what they set."""
    made = ModuleType("torch")
    log: list[Any] = []

    @contextmanager
    def patch(**values: Any) -> Iterator[None]:
        log.append(values)
        yield
        log.append("restored")

    config = ModuleType("torch._inductor.config")
    triton_utilities = SimpleNamespace(has_triton=SimpleNamespace(cache_clear=lambda: log.append("cleared")))
    fields: dict[str, Any] = {
        "cuda": SimpleNamespace(is_available=lambda: False),
        "version": SimpleNamespace(hip=None, cuda="12"),
        "Tensor": FakeTensor,
        "device": Device,
        "default_generator": object(),
        "manual_seed": lambda seed: seed,
        "compiler": SimpleNamespace(reset=lambda: log.append("reset")),
        "log": log,
    }
    vars(made).update(fields)
    vars(config)["patch"] = patch
    inductor = ModuleType("torch._inductor")
    vars(inductor)["config"], vars(made)["_inductor"] = config, inductor
    for name, module in {
        "torch": made,
        "torch._inductor": inductor,
        "torch._inductor.config": config,
        "torch.utils": SimpleNamespace(_triton=triton_utilities),
        "torch.overrides": SimpleNamespace(TorchFunctionMode=Mode),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_cuda_describes_the_gpu_in_the_block_only(torch: Any):
    before = torch.cuda.is_available
    with softcard.triton.cuda_on_cpu():
        properties = torch.cuda.get_device_properties(0)
        assert (properties.gcnArchName, properties.warp_size) == ("gfx942", 64)
        assert properties.shared_memory_per_block == 65536
        assert torch.cuda.get_device_capability() == (9, 4)
        assert torch.cuda.is_available()
        assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
        assert torch.version.hip is not None
        assert torch.version.cuda is None
        assert torch.cuda.current_stream().cuda_stream == 0
        with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.synchronize()
    assert torch.cuda.is_available is before
    assert vars(torch.cuda).keys() == {"is_available"}
    assert (torch.version.hip, torch.version.cuda) == (None, "12")
    assert Mode.active is None


def test_functions_of_cuda_differ(torch: Any):
    """PyTorch's compiler has a table by function, and refuses one function under two names."""
    with softcard.triton.cuda_on_cpu():
        functions = [each for each in vars(torch.cuda).values() if callable(each)]
        assert len(set(map(id, functions))) == len(functions)


def test_cuda_is_restored_after_an_error(torch: Any):
    with pytest.raises(ZeroDivisionError), softcard.triton.cuda_on_cpu():
        raise ZeroDivisionError
    assert vars(torch.cuda).keys() == {"is_available"}


def test_devices_are_mapped(torch: Any):
    x = FakeTensor()
    with softcard.triton.cuda_on_cpu():
        call = Mode.active.__torch_function__
        assert call(FakeTensor.device.__get__, (), (x,)) == Device("cuda", 0)
        assert call(FakeTensor.is_cuda.__get__, (), (x,)) is True
        assert call(FakeTensor.get_device, (), (x,)) == 0
        assert call(FakeTensor.cuda, (), (x,)) is x
        assert call(FakeTensor.pin_memory, (), (x,)) is x
        assert call(FakeTensor.to, (), (x, "cuda:0", 3)) == (("cpu", 3), {})
        assert call(FakeTensor.to, (), (x, Device("cuda", 0))) == ((Device("cpu"),), {})
        assert call(FakeTensor.to, (), (x, Device("meta"))) == ((Device("meta"),), {})
        empty = lambda *given, **named: (given, named)  # noqa: E731
        assert call(empty, (), (3,), {"device": "cuda", "pin_memory": True}) == ((3,), {"device": "cpu"})
        assert call(empty, (), (3,), {"device": 0}) == ((3,), {"device": "cpu"})
        assert call(empty, (), (3,), {"device": "meta"}) == ((3,), {"device": "meta"})
        assert call(empty, (), (3,), {"device": None}) == ((3,), {"device": None})


def test_tensors_of_other_devices_are_not_mapped(torch: Any, monkeypatch: pytest.MonkeyPatch):
    """PyTorch and Helion trace programs with tensors of the device "meta"."""
    x, device = FakeTensor(), Device("meta")
    monkeypatch.setattr(FakeTensor, "device", property(lambda self: device))
    with softcard.triton.cuda_on_cpu():
        call = Mode.active.__torch_function__
        assert call(FakeTensor.device.__get__, (), (x,)) is device
        assert call(FakeTensor.is_cuda.__get__, (), (x,)) is False
        assert call(FakeTensor.get_device, (), (x,)) == -1


def test_inductor_gets_a_backend_in_the_block_only(torch: Any):
    with softcard.triton.inductor():
        made = make_backend(GPUTarget("cpu", "", 0))
        assert (made.target.backend, made.target.arch, made.target.warp_size) == ("cpu", "gfx942", 64)
        assert isinstance(made, backends["amd"].compiler)
        assert make_backend(GPUTarget("hip", "gfx942", 64)).target.backend == "hip"
        assert torch.log == ["cleared", {"cpu_backend": "triton", "compile_threads": 1}]
    assert torch.log[2:] == ["restored", "cleared", "reset"]
    assert "cpu" not in backends


def test_another_backend_for_the_cpu_is_restored(torch: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(backends, "cpu", backends["nvidia"])
    with softcard.triton.inductor():
        assert backends["cpu"] is not backends["nvidia"]
    assert backends["cpu"] is backends["nvidia"]


@pytest.mark.parametrize("function", [softcard.triton.cuda_on_cpu, softcard.triton.inductor])
def test_missing_pytorch(function: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NotInstalled, match="PyTorch is not installed: pip install torch"), function():
        pass


# ---- the real PyTorch ------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@with_torch
def test_a_kernel_on_tensors_of_the_device_cuda():
    import torch

    with softcard.triton.cuda_on_cpu():
        x = torch.arange(100, dtype=torch.float32, device="cuda")
        assert x.device == torch.device("cuda", 0)
        k.scale[(2,)](x, 2.0, 100, BLOCK=64)
        assert (x == 2 * torch.arange(100).cuda()).all()
        assert torch.nn.Linear(3, 3).cuda()(torch.ones(3, device=x.device)).is_cuda
    assert x.device.type == "cpu"
    assert not torch.cuda.is_available()


@pytest.mark.heavy
@with_torch
def test_compiled_functions_run_on_the_gpu():
    import torch

    x = torch.from_numpy(np.random.default_rng(1).standard_normal((8, 100), np.float32))
    function = lambda x: torch.softmax(x * 2, -1)  # noqa: E731
    with softcard.triton.inductor():
        before = softcard.triton.gpu().device.time
        found = torch.compile(function)(x)
        assert softcard.triton.gpu().device.time > before
    assert torch.allclose(found, function(x), atol=1e-6)


@pytest.mark.heavy
@with_torch
def test_the_page_s_example_of_inductor():
    import torch

    page = (Path(__file__).parents[3] / "docs" / "howto" / "triton.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (code,) = (block for block in blocks if "inductor()" in block)
    names: dict[str, Any] = {"torch": torch, "softcard": softcard}
    exec(code, names)
    assert torch.allclose(names["found"].sum(-1), torch.ones(8))
