"""Coverage of source code by kernels: lines and branches of OpenCL C, HIP, Triton, C and assembly that have run.

As a plug-in of coverage.py (``plugins = ["softcard.coverage"]`` in its configuration), it adds kernels to the coverage
of Python code. Without coverage.py, `record` does the same for devices that are opened in a ``with`` block:

>>> from softcard import Gpu, coverage
>>> with coverage.record() as recording, Gpu.open("gfx900") as gpu:
...     gpu.run("saxpy.co", "saxpy", grid=64, args=[2.0, x, y])
>>> recording.read().write_lcov("kernels.info")
"""

from typing import TYPE_CHECKING

from softcard.core.lint import CoverageWarning
from softcard.host.coverage import Recording, record
from softcard.image.coverage import Coverage, FileCoverage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coverage.plugin_support import Plugins

__all__ = ["Coverage", "CoverageWarning", "FileCoverage", "Recording", "coverage_init", "record"]


def coverage_init(reg: "Plugins", options: "Mapping[str, str]") -> None:
    """Register the plug-in of coverage.py, which calls this function; the plug-in has no `options`."""
    from softcard.testing.coverage_plugin import KernelPlugin, check_options

    check_options(options)
    reg.add_configurer(KernelPlugin())
