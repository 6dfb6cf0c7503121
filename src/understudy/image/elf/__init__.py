"""ELF files: their layout, a checked reader and a writer for all formats; and programs for RISC-V."""
