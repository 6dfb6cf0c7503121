"""The commands that run kernels and programs from files: `run`, `bench`, `rv64`, and campaign tasks."""
