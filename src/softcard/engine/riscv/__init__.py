"""Engines of RV64: the reference engine executes single instructions, the JIT engine translates.

Both give the same results.
"""
