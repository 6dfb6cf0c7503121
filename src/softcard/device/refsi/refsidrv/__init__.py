"""The memory system, DMA and schedule of the profile that follows the published driver."""
