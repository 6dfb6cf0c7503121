"""`python -m softcard`: the command line."""

import sys

from softcard.cli import main

sys.exit(main())
