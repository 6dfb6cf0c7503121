"""Campaigns: test runs over programs, kernels, agents, compilers, options, engines and seeds, on many machines."""
