"""Kernels of Triton on a virtual AMD GPU: this import selects the GPU for all kernels of the process.

>>> import softcard.triton
>>> kernel[grid](x, y, n)  # CPU tensors of PyTorch, or NumPy arrays
"""
# ruff: noqa: E402 - the computation of Triton's digest starts first, because it overlaps with the other imports.

import importlib.util as _util

if _util.find_spec("triton") is None:
    raise ImportError("softcard.triton requires Triton: pip install 'softcard[triton]'")

import triton as _triton  # first, because this imports the driver, which must be complete when Triton inspects it

from softcard.host.triton.driver import DIGEST, activate

DIGEST.start()

from softcard.host.hsa.gpu import Gpu
from softcard.host.triton.launcher import card as _card
from softcard.host.triton.launcher import checked as check
from softcard.host.triton.pytorch import cuda_on_cpu, inductor
from softcard.host.triton.tensors import Tensor

del _triton
__all__ = ["Tensor", "activate", "address", "check", "cuda_on_cpu", "gpu", "inductor"]


def gpu() -> Gpu:
    """Return the GPU on which kernels run, with its findings, memory and settings."""
    return _card().gpu


def address(tensor: object) -> int:
    """Return the device address of a tensor or array, for pointers that kernels load from memory.

    It is valid until the tensor's memory is freed, and only on the GPU that `gpu` returns at the time of the call. The
    kernels in a ``with`` block of `check` run on another GPU, so call the function in the block for them.
    """
    return _card().storages.address(tensor)


activate()
