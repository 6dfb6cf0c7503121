"""AMD HSA: agents, AQL queues, doorbells, signals and the packet processor, as in the ROCm Code Object document."""
