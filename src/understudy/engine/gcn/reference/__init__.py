"""The reference engine of GCN: meanings evaluated over NumPy lanes; the judge."""
