"""The environment variables by which host programs find the OpenCL platform, and by which its server gets settings.

The variables `SOFTCARD_CHECK` and `SOFTCARD_TIME_LIMIT`, which all devices read, apply to the platform's GPUs too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from softcard.core.checks import VARIABLE as CHECK_VARIABLE
from softcard.core.errors import WireError
from softcard.core.limits import VARIABLE as TIME_LIMIT_VARIABLE
from softcard.core.settings import JIT, REFERENCE
from softcard.device.hsa.settings import GpuOptions

VENDORS_VARIABLE: Final = "OCL_ICD_VENDORS"
"""The variable with the folder of .icd files that both loaders, ocl-icd and Khronos', read instead of the system's."""
LIBRARIES_VARIABLE: Final = "OCL_ICD_FILENAMES"
"""The variable with further libraries of platforms, which only Khronos' loader reads."""
PYTHON_VARIABLE: Final = "SOFTCARD_OPENCL_PYTHON"
"""The variable with the Python that runs the server."""
AGENTS_VARIABLE: Final = "SOFTCARD_OPENCL_AGENTS"
"""The variable with the processors of the devices, separated by commas; the first is the default device."""
ENGINE_VARIABLE: Final = "SOFTCARD_OPENCL_ENGINE"
"""The variable with the engine that runs kernels."""
SUPPRESSIONS_VARIABLE: Final = "SOFTCARD_OPENCL_SUPPRESSIONS"
"""The variable with the file of findings to leave out."""
EQUAL_STORES_VARIABLE: Final = "SOFTCARD_OPENCL_EQUAL_STORES"
"""The variable that is 1 if the check `races` also reports racing stores of equal values."""
POISON_VARIABLE: Final = "SOFTCARD_OPENCL_POISON"
"""The variable with the 32-bit word that fills undefined registers and memory."""
REFUSALS_VARIABLE: Final = "SOFTCARD_OPENCL_REFUSALS"
"""The variable that is not empty if calls that are refused are reported, with the rule that they break."""
RECORDS_VARIABLE: Final = "SOFTCARD_OPENCL_RECORDS"
"""The variable with the socket to which servers send what they report; see `records`."""


def of_loaders(vendors: Path, library: Path) -> dict[str, str]:
    """Return the variables by which loaders find the platform: its folder of .icd files, and its library."""
    more = os.environ.get(LIBRARIES_VARIABLE, "")
    return {
        VENDORS_VARIABLE: str(vendors),
        LIBRARIES_VARIABLE: os.pathsep.join(filter(None, (str(library), more))),
    }


def of_settings(agents: tuple[str, ...] = (), **options: object) -> dict[str, str]:
    """Return the variables that select the processors of the devices and the settings of their GPUs.

    `options` are `engine`, `check`, `time_limit_seconds`, `suppressions`, `equal_stores` and `poison`, as in
    `GpuOptions`. Variables are left out for options that are None, False or "".
    """
    names = {
        "engine": ENGINE_VARIABLE,
        "check": CHECK_VARIABLE,
        "time_limit_seconds": TIME_LIMIT_VARIABLE,
        "suppressions": SUPPRESSIONS_VARIABLE,
        "equal_stores": EQUAL_STORES_VARIABLE,
        "poison": POISON_VARIABLE,
    }
    found = {AGENTS_VARIABLE: ",".join(agents)} if agents else {}
    for name, value in options.items():
        if value is not None and value is not False and value != "":
            found[names[name]] = "1" if value is True else str(value)
    return found


def settings(environment: Mapping[str, str]) -> GpuOptions:
    """Return the settings of the GPUs that the variables of `environment` select.

    The checks and the time limit are missing, since devices read their variables themselves. Raise `WireError` for a
    variable with an invalid value.
    """
    found: GpuOptions = {}
    if engine := environment.get(ENGINE_VARIABLE):
        if engine not in (JIT, REFERENCE):
            raise WireError(f"{ENGINE_VARIABLE} is {engine}, expected {JIT} or {REFERENCE}")
        found["engine"] = engine
    if suppressions := environment.get(SUPPRESSIONS_VARIABLE):
        found["suppressions"] = suppressions
    if equal_stores := environment.get(EQUAL_STORES_VARIABLE):
        if equal_stores not in ("0", "1"):
            raise WireError(f"{EQUAL_STORES_VARIABLE} is {equal_stores}, expected 0 or 1")
        found["equal_stores"] = equal_stores == "1"
    if poison := environment.get(POISON_VARIABLE):
        try:
            found["poison"] = int(poison, 0)
        except ValueError:
            raise WireError(f"{POISON_VARIABLE} is {poison}, expected a 32-bit number") from None
    return found
