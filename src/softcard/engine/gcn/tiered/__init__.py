"""The JIT engine of waves: its tiers, worker threads, scheduler and table of translated code."""
