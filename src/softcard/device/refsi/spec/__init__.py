"""The memory system, DMA and schedule of the profile that follows the RefSi M1 specification."""
