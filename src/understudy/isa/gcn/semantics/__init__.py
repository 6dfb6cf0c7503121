"""What operations do, as functions over `isa.gcn.algebra`."""
