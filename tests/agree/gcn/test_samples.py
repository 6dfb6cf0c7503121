"""Image operations with a sampler: translated code does all that need no LOD by gradients, and as exactly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.semantics import memory_formats as formats
from softcard.isa.gcn.target import target
from tests.agree.gcn.bench import DATA, Start, Translated, differences, engines, on_reference
from tests.agree.gcn.test_images import PROCESSORS, described, has, mixed
from tests.agree.gcn.test_once_wrong import FLUSH, state
from tests.agree.gcn.test_typed_buffers import HARD
from tests.isa.gcn.semantics.image_oracle import Image, Sampler

SAMPLES = ("sample", "sample_lz", "sample_l", "sample_c_lz", "sample_d", "sample_b_cl", "sample_c_l_o", "sample_lz_o")
GATHERS = ("gather4_lz", "gather4_c_lz", "gather4_l_o", "gather4")
DFMTS = (1, 3, 4, 5, 6, 10, 12, 14, 16, 20, 24)


def sampler(rng: np.random.Generator, name: str) -> Sampler:
    """One whose filters differ only where the instruction says the LOD."""
    magnify = int(rng.integers(2))
    said = name.split("_")[1:]
    minify = int(rng.integers(2)) if "lz" in said or "l" in said else magnify
    x, y, z = (int(mode) for mode in rng.integers(0, 8, 3))
    return Sampler(
        (x, y, z),
        magnify,
        minify,
        unnormalised=int(rng.integers(2)),
        border=int(rng.integers(3)),
        compare=int(rng.integers(8)),
        reduction=int(rng.choice([0, 0, 1, 2])),
        min_lod=int(rng.choice([0, 0, 256])),
        max_lod=int(rng.choice([4095, 0])),
        depth_filter=int(rng.integers(3)),
    )


def program(rng: np.random.Generator, level: int) -> Iterator[str]:
    """Samples of images of some formats."""
    for name in (*SAMPLES, *GATHERS):
        dfmt = int(rng.choice(DFMTS))
        image = described(rng, dfmt, int(rng.choice([n for n in range(8) if has(dfmt, n, store=False)])))
        while "gather4" in name and image.dimensions != 2:
            image = described(rng, dfmt, image.nfmt)
        words = image.words(level)
        words[0] = DATA >> 8
        words[1] &= ~0xFF
        for k, word in enumerate((*words, *sampler(rng, name).words())):
            yield f"s_mov_b32 s{8 + k}, {word:#x}"
        dmask = int(rng.integers(1, 16))
        count = 4 if "gather4" in name else dmask.bit_count()
        registers = f"v[20:{19 + count}]" if count > 1 else "v20"
        if "gather4" in name:
            dmask = 1 << int(rng.integers(4))
        da = " da" if rng.random() < 0.5 else ""
        yield f"image_{name} {registers}, v2, s[8:15], s[16:19] dmask:{dmask:#x}{da}"
        yield from mixed(count)


def start(rng: np.random.Generator, mode: int) -> Start:
    """Coordinates from v2 on, in and around images; hard numbers in memory."""
    made = state(mode, exec_=0xFFFF_FFFE_7FFF_FFFD)
    for k in range(10):
        wide = rng.random(64) * np.where(rng.random(64) < 0.5, 2.0, 20.0) - 0.5
        halves = rng.integers(-4, 24, 64) / 2
        numbers = np.where(rng.random(64) < 0.6, wide, halves).astype(np.float32).view(np.uint32)
        made.vgprs[2 + k] = np.where(rng.random(64) < 0.1, rng.choice(HARD, 64), numbers)
    floats = rng.choice(HARD, made.data.size // 4)
    bytes_ = rng.integers(0, 1 << 32, made.data.size // 4, dtype=np.uint32)
    made.data[:] = np.where(rng.random(floats.size) < 0.3, floats, bytes_).astype(np.uint32).view(np.uint8)
    return made


@pytest.fixture(scope="module")
def every() -> list[Translated]:
    """All widths and tiers."""
    return engines()


@pytest.mark.parametrize("name", PROCESSORS)
def test_samples_in_translated_code(name: str, every: list[Translated]) -> None:
    level, mode = PROCESSORS[name]
    rng = np.random.default_rng(level)
    code = assemble(target(name), "\n".join([*program(rng, level), "s_endpgm"]) + "\n")
    begin = start(rng, mode)
    expected = on_reference(name, code, begin)
    assert not expected.error
    for engine in every:
        assert not differences(expected, engine(name, code, begin)), engine
        assert not engine.stepped, engine


def test_levels_by_gradients_are_the_reference_engine_s(every: list[Translated]) -> None:
    """Where they decide which of two filters it is, and where they are asked for."""
    rng = np.random.default_rng(7)
    begin = start(rng, FLUSH)
    begin.sgprs[8:20] = [*Image(nfmt=formats.UNORM).words(9), *Sampler(magnify=1).words()]
    begin.sgprs[8] = DATA >> 8
    begin.sgprs[9] &= 0xFFFF_FF00
    operands = "v2, s[8:15], s[16:19] dmask:0x3"
    code = assemble(
        target("gfx900"), f"image_sample v[20:21], {operands}\nimage_get_lod v[22:23], {operands}\ns_endpgm\n"
    )
    expected = on_reference("gfx900", code, begin)
    assert not expected.error
    for engine in every:
        assert not differences(expected, engine("gfx900", code, begin)), engine
        assert len(engine.stepped) == 2, engine
