"""Campaigns: matrices of programs, kernels, agents, compilers, options, engines and seeds, run on many machines."""
