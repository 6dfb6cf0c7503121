"""The kernel driver of AMD's compute stack, as programs see it: /dev/kfd, render nodes, and the topology in sysfs.

A `KfdDevice` has agents; each program that opens it gets a `KfdProcess`, with memory, queues and events of its own.
What kernels do is the business of `device.hsa`, of which each process has one device for each agent.
"""
