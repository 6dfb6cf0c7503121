"""AMD GCN 2 to GCN 5 (GFX7, GFX8, GFX9): state, operands, encodings, semantics and text of the compute instructions."""
