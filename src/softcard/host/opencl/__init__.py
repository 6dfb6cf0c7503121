"""The OpenCL platform: its objects, rules and commands, on the emulated GPUs that run OpenCL C."""
