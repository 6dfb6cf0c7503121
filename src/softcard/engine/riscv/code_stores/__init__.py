"""The check `waits` of harts: it reports executed code that was stored after the hart's last FENCE.I."""
