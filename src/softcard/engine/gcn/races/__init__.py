"""The race detectors of GCN, which find conflicting accesses of a byte without a happens-before order."""
