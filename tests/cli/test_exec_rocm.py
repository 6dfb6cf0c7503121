"""Messages of `exec` for a program that has not come to the driver; the status stays the program's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from softcard.cli import main
from softcard.cli.attach.exec_rocm import CheckedAgents, not_opened
from softcard.cli.records import RunSummary
from softcard.device.hsa.events import PacketStarted
from softcard.device.hsa.queues.packets import KernelDispatchPacket, PacketType
from softcard.device.kfd import loaded_code
from softcard.device.kfd.device import KfdDevice
from tests.device.hsa.rig import Bench, dispatch

SAID = (
    "no program has opened /dev/kfd: nothing was emulated (a program that is linked statically, or runs as another "
    "user, cannot open it)"
)


@pytest.mark.parametrize("variable", ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"])
def test_an_opencl_program_without_amds_platform(variable: str, tmp_path: Path) -> None:
    missing = (
        f"{SAID}; an OpenCL program finds AMD's platform by an .icd file that names libamdocl64.so, and {tmp_path} has "
        "none: install rocm-opencl-icd"
    )
    environment = {variable: str(tmp_path)}
    assert not_opened(environment) == missing
    (tmp_path / "pocl.icd").write_text("libpocl.so.2\n")
    assert not_opened(environment) == missing
    (tmp_path / "amdocl64.icd").write_text("libamdocl64.so\n")
    assert not_opened(environment) == SAID
    assert not_opened({variable: str(tmp_path / "amdocl64.icd")}) == SAID
    assert "has none: install" in not_opened({variable: str(tmp_path / "nothing")})


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
def test_the_status_is_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    assert main(["exec", "--agent", "gfx900", "--", "sh", "-c", "exit 5"]) == 5
    assert capfd.readouterr().err.startswith(f"warning: {SAID}; an OpenCL program")


@pytest.mark.parametrize("name", ["k", "__amd_rocclr_copyBuffer"], ids=["kernel", "runtime kernel"])
def test_kernels_that_did_not_finish_are_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that failed, and one that still ran when its program ended; a packet that starts again counts once."""
    monkeypatch.setattr(loaded_code, "kernel_name", lambda memory, place: name)
    driver, rig = KfdDevice(["gfx900"]), Bench("gfx900")
    try:
        checked = CheckedAgents(driver)
        checked.follow(rig.device)
        rig.queue.submit(dispatch(rig.kernel("s_nop 0\ns_endpgm")))
        rig.queue.submit(dispatch(rig.kernel(), private_segment_size=16))  # the queue finds no private memory yet
        ours = name == "k"
        assert checked.ran == RunSummary(2 * ours, 3 * ours, 0, 2 * (not ours))
        rig.queue.submit(dispatch(rig.kernel("s_mov_b64 s[0:1], 0\ns_load_dword s0, s[0:1], 0\ns_endpgm")))
        assert len(rig.errors) == 1
        assert checked.ran == RunSummary(3 * ours, 3 * ours, 0, 3 * (not ours), unfinished=1)
        packet = KernelDispatchPacket.parse(dispatch(rig.kernel()))
        rig.device.probes.emit(PacketStarted(0, 7, 0, PacketType.KERNEL_DISPATCH, packet))
        assert checked.ran == RunSummary(4 * ours, 3 * ours, 0, 4 * (not ours), unfinished=2)
    finally:
        rig.device.close()
        driver.close()
