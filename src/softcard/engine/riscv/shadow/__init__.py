"""The check `init` of harts: shadow bits track the bits of values that are uninitialised."""
