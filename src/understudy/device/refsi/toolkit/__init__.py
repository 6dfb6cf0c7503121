"""Command buffers in the hands of their authors: building, listing, linting."""
