"""What both engines compute with and compile through: exact integers and floats, LLVM, IR text, kept objects, native code."""
