"""The launch of kernels: from a dispatch packet and metadata to the initial state of a wave."""
