"""GCN instruction words: formats, fields, operands; decoding and encoding."""
