"""AMD HSA code objects: ELF, header records, notes, metadata, loading. The public interface is in `code_object`."""
