"""The parts of AMD HSA code objects: ELF, header records, notes, metadata, what is loaded. Face: `code_object`."""
