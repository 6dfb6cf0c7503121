"""RefSi devices: memory, harts, command processor, and the tools for command buffers."""
