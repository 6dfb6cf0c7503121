"""Waves without compile time: each instruction is one call of a handler, compiled once for all kernels."""
