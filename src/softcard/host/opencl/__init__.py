"""The OpenCL platform: its objects, rules and commands, for every device of this package that runs OpenCL C."""
