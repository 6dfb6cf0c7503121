"""The models of virtual devices."""
