"""The check with a memory as weak as the memory model permits.

Caches per compute unit and delayed stores reveal missing fences.
"""
