"""The wave engines: the reference and the JIT over the one meaning of each GCN instruction."""
