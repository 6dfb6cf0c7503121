"""RISC-V (RV64GCV and further extensions): tables, decoding, encoding, text, semantics and hart state."""
