"""The check that runs kernels on the weakest memory that the memory model permits.

Caches per compute unit and delayed stores reveal missing fences."""
