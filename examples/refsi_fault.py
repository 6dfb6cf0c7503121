"""What a virtual device tells you about your mistakes, where hardware would hang or stay silent."""

import numpy as np

from softcard import RefSi, SoftcardError
from softcard.refsi import CommandBuffer, demo_kernels, lint

with RefSi.open(step_limit=100_000) as device:
    device.load_elf(demo_kernels())

    # A kernel that stores past the end of memory.
    try:
        device.launch("broken", 8, [np.zeros(8, np.int32), 5])
    except SoftcardError as error:
        print("1.", error)
        print("  ", {place.kind: place.where for place in error.path})

    # A kernel that takes too long.
    try:
        device.launch("crc32", 1, [np.zeros(100_000, np.uint8), np.zeros(1, np.uint32), 100_000])
    except SoftcardError as error:
        print("2.", error)

    # A command buffer with a wrong count; the linter finds it without running anything.
    wrong = CommandBuffer().write_reg64("CMP_SCRATCH", 1).chunks(0x1_C004_0200, 0x10000, 2).finish()
    try:
        device.run(wrong)
    except SoftcardError as error:
        print("3.", error)
    for finding in lint(wrong.to_bytes()):
        print("  ", finding)

    # The device is none the worse for it.
    ones = np.ones(4, np.int32)
    device.launch("vector_add", 4, [ones, ones, ones, 1])
    print("4.", ones)
