"""Ways to plug a device of the bench into programs that do not know it runs in Python."""
