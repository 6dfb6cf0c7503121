"""Engines of RV64: the reference, one instruction at a time, and the JIT engine that agrees with it."""
