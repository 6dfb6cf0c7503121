"""Triton on a virtual GPU: a driver that launches the kernels of Triton's AMD compiler on a `Gpu`."""
