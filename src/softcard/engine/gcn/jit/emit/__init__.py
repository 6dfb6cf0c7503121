"""The emitters of translated code: LLVM IR for control flow, registers, arithmetic and memory of waves."""
