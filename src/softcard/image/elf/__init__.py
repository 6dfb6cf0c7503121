"""Reading and writing of ELF files: record layouts, and one reader and one writer for all formats."""
