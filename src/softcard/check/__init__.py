"""Static checks of machine code and other files: nothing is run."""
