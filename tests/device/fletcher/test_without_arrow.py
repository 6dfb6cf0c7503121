"""Without pyarrow, which is an extra, whoever imports something of Fletcher is told how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "statement",
    [
        "import understudy; understudy.Platform",
        "from understudy import Platform",
        "from understudy.host.fletcher.platform import Context, Kernel, Platform",
        "from understudy.device.fletcher.kernels import find",
        "from understudy.device.fletcher.kernel import kernel",
        "from understudy.device.fletcher.device import FletcherDevice",
        "from understudy.device.fletcher.map.build import fletcher_map",
        "from understudy.attach.fletcher import Server",
    ],
)
def test_an_import_without_pyarrow_says_how_to_get_it(statement: str) -> None:
    code = f"import sys; sys.modules['pyarrow'] = None\ntry:\n    {statement}\nexcept ImportError as e:\n    print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Arrow schemas need pyarrow: pip install 'understudy[arrow]'\n"


def test_the_other_devices_need_none() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\nfrom understudy import Acceldev, Gpu, RefSi, load\n"
        "from understudy.cli import main\nprint(main(['devices']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
