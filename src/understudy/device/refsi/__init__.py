"""refsi."""
