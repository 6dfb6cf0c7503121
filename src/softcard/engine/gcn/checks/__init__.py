"""The checks of waves, which are selected by name."""
