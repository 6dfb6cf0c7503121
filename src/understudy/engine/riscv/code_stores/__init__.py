"""The check `waits` of harts: code that is executed without FENCE.I since it was stored."""
