"""The reference engine of GCN, which evaluates instruction semantics on NumPy arrays of lanes.

Tests compare the JIT with it.
"""
