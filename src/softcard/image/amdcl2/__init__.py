"""Binaries of AMD's OpenCL 2.0 driver (Catalyst, Crimson, AMDGPU-PRO): reading and writing."""
