"""Marks: bits beside the bits of registers and memory that travel through operations, for checks of what values are."""
