"""The same one level lower: a command buffer by hand, as a driver writes it.

It opens a memory window for the harts' stacks, runs a kernel that it finds in the ELF file, copies the result by DMA,
and reads hart 0's counters with COPY_MEM64.
"""

import numpy as np

from softcard import RefSi
from softcard.refsi import CommandBuffer, demo_kernels, lint, listing, read_elf
from softcard.riscv import assemble

HART_BASE, HART_SIZE, TCDM_HARTS = 0x1400_0000, 0x8_0000, 0x1020_0000
COUNTERS, ACC_HART_0 = 0x2010_0000, 3 << 24
N, PAGE_SIZE = 8, 4096
EXIT = "addi a0, zero, 0\naddi a7, zero, 0\necall"

image = read_elf(demo_kernels())
(segment,) = image.segments
entry = image.symbol("vector_add").address

with RefSi.open() as device:
    code_size = -(-segment.memory_size // PAGE_SIZE) * PAGE_SIZE
    code = device.allocate(code_size, PAGE_SIZE)
    device.write(code, segment.data)
    stub = device.allocate(PAGE_SIZE, PAGE_SIZE)  # kernels return to it: it ends the instance (EXIT 0)
    device.write(stub, assemble(EXIT))
    data = device.array(np.arange(4 * N, dtype=np.int32))
    total, copy, counters = device.zeros(4 * N, np.int32), device.zeros(4 * N, np.int32), device.zeros(3, np.uint64)

    buffer = (
        CommandBuffer()
        .window(0, base=0x1_0000, target=code, size=code_size)
        .window(1, base=HART_BASE, target=TCDM_HARTS, size=HART_SIZE, mode="PER_HART", scale=HART_SIZE)
        .kernel(entry, stack_top=HART_BASE + HART_SIZE, return_address=stub)
        .sync_cache()
        .run_instances(4, data.address, data.address, total.address, N)
        .sync_cache()
        .dma_1d(copy.address, total.address, total.nbytes)
        .wait_dma()
        .copy_mem64(3, COUNTERS, counters.address, ACC_HART_0)
        .finish()
    )
    print(listing(buffer.to_bytes()))
    for finding in lint(buffer.to_bytes()):
        print(finding)

    status = device.run(buffer)
    print(status)
    print(copy.array)
    print("hart 0 retired", counters.array[2], "instructions")
