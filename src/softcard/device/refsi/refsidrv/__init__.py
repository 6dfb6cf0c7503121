"""The memory system, the DMA controller and the schedule of the profile that follows the reference driver."""
