"""Shadow memory and shadow registers for the checks `init` and `fidelity`; operations propagate shadow bits."""
