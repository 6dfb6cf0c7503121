"""AMD HSA devices: agents, AQL queues, doorbells, signals and the packet processor.

They follow the ROCm Code Object specification.
"""
