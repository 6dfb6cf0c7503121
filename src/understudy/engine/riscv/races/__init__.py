"""The check `races` of harts: accesses of the same byte, one of them a store, that nothing orders."""
