"""AMD OpenCL 2.0: rules and choices, and the scheduler of device-side queues."""
