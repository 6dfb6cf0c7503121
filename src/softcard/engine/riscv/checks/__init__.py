"""The checks of harts, which are selected by name."""
