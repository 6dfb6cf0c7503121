"""Translation of GCN regions to machine code of the host, and the run-time around it."""
