"""Translation of RV64 regions to machine code of the host."""
