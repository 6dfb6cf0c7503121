"""ELF files of any kind are loaded or refused, quickly, by the host library and by the player."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from softcard.core.errors import WireError
from softcard.device.refsi.toolkit.builder import SPEC
from softcard.host.refsi.refsi import RefSi
from tests.device.refsi.recordings import FOLDER
from tests.hostile import elves
from tests.hostile.checks import fresh, in_time
from tests.hostile.elves import Claim, elf_file

CASES = 300


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_files_with_mistakes(part: int, tmp_path: Path) -> None:
    for number in range(part, CASES, 3):
        elves.check_file(elves.mutated(Random(f"elves/{number}")), tmp_path)


def test_every_truncation_of_the_headers() -> None:
    data = (FOLDER / "kernels.elf").read_bytes()
    for size in [*range(300), *range(300, len(data), 97)]:
        elves.check_host(data[:size])


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ([Claim(0x4000_0000, 0, (1 << 32) + 1)], "segment has p_memsz 0x100000001, expected at most 0x100000000"),
        ([Claim(0x4000_0000, 0, 1 << 31)] * 3, "segments up to here claim 0x180000000 bytes of memory"),
        ([Claim(0x7FF_F000, 0, 0x2000)], "ELF segment at 0x7fff000..0x8001000 fits neither 0x10000..0x8000000"),
        ([Claim(0x2000_2000, 4, 4)], "ELF segment at 0x20002000..0x20002004 fits neither"),
        (
            [Claim((1 << 64) - 8, 0, 16)],
            "the segment at 0xfffffffffffffff8 with p_memsz 0x10 exceeds the address space",
        ),
    ],
)
def test_segments_that_claim_too_much(claims: list[Claim], message: str) -> None:
    device = RefSi(fresh(SPEC, "reference"))
    with in_time(5), pytest.raises(WireError) as caught:
        device.load_elf(elf_file(claims, bytes(64)))
    assert caught.value.message.startswith(message)
    assert device.load_elf((FOLDER / "kernels.elf").read_bytes()).kernels
