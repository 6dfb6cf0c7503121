"""The vector extension V 1.0 with ELEN 64: one module for each chapter of its specification."""
