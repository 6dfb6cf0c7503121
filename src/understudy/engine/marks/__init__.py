"""Marks of values, for every instruction set: how they travel through what integers are computed with."""
