"""The memory of an HSA device: blocks, segments, apertures, memory types, atomic operations, memory model."""
