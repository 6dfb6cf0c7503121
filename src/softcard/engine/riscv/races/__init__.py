"""The check `races` of harts: conflicting accesses without a happens-before relation."""
