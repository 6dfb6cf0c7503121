"""The vector extension V 1.0 with ELEN 64: one file for each chapter of its document."""
