"""Code objects around code that has none."""

from __future__ import annotations

from typing import Any

import pytest

from softcard.core.errors import WireError
from softcard.image.hsa.code_object import read_code_object
from softcard.image.hsa.records import complaints
from softcard.image.hsa.writer import bare_code_object

END = bytes.fromhex("000081bf")


@pytest.mark.parametrize("agent", ["gfx700", "gfx803", "gfx906"])
@pytest.mark.parametrize(("vgprs", "sgprs"), [(1, 1), (5, 9), (256, 102)])
def test_the_header_is_sound_and_says_what_was_asked_for(agent: str, vgprs: int, sgprs: int) -> None:
    users = ("dispatch_ptr", "kernarg_segment_ptr")
    data = bare_code_object(END, agent, name="k", vgprs=vgprs, sgprs=sgprs, kernarg_bytes=40, lds_bytes=512,
                            scratch_bytes=64, user_sgprs=users)  # fmt: skip
    found = read_code_object(data)
    kernel = found.kernel("k")
    assert (found.target, found.warnings, complaints(kernel.header)) == (agent, (), [])
    assert kernel.header.compute_pgm_rsrc1.vgprs() >= vgprs > kernel.header.compute_pgm_rsrc1.vgprs() - 4
    assert kernel.header.compute_pgm_rsrc1.sgprs >= sgprs + 6
    assert kernel.header.compute_pgm_rsrc2.user_sgpr_count == 10
    assert (kernel.group_bytes, kernel.private_bytes, kernel.kernarg_bytes) == (512, 64, 40)


@pytest.mark.parametrize("agent", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(("vgprs", "accs"), [(1, 0), (5, 7), (256, 256)])
def test_new_processors_have_descriptors(agent: str, vgprs: int, accs: int) -> None:
    data = bare_code_object(END, agent, name="k", vgprs=vgprs, accs=accs, kernarg_bytes=40, lds_bytes=512,
                            scratch_bytes=64)  # fmt: skip
    found = read_code_object(data)
    kernel = found.kernel("k")
    assert (found.version, found.target, found.warnings) == ("V5", agent, ())
    assert kernel.vgprs >= vgprs > kernel.vgprs - 4
    assert kernel.accs >= accs > kernel.accs - 8
    assert kernel.header.compute_pgm_rsrc2.user_sgpr_count == (8 if agent == "gfx90a" else 2)
    assert (kernel.group_bytes, kernel.private_bytes, kernel.kernarg_bytes) == (512, 64, 40)


@pytest.mark.parametrize(
    ("agent", "more", "message"),
    [
        ("gfx908", {"accs": 4}, "the number of accumulation VGPRs is 4, expected 0 to 0"),
        ("gfx90a", {"user_sgprs": ["grid_workgroup_count_x"]}, "unknown user SGPRs 'grid_workgroup_count_x', expected"),
        ("gfx900", {"vgprs": 257}, "the number of VGPRs is 257, expected 1 to 256"),
        ("gfx900", {"sgprs": 0}, "the number of SGPRs is 0, expected 1 to 102"),
        ("gfx900", {"user_sgprs": ["dispatch"]}, "unknown user SGPRs 'dispatch', expected any of private_s"),
        ("gfx", {}, "unknown processor 'gfx'"),
        ("gfx12345", {}, "do not support processor 'gfx12345'"),
    ],
)  # fmt: skip
def test_mistakes(agent: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError) as caught:
        bare_code_object(END, agent, **more)
    assert message in str(caught.value)
