"""The tables of GCN operations by encoding: opcodes of each generation, signature, semantics and accuracy."""
