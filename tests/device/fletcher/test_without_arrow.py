"""Without pyarrow, which is an extra, whoever imports something of Fletcher is told how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "statement",
    [
        "import softcard; softcard.Platform",
        "from softcard import Platform",
        "from softcard.host.fletcher.platform import Context, Kernel, Platform",
        "from softcard.device.fletcher.kernels import find",
        "from softcard.device.fletcher.kernel import kernel",
        "from softcard.device.fletcher.device import FletcherDevice",
        "from softcard.device.fletcher.map.build import fletcher_map",
        "from softcard.attach.fletcher import Server",
    ],
)
def test_an_import_without_pyarrow_says_how_to_get_it(statement: str) -> None:
    code = f"import sys; sys.modules['pyarrow'] = None\ntry:\n    {statement}\nexcept ImportError as e:\n    print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Arrow schemas need pyarrow: pip install 'softcard[arrow]'\n"


def test_the_other_devices_need_none() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\nfrom softcard import Acceldev, Gpu, RefSi, load\n"
        "from softcard.cli import main\nprint(main(['devices']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
