"""Instruction sets: decoding, encoding, assembly text and semantics, independent of engines."""
