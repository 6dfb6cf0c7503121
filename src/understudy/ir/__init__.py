"""What engines compute with and compile through: exact numbers, LLVM, IR text, kept objects, native code."""
