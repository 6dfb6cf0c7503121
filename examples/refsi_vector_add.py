"""Add two vectors on a virtual RefSi M1: NumPy in, NumPy out, real RISC-V code between."""

import numpy as np

from softcard import RefSi
from softcard.refsi import demo_kernels

INSTANCES = 16
SHARE = 1000

a = np.arange(INSTANCES * SHARE, dtype=np.int32)
b = 10 * a
c = np.zeros_like(a)

with RefSi.open() as device:
    device.load_elf(demo_kernels())  # or the path of your own ELF file
    result = device.launch("vector_add", INSTANCES, [a, b, c, SHARE])

print(c[:4], c[-1])
print(f"{result.instructions} instructions, right: {(c == a + b).all()}")
