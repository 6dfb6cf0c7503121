"""The launch of kernels: the computation of a wave's initial state from a dispatch packet and metadata."""
