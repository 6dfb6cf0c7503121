"""Shadow bits of values, for every instruction set: the rules by which integer operations propagate them."""
