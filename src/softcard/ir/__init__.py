"""The base of the execution engines: exact arithmetic, LLVM, IR text, cached compiled objects, native functions."""
