"""The check of waits that software must insert, on all paths: outstanding results, and wait states."""
