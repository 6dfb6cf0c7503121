"""Servers and C libraries that connect emulated devices to unmodified host programs, drivers and machine emulators."""
