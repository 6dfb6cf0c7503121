"""The check `init` of harts: marks of what nobody has written travel with values."""
