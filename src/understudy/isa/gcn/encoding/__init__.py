"""Instruction words: formats, fields, operands; decoding and encoding."""
