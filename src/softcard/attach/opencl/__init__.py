"""The OpenCL platform for unmodified host programs: a C library that the OpenCL loader loads, and its server."""
