"""Direct-threaded code, the first tier of the JIT.

Each instruction is one call of a handler (a compiled function), which all kernels share.
"""
