"""The kernel driver of AMD's compute stack, as programs see it: /dev/kfd, render nodes and sysfs.

The topology of the machine is in sysfs. A `KfdDevice` has agents; each program that opens it gets a
`KfdProcess` with its own memory, queues and events. `HsaDevice` objects execute the kernels; each process has
one for each agent."""
