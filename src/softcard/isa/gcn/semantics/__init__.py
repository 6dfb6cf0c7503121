"""The semantics of GCN operations, as functions over the operations interface `isa.gcn.algebra`."""
