"""From a dispatch packet and metadata to the first state of a wave."""
