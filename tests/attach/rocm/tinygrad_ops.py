"""Operations of tinygrad on the device that the environment selects, compared with NumPy; one line for each.

Arguments are the names of the operations to execute; without arguments all are executed."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Device, Tensor, TinyJit, dtypes

Array = npt.NDArray[Any]
RNG = np.random.default_rng(7)
A, B = (RNG.standard_normal((33, 48)).astype(np.float32) for _ in range(2))
IMAGES, FILTERS = (
    RNG.standard_normal((2, 3, 9, 9)).astype(np.float32),
    RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
)
NUMBERS = RNG.integers(-1000, 1000, 500).astype(np.int32)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def convolved(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def gradient() -> Array:
    x = Tensor(A)
    (x.sin() * Tensor(B)).sum().backward()
    assert x.grad is not None
    return x.grad.numpy()


def jitted() -> Array:
    """The third call replays the commands that tinygrad has bound into a buffer at the second one."""
    step = TinyJit(lambda x: (x * 2 + 1).relu().sum(axis=0).realize())
    return [step(Tensor(A + n)).numpy() for n in range(4)][-1]


CASES: dict[str, tuple[Callable[[], Array], Array]] = {
    "copy": (lambda: Tensor(A).numpy(), A),
    "large copy": (lambda: Tensor.arange(3 << 20).numpy(), np.arange(3 << 20)),
    "arithmetic": (lambda: (Tensor(A) * 3 - Tensor(B) / 2).abs().sqrt().numpy(), np.sqrt(np.abs(A * 3 - B / 2))),
    "matmul": (lambda: (Tensor(A) @ Tensor(B).T).numpy(), A @ B.T),
    "half": (
        lambda: (Tensor(A).half() @ Tensor(B).half().T).float().numpy(),
        A.astype(np.float16).astype(np.float32) @ B.astype(np.float16).astype(np.float32).T,
    ),
    "softmax": (lambda: Tensor(A).softmax().numpy(), softmax(A)),
    "reductions": (lambda: Tensor(A).max(axis=1).cat(Tensor(A).std(axis=1)).numpy(), np.r_[A.max(1), A.std(1, ddof=1)]),
    "convolution": (lambda: Tensor(IMAGES).conv2d(Tensor(FILTERS)).numpy(), convolved(IMAGES, FILTERS)),
    "sort": (lambda: Tensor(NUMBERS).sort()[0].numpy(), np.sort(NUMBERS)),
    "cumulative sum": (lambda: Tensor(NUMBERS).cumsum().numpy(), np.cumsum(NUMBERS)),
    "gather": (lambda: Tensor(A)[Tensor(NUMBERS % 33)].numpy(), A[NUMBERS % 33]),
    "integers": (
        lambda: ((Tensor(NUMBERS).cast(dtypes.int64) << 33) // 7 ^ 5).numpy(), (NUMBERS.astype(np.int64) << 33) // 7 ^ 5
    ),
    "double": (lambda: Tensor(A.astype(np.float64)).exp().numpy(), np.exp(A.astype(np.float64))),
    "gradient": (gradient, np.cos(A) * B),
    "jit": (jitted, np.maximum((A + 3) * 2 + 1, 0).sum(0)),
}  # fmt: skip

print(Device.DEFAULT, Device[Device.DEFAULT].arch)
for name in sys.argv[1:] or CASES:
    run, expected = CASES[name]
    found = run()
    close = {"half": 2e-2, "double": 1e-6}.get(name, 1e-4)
    is_right = found.shape == expected.shape and np.allclose(found, expected, rtol=close, atol=close)
    print(f"{name}: {'right' if is_right else 'wrong'}")
