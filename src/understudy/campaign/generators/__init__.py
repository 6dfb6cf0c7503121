"""Generators of programs: each program follows from the generator's version and a seed, on every machine."""
