"""Hypothesis strategies: valid and nearly valid input for parsers, drivers and runtimes (see ``docs/pytest.md``)."""
