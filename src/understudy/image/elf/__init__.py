"""ELF files, of all formats: their layout, one checked reader and one writer."""
