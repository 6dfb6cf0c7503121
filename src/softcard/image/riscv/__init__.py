"""ELF files of RISC-V programs: their loaded segments, and the kinds of files that can run."""
