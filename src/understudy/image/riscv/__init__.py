"""ELF files of RISC-V programs: what is loaded of them, and which kinds of them can run."""
