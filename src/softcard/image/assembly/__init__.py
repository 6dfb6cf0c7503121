"""An assembler and linker in one step for assembly files as compilers write them (GNU directives)."""
