"""GCN assembly text: printing, parsing, operand notations, listings."""
