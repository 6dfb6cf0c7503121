"""Acceldev: a paged accelerator on the PCI bus."""
