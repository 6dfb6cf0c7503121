"""The memory check on the reference engine: accesses outside of allocations, LDS and private memory."""
