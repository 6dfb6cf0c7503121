"""Fletcher (`fletcher-mmio`): register maps from Arrow schemas, the device, and its kernels."""
