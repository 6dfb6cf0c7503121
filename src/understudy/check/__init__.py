"""Checkers that look at machine code without running it."""
