"""The host side of each interface: what a driver or a run-time library does, in Python."""
