"""File formats: containers of programs, ELF files, assembly, Arrow schemas."""
