"""The foundation of all other packages.

It has errors, machine words, records, registers, rules, memory, completions and events. This package depends on no
device and no instruction set.
"""

from typing import Final

__version__: Final = "0.1.0"
"""The version of the package."""
