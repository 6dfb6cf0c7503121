"""Commands that provide devices to programs in other processes: `exec` and `serve`."""
