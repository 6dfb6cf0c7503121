"""ELF files of RISC-V programs."""
