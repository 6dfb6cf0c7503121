"""The engines for waves: the reference engine and the JIT engine.

Both use one definition of each GCN instruction's semantics.
"""
