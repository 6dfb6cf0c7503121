"""The launcher's protocol in each version of Triton, and tensors as device memory, without Triton itself."""

import gc
import struct
import subprocess
import sys
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcard import BeyondModel, FindingWarning, Gpu, RuleError, WireError
from softcard.host.triton import launcher
from softcard.host.triton.launcher import Function, Launcher, card, checked, chosen_agent, packer
from softcard.host.triton.tensors import Storages, Tensor

COMPILED = Path(__file__).parents[2] / "vectors" / "gcn" / "triton" / "gfx942"


@pytest.fixture(autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    for each in launcher._CARDS:
        each.gpu.close()


def launched(version: tuple[int, int], values: list[Any], signature: dict[Any, Any], **metadata: Any) -> list[str]:
    """Launch the addition of two vectors of 3,000 elements; return the order of hooks."""
    names = ["x", "y", "out", "n", "BLOCK"]
    source = SimpleNamespace(signature=signature, fn=SimpleNamespace(arg_names=names))
    facts = SimpleNamespace(num_warps=4, warp_size=64, shared=0, **metadata)
    hooks: list[str] = []
    run = Launcher(source, facts, version)
    function = Function("add", (COMPILED / "add.co").read_bytes())
    run(3, 1, 1, 0, function, None, "facts", lambda each: hooks.append(f"enter {each}"), hooks.append, *values)
    return hooks


TYPES = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}


@pytest.mark.parametrize("version", [(3, 2), (3, 3), (3, 5), (3, 9)])
def test_protocol_of_each_version(version: tuple[int, int]):
    x, y = np.arange(3000, dtype=np.float32), np.ones(3000, np.float32)
    out = np.zeros(3000, np.float32)
    values: list[Any] = [Tensor(x), y, out, 3000, 1024]
    signature: dict[Any, Any] = dict(TYPES)
    if version < (3, 3):  # constants are left out, and the signature has numbers in place of names
        del values[-1], signature["BLOCK"]
        signature = dict(enumerate(signature.values()))
    assert launched(version, values, signature) == ["enter facts", "facts"]
    assert np.array_equal(out, x + 1)


@pytest.mark.parametrize("key", ["n", 3])
def test_constants_of_triton_3_2_are_not_arguments_of_the_kernel(key: Any):
    """There, an argument equal to 1 or None is in the signature and among the values, but not in the kernel."""
    signature = dict(TYPES) if key == "n" else dict(enumerate(TYPES.values()))
    last = signature.popitem()[0]
    names = ["x", "y", "out", "n", "BLOCK"]
    source = SimpleNamespace(signature=signature, constants={key: 1, last: 64}, fn=SimpleNamespace(arg_names=names))
    made = Launcher(source, SimpleNamespace(num_warps=4, warp_size=64, shared=0), (3, 2))
    assert made._arguments(card(), [1 << 12, 2 << 12, 3 << 12, 1]) == [1 << 12, 2 << 12, 3 << 12]
    assert [name for name, _, _ in made._slots] == ["x", "y", "out"]


@pytest.mark.parametrize(("version", "sizes"), [((3, 6), [96]), ((3, 9), [48, 96])])
def test_scratch_memory_exists_until_the_kernel_ends(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], sizes: list[int]
):
    """Triton's allocators return memory that nothing else refers to."""
    alive: list[weakref.ref[Any]] = []
    made: list[int] = []

    def allocate(size: int, alignment: int, stream: int | None) -> Any:
        array = np.zeros(size, np.uint8)
        alive.append(weakref.ref(array))
        made.append(size)
        return Tensor(array)

    holder = SimpleNamespace(get=lambda: allocate)
    runtime = SimpleNamespace(_allocation=SimpleNamespace(_allocator=holder, _profile_allocator=holder))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "triton.runtime", runtime)
    gpu, seen = card().gpu, []
    run = gpu._run

    def watched(*args: Any) -> Any:
        gc.collect()
        seen.extend(each() is not None for each in alive)
        return run(*args)

    monkeypatch.setattr(gpu, "_run", watched)
    arrays = [np.zeros(3000, np.float32) for _ in range(3)]
    launched(version, [*arrays, 3000, 1024], TYPES, global_scratch_size=16, profile_scratch_size=32)
    assert made == sizes
    assert seen == [True] * len(sizes)
    gc.collect()
    assert not any(each() for each in alive)


def test_code_is_unloaded_before_the_next_launch():
    """Not at once: finalizers run while kernels do, and unloading waits for kernels."""
    function = Function("add", (COMPILED / "add.co").read_bytes())
    executable = function.kernel(card()).executable
    function.unload()
    assert executable.is_loaded
    arrays = [np.zeros(3000, np.float32) for _ in range(3)]
    launched((3, 9), [*arrays, 3000, 1024], TYPES)
    assert not executable.is_loaded
    assert function.kernel(card()).executable.is_loaded


def test_grids_without_programs_do_nothing():
    run = Launcher(SimpleNamespace(signature={}), SimpleNamespace(num_warps=1, warp_size=64, shared=0), (3, 9))
    run(4, 0, 1, 0, Function("none", b""), None, None, None, None)


def test_descriptors_and_tuples_are_flattened():
    source = SimpleNamespace(
        signature={"d": "tensordesc<fp16[32, 32]>", "pair": ("*fp32", ("i32", "constexpr"))},
        fn=SimpleNamespace(arg_names=["d", "pair"]),
    )
    facts = SimpleNamespace(num_warps=1, warp_size=64, shared=0)
    made = Launcher(source, facts, (3, 9))
    sides = [f"d.{name}[{axis}]" for name in ("shape", "strides") for axis in (0, 1)]
    flags = ["d.padding", "d.round_f32_to_tf32"]
    assert [name for name, _, _ in made._slots] == ["d.base", *sides, *flags, *sides, "pair[0]", "pair[1][0]"]
    descriptor = SimpleNamespace(base=None, shape=[64, 32], strides=[32, 1], padding="nan", round_f32_to_tf32=False)
    found = made._arguments(card(), [descriptor, (None, (7, 8))])
    longs = [struct.pack("<q", each) for each in (64, 32, 32, 1)]
    shapes = [struct.pack("<i", each) for each in (64, 32)]
    assert found == [0, *longs, b"\1", b"\0", *shapes, *longs[2:], 0, struct.pack("<i", 7)]
    for flags, count in (((), 2), (("padding",), 1)):  # those of Triton 3.4 and 3.5
        older = Launcher(source, facts, (3, 7), flags)
        without = SimpleNamespace(base=None, shape=[64, 32], strides=[32, 1], padding="nan")
        assert len(older._slots) == len(older._arguments(card(), [without, (None, (7, 8))])) == len(made._slots) - count


@pytest.mark.parametrize(
    ("metadata", "text"), [({"num_ctas": 2}, "num_ctas is 2, expected 1"), ({"tensordesc_meta": [{}]}, "TDM")]
)
def test_kernels_for_other_gpus(metadata: dict[str, Any], text: str):
    with pytest.raises(BeyondModel, match=text):
        launched((3, 9), [], TYPES, **metadata)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([object(), None, None, 1, 1], "cannot pass a value of type object for a pointer, expected .* at argument x"),
        (
            [None, None, None, "7x", 1],
            "cannot pass str '7x' for a value of type i32, expected an integer, at argument n",
        ),
        ([None, None], "the kernel takes 4 arguments, not 2"),
    ],
)
def test_wrong_arguments(values: list[Any], text: str):
    with pytest.raises(WireError, match=text):
        launched((3, 9), values, TYPES)


def test_unknown_types():
    with pytest.raises(BeyondModel, match="arguments of type nvTmaDesc are not supported"):
        packer("nvTmaDesc")


@given(st.floats())
def test_bfloat16_is_the_upper_half_of_a_float(value: float):
    """As in extractBF16 of Triton's AMD driver."""
    with np.errstate(over="ignore"):
        assert packer("bf16")(value) == np.float32(value).tobytes()[2:]


@given(st.integers(-(1 << 64), 1 << 65), st.sampled_from("iu"), st.sampled_from([1, 8, 16, 32, 64]))
def test_integers_that_fit_their_type(value: int, sign: str, bits: int):
    low = -(1 << bits - 1) if sign == "i" else 0
    end = 1 << 63 if (sign, bits) == ("i", 64) else 1 << bits
    pack = packer(f"{sign}{bits}")
    if low <= value < end:
        assert pack(value) == pack(np.array(value)) == (value % (1 << bits)).to_bytes(max(bits // 8, 1), "little")
    else:
        with pytest.raises(WireError, match=f"{value} does not fit type {sign}{bits}, expected {low} to {end - 1}"):
            pack(value)


@pytest.mark.parametrize(
    ("type_name", "value", "text"),
    [
        ("i32", 2.7, "cannot pass float 2.7 for a value of type i32, expected an integer"),
        ("i32", "7", "cannot pass str '7' for a value of type i32, expected an integer"),
        ("u32", -1, "-1 does not fit type u32, expected 0 to 4294967295"),
        ("i64", 1 << 64, "18446744073709551616 does not fit type i64"),
        ("fp32", None, "cannot pass NoneType None for a value of type fp32, expected a number"),
        ("bf16", "1", "cannot pass str '1' for a value of type bf16, expected a number"),
        ("fp64", np.zeros(2), "cannot pass ndarray array.* for a value of type fp64, expected a number"),
        ("fp16", 1e6, "1000000.0 is too large for a value of type fp16"),
    ],
)
def test_numbers_that_triton_s_driver_refuses(type_name: str, value: Any, text: str):
    with pytest.raises(WireError, match=f"{text}.*, at argument n"):
        launched((3, 9), [None, None, None, value, 1], {**TYPES, "n": type_name})


def test_numbers_too_large_for_their_type_are_infinite():
    assert struct.unpack("<f", packer("fp32")(-1e300)) == (float("-inf"),)
    assert packer("bf16")(1e300) == b"\x80\x7f"


def test_agent_of_an_environment_variable(monkeypatch: pytest.MonkeyPatch):
    assert chosen_agent() == "gfx942"
    monkeypatch.setenv("SOFTCARD_AGENT", "gfx90a")
    assert chosen_agent() == "gfx90a"
    monkeypatch.setenv("SOFTCARD_AGENT", "gfx9a0")
    with pytest.raises(
        WireError, match=r"SOFTCARD_AGENT is 'gfx9a0'.* expected one of gfx906, .*did you mean 'gfx950'"
    ):
        chosen_agent()


def test_checks_use_a_gpu_of_their_own():
    usual = card()
    with checked("memory") as gpu:
        assert card().gpu is gpu is not usual.gpu
    assert card() is usual
    assert gpu.device.is_closed


def test_checks_of_one_thread_leave_the_launches_of_others():
    usual = card()
    with checked("memory") as gpu, ThreadPoolExecutor(1) as pool:
        assert pool.submit(card).result() is usual
        assert card().gpu is gpu


def test_code_is_loaded_once_on_each_gpu():
    function = Function("add", (COMPILED / "add.co").read_bytes())
    usual = function.kernel(card())
    with checked("memory"):
        inner = card()
        checked_kernel = function.kernel(inner)
        assert checked_kernel is function.kernel(inner) is not usual
        assert function.kernel(launcher._CARDS[0]) is usual
        function.unload()
        assert inner.unused == [checked_kernel.executable]
    assert card().unused == [usual.executable]
    card().unload()


def test_code_is_loaded_once_by_several_threads():
    function, where = Function("add", (COMPILED / "add.co").read_bytes()), card()
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: function.kernel(where), range(16)))) == 1


def test_unloading_in_two_threads():
    class Shorter(list[Any]):
        def __bool__(self) -> bool:
            return True  # another thread removes the last element after this

    where = card()
    where.unused = Shorter()
    where.unload()
    where.unused = []


def test_errors_in_a_checked_block_have_no_leaks_beside_them():
    def fail() -> None:
        with checked("all"):
            card().storages.address(np.zeros(64, np.float32))
            raise KeyError

    with warnings.catch_warnings():
        warnings.simplefilter("error", FindingWarning)
        with pytest.raises(KeyError):
            fail()


def test_closed_gpu_of_a_checked_block():
    with checked("memory") as gpu:
        gpu.close()
        with pytest.raises(RuleError, match=r"the GPU of the with block of softcard\.triton\.check is closed"):
            card()
    assert not card().gpu.device.is_closed


def test_addresses_of_another_gpu():
    arrays = [np.zeros(1 << 16, np.float32) for _ in range(3)]
    values = [card().storages.address(each) for each in arrays]
    launched((3, 9), [*values, 3000, 1024], TYPES)
    text = f"the address {values[0]:#x} is in the memory of another GPU than that of the launch.*, at argument x"
    with checked("memory"), pytest.raises(WireError, match=text):
        launched((3, 9), [*values, 3000, 1024], TYPES)


def test_missing_triton():
    code = "import sys; sys.modules['triton'] = None; import softcard.triton"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    text = "ImportError: softcard.triton requires Triton: pip install 'softcard[triton]'"
    assert made.stderr.splitlines()[-1] == text


# ---- tensors ---------------------------------------------------------------------------------------------------------


class Storage:
    """The memory of a tensor of PyTorch, whose object is the same for all its tensors."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def data_ptr(self) -> int:
        return int(self.data.ctypes.data)

    def nbytes(self) -> int:
        return int(self.data.nbytes)


class TorchTensor:
    """A tensor with the methods of PyTorch's that the launcher calls."""

    is_cpu = True

    def __init__(self, storage: Storage, offset: int = 0) -> None:
        self._storage, self._offset = storage, offset

    def untyped_storage(self) -> Storage:
        return self._storage

    def data_ptr(self) -> int:
        return self._storage.data_ptr() + self._offset


def test_storages_are_mapped_once_until_their_owner_is_gone():
    with Gpu.open("gfx900", threads=1) as gpu:
        storages = Storages(gpu)
        storage = Storage(np.zeros(64, np.uint8))
        address = storages.address(TorchTensor(storage))
        assert storages.address(TorchTensor(storage, 16)) == address + 16
        assert storages.memory(TorchTensor(storage, 16)).nbytes == 48
        other = np.zeros(64, np.float32)
        assert storages.address(other[3:]) == storages.address(Tensor(other)) + 12
        inside = storage.data_ptr() + 5
        assert storages.address(SimpleNamespace(data_ptr=lambda: inside)) == address + 5
        assert len(storages._known) == 2
        del storage
        gc.collect()
        storages.address(None)
        assert len(storages._known) == 1
        storages.close()
        assert not storages._known


def test_several_owners_of_the_same_memory():
    """An array, a tensor of PyTorch made of it, and a larger array that begins at the same address."""
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, data = Storages(gpu), np.zeros(64, np.uint8)
        half, whole = Storage(data[:32]), Storage(data)
        address = storages.address(TorchTensor(half))
        assert storages.address(np.frombuffer(memoryview(data)[:32], np.uint8)) == address
        assert storages.memory(TorchTensor(whole)).nbytes == 64
        assert storages.address(data) == storages.address(TorchTensor(whole))
        assert len(storages._others) == 1
        assert gpu.device.block(address) is not None
        del half
        storages.address(None)
        assert not storages._others
        storages.close()


def test_larger_arrays_at_the_address_of_a_smaller_one():
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, whole = Storages(gpu), np.zeros(1024, np.float32)
        half = np.frombuffer(whole.data, np.float32, 512)
        assert storages.memory(half).nbytes == 2048
        for _ in range(2):
            assert storages.memory(whole).nbytes == 4096
            assert gpu.device.view(storages.address(whole), 4096)
            assert storages.memory(half).nbytes == 2048


def test_permission_to_write_follows_the_array():
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, array = Storages(gpu), np.zeros(64, np.uint8)
        for is_writable in (False, True, False):
            array.flags.writeable = is_writable
            assert storages.memory(array).flags.writeable is is_writable
            block = gpu.device.block(storages.address(array))
            assert gpu._arrays.block(array).data.flags.writeable is is_writable
        assert gpu.device.block(storages.address(array)) is block
        assert len(storages._known) == 1


def test_writable_and_read_only_arrays_of_the_same_memory():
    """Both may be arguments of one launch, so neither mapping replaces the other."""
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, array = Storages(gpu), np.zeros(64, np.uint8)
        view = np.frombuffer(memoryview(array).toreadonly(), np.uint8)
        first = storages.address(view)
        second = storages.address(array)
        assert storages.memory(array).flags.writeable
        assert gpu.device.block(first) is not gpu.device.block(second)
        assert gpu.device.block(first) is not None
        assert storages.address(view) == second == storages.address(array)


def test_arrays_that_the_user_frees_are_mapped_anew():
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, array, storage = Storages(gpu), np.zeros(64, np.uint8), Storage(np.zeros(64, np.uint8))
        for tensor, memory in ((array, array), (TorchTensor(storage), storage.data)):
            storages.address(tensor)
            gpu.free(memory)
            assert gpu.device.block(storages.address(tensor)) is not None


def test_storages_after_a_reset_of_the_device():
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, array = Storages(gpu), np.zeros(64, np.uint8)
        storages.address(array)
        gpu.reset()
        assert gpu.device.block(storages.address(array)) is not None


def test_resized_storages_are_mapped_anew():
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, storage = Storages(gpu), Storage(np.zeros(64, np.uint8))
        storages.address(TorchTensor(storage))
        before, storage.data = storage.data, np.zeros(128, np.uint8)
        assert storages.memory(TorchTensor(storage)).nbytes == 128
        assert list(storages._known) == [storage.data_ptr()] != [before.ctypes.data]


def test_empty_and_read_only_arrays():
    with Gpu.open("gfx900", threads=1) as gpu:
        storages, data = Storages(gpu), np.ones(16, np.float32)
        data.flags.writeable = False
        assert not storages.memory(data).flags.writeable
        assert storages.memory(np.zeros(0)) == 0
        assert storages.memory(TorchTensor(Storage(np.zeros(0)))) == 0
        assert storages.memory(4096) == storages.memory(np.int64(4096)) == 4096


def test_arrays_of_the_device_have_its_addresses():
    with Gpu.open("gfx900", threads=1) as gpu:
        array, storages = gpu.zeros(64), Storages(gpu)
        assert storages.address(array[4:]) == gpu.address(array) + 16
        storages.close()
        assert gpu.address(array)
        gpu.free(array)
        assert storages.address(array) == gpu.address(array)  # now an array of the host, mapped like any other


def test_tensors_have_what_the_autotuner_calls():
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    tensor = Tensor(array)
    copy = tensor.clone()
    assert (tensor.numel(), tensor.element_size(), tensor.stride(), tensor.stride(1)) == (6, 2, (3, 1), 1)
    assert tensor.shape == (2, 3)
    tensor.zero_()
    assert not array.any()
    assert np.array_equal(tensor.copy_(copy).array, copy.array)
    assert "Tensor(array(" in repr(tensor)


def test_an_object_with_the_memory_of_a_tensor():
    """Libraries pass views that PyTorch cannot express, such as one with a negative stride (FlagGems)."""
    storage = Storage(np.zeros(64, np.uint8))
    storage.device = SimpleNamespace(type="cpu")
    view = SimpleNamespace(untyped_storage=lambda: storage, data_ptr=lambda: storage.data_ptr() + 8, device="cuda:0")
    with Gpu.open("gfx900", threads=1) as gpu:
        storages = Storages(gpu)
        assert storages.address(view) == storages.address(TorchTensor(storage)) + 8
        storage.device = SimpleNamespace(type="cuda")
        with pytest.raises(WireError, match="the tensor is on device 'cuda:0', expected 'cpu'"):
            storages.address(view)
        storages.close()
