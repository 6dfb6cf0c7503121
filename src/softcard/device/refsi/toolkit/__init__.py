"""Tools for authors of command buffers: building, listing, linting."""
