"""The same HIP programs as compilers make them at every optimisation level, for every agent.

What a program says is held to what its host part computed. `test_programs.py` and `test_features.py` run `-O2` always.
"""

from __future__ import annotations

import pytest

from softcard.device.kfd.events import QueueFailed
from tests.attach.rocm.rig import AGENTS, TIMEOUT_S, hip_program, needs_compiler, needs_rocm, served
from tests.attach.rocm.test_features import FEATURES
from tests.attach.rocm.test_programs import RIGHT, all_right

pytestmark = [pytest.mark.oracle, pytest.mark.slow(seconds=5), needs_compiler, needs_rocm]
PARTS = {"programs": RIGHT, "features": FEATURES}
COMBINATIONS = [
    (level, agent, name)
    for level in ("-O0", "-O1", "-O2", "-O3")
    for agent in AGENTS
    for name in PARTS
    # Compilers need image instructions for textures, which gfx908 and gfx90a lack. Of gfx90a only -O0 leaves them.
    if (agent, name) != ("gfx908", "features") and (level, agent, name) != ("-O0", "gfx90a", "features")
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("level", "agent", "name"), COMBINATIONS, ids=["".join(each) for each in COMBINATIONS])
def test_every_level(level: str, agent: str, name: str) -> None:
    agents = AGENTS if level == "-O2" else (agent,)  # those of -O2 are there: other tests use them
    with served(agent, time_limit_seconds=TIMEOUT_S) as there:
        all_right(there.run(hip_program(name, level=level, agents=agents), *PARTS[name]), *PARTS[name])
        assert not there.seen(QueueFailed)
