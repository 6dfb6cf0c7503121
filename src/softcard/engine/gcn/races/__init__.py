"""The race detectors of GCN: they find conflicting accesses of a byte that no happens-before order separates."""
