"""Binaries of AMD's OpenCL 2.0 driver (Catalyst, Crimson, AMDGPU-PRO): containers to records and back."""
