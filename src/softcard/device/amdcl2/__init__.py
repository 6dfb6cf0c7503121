"""AMD OpenCL 2.0: the device that runs its programs, and the scheduler of device-side queues."""
