"""Words to be taken for GCN code."""

from __future__ import annotations

import numpy as np

from softcard.isa.gcn.encoding.bounds import Words

PROCESSORS = ("gfx701", "gfx803", "gfx900", "gfx906")


def random_words(seed: int, count: int = 4000) -> Words:
    """Words of all encodings, and words that differ from few others in one bit."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    near = words[rng.integers(0, 60, count)] ^ (1 << rng.integers(0, 32, count)).astype(np.uint32)
    return np.concatenate([words, near])
