"""Which buffers reach a device: the real run-time library and ours pass the same ones, byte for byte."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from softcard.attach.fletcher import DevicePlatform, Server, build_library
from softcard.device.fletcher.device import FletcherDevice
from softcard.device.fletcher.kernels import find
from softcard.host.fletcher.batch import buffers_of
from tests.attach.fletcher.random_batches import random_batch
from tests.attach.fletcher.rig import ROOT, RUNTIME, needs_compiler, needs_runtime

SEEDS = 600


class Recorder(DevicePlatform):
    """Keeps what is brought to the device, RecordBatch by RecordBatch; a read of a register ends one."""

    def __init__(self) -> None:
        kernel = find("sum")
        super().__init__(FletcherDevice(kernel.map(), kernel))
        self.brought: list[list[bytes]] = [[]]

    def adopt(self, data: Any) -> int:
        self.brought[-1].append(bytes(data))
        return super().adopt(data)

    def read_mmio(self, index: int) -> int:
        self.brought.append([])
        return super().read_mmio(index)


@needs_compiler
@needs_runtime
@pytest.mark.slow
def test_the_real_runtime_passes_the_same_buffers(tmp_path: Path) -> None:
    recorder = Recorder()
    with Server(recorder) as server:
        server.listen(tmp_path / "s")
        environment = {**os.environ, **build_library().environment(tmp_path / "s")}
        environment.pop("PYTHONPATH", None)
        script = ROOT / "tests" / "attach" / "fletcher" / "random_batches.py"
        host = subprocess.Popen([str(RUNTIME), str(script), "0", str(SEEDS)], env=environment)
        watcher = threading.Thread(target=lambda: (host.wait(), server.close()))  # also where it never connects
        watcher.start()
        try:
            server.serve(1)
        finally:
            watcher.join(60)
            host.kill()
    assert host.returncode == 0
    assert len(recorder.brought) == SEEDS + 1
    for seed, theirs in enumerate(recorder.brought[:-1]):
        ours = [b"" if each.data is None else each.data.to_pybytes() for each in buffers_of(random_batch(seed))]
        assert ours == theirs, f"seed {seed}: {random_batch(seed).schema}"
