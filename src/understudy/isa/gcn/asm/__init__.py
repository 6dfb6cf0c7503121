"""Assembly text: printing, parsing, macros, listings."""
