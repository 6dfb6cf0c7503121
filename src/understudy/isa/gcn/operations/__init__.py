"""The tables of operations, by encoding: opcodes per generation, signature, semantics, fidelity."""
