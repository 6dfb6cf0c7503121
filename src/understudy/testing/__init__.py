"""For tests of drivers, runtimes, compilers and host programs: a plug-in of pytest (see ``docs/pytest.md``)."""
