"""What a launch says: shapes of work-groups, and parts that do not fit together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softcard.core.errors import ModelBug
from softcard.engine.gcn.api import Dispatch, Shapes, Statistics
from softcard.isa.gcn.state import PTR32
from tests.engine.gcn.rig import launch


@pytest.mark.parametrize("size", [(64, 1, 1), (1, 1, 1), (65, 1, 1), (16, 16, 1), (3, 5, 7), (1024, 1, 1), (1, 2, 100)])
@pytest.mark.parametrize("vgprs", [1, 2, 3])
def test_work_items_fill_lanes_with_x_fastest(size: tuple[int, int, int], vgprs: int) -> None:
    shapes = Shapes.of([size], vgprs)
    items = [(x, y, z) for z in range(size[2]) for y in range(size[1]) for x in range(size[0])]
    assert shapes.waves.tolist() == [-(-len(items) // 64)]
    assert shapes.vgprs.shape == (1, shapes.waves[0], vgprs, 64)
    for number, ids in enumerate(items):
        wave, lane = divmod(number, 64)
        assert int(shapes.execs[0, wave]) >> lane & 1
        assert shapes.vgprs[0, wave, :, lane].tolist() == list(ids[:vgprs])
    assert sum(int(bits).bit_count() for bits in shapes.execs[0]) == len(items)


def test_shapes_of_different_sizes_share_the_tables() -> None:
    shapes = Shapes.of([(64, 2, 1), (10, 1, 1), (1, 1, 1)], 2)
    assert shapes.waves.tolist() == [2, 1, 1]
    assert shapes.execs.tolist() == [[2**64 - 1] * 2, [0x3FF, 0], [1, 0]]
    assert not shapes.vgprs[1, 1].any()


def dispatch(**changes: Any) -> Dispatch:
    return replace(launch([0xBF81_0000], size=(128, 1, 1)), **changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"groups": np.zeros((1, 3), np.uint32)}, r"groups must be uint32\[G, 4\]"),
        ({"groups": np.zeros((1, 4), np.int64)}, r"groups must be uint32\[G, 4\]"),
        ({"groups": np.array([[0, 0, 0, 1]], np.uint32)}, "a group must name a shape that exists"),
        ({"sgprs": np.zeros(105, np.uint32)}, "initial SGPRs must be plain scalar registers"),
        ({"wave_offset_sgpr": 128}, r"an SGPR number must lie in 0\.\.127 or be NOWHERE"),
        ({"group_id_sgprs": (0, -2, 1)}, r"an SGPR number must lie in 0\.\.127 or be NOWHERE"),
        (
            {"scratch_lane_bytes": 4, "scratch_slots": 1},
            "the private memory must have room for the waves of one work-group",
        ),
        ({"turn": 0}, "a time slice must have at least one instruction"),
        ({"shapes": Shapes.of([(64 * 33, 1, 1)], 1)}, "a work-group has 32 waves at most"),
        (
            {"shapes": Shapes(np.ones(1, np.uint32), np.ones((1, 1), np.uint64), np.zeros((1, 2, 1, 64), np.uint32))},
            "the arrays of shapes must have the same numbers of shapes and waves",
        ),
        (
            {"shapes": Shapes(np.ones(1, np.uint32), np.ones((1, 1), np.uint64), np.zeros((1, 1, 300, 64), np.uint32))},
            "a wave has 256 vector registers at most",
        ),
        (
            {
                "shapes": Shapes(
                    np.array([2], np.uint32), np.ones((1, 1), np.uint64), np.zeros((1, 1, 1, 64), np.uint32)
                )
            },
            "every wave of a shape must have an EXEC mask",
        ),
        (
            {"mode": PTR32, "shared_base": 0x8000_8000_0000_0000},
            "windows of 64 KiB must begin at a multiple of their size",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelBug, match=f"^dispatch: {text}"):
        dispatch(**changes)


def test_private_memory_of_a_wave_comes_in_kilobytes() -> None:
    sizes = [dispatch(scratch_lane_bytes=n, scratch_slots=2).scratch_wave_bytes for n in (0, 1, 16, 17, 100)]
    assert sizes == [0, 1024, 1024, 2048, 7168]


def test_no_groups_are_no_work() -> None:
    assert dispatch(groups=np.zeros((0, 4), np.uint32)).most_waves == 2


def test_statistics_add_up() -> None:
    total = Statistics(1, 2, 3)
    total.add(Statistics(10, 20, 30))
    assert total == Statistics(11, 22, 33)
