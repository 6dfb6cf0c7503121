"""The nodes of a machine: the agents that the driver shows, with what only the driver knows of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from understudy.core.errors import WireError
from understudy.device.hsa.agents import Agent, agent
from understudy.isa.gcn.target import GFX9

VENDOR: Final = 0x1002
FIRST_GPU_ID: Final = 0x1234
FIRST_RENDER_MINOR: Final = 128
MOST_NODES: Final = 8
"""Agents of one machine."""
LOCAL_MEMORY_BYTES: Final = 8 << 30


@dataclass(frozen=True, slots=True)
class Product:
    """One product of an instruction set: PCI device id, code name, the driver's family, and its copy queues."""

    device_id: int
    name: str
    family: int
    sdma_queues: int
    shader_engines: int = 4
    sdma_engines: int = 2


PRODUCTS: Final = {
    "gfx803": Product(0x7300, "fiji", 130, 2),
    "gfx900": Product(0x6860, "vega10", 141, 2),
    "gfx906": Product(0x66A1, "vega20", 141, 8),
}
"""What the driver shows of each agent that it can have: Radeon R9 Nano, Radeon Instinct MI25, Radeon Pro VII."""


@dataclass(frozen=True, slots=True)
class Node:
    """An agent as the driver knows it: `number` in the topology, `gpu_id` in ioctls, `minor` of its render node."""

    number: int
    agent: Agent
    product: Product

    @property
    def gpu_id(self) -> int:
        """What ioctls call it."""
        return FIRST_GPU_ID + self.number - 1

    @property
    def minor(self) -> int:
        """Of /dev/dri/renderD128 and so on."""
        return FIRST_RENDER_MINOR + self.number - 1

    @property
    def device_id(self) -> int:
        """Its PCI device id."""
        return self.product.device_id

    @property
    def family(self) -> int:
        """The graphics driver's number for it."""
        return self.product.family

    @property
    def shader_engines(self) -> int:
        """Which share its compute units."""
        return self.product.shader_engines

    @property
    def is_legacy(self) -> bool:
        """Whether it has GFX8's doorbells, rings and copy engines."""
        return self.agent.target.level < GFX9

    @property
    def memory_bytes(self) -> int:
        """Memory of its own."""
        return LOCAL_MEMORY_BYTES


def nodes(names: Iterable[str]) -> tuple[Node, ...]:
    """The nodes of these agents, from 1 on; `WireError` for an agent that the driver cannot show, or too many."""
    made = []
    for number, name in enumerate(names, 1):
        if name not in PRODUCTS:
            raise WireError(f"no agent {name!r} of the kernel driver: there are {', '.join(PRODUCTS)}")
        made.append(Node(number, agent(name), PRODUCTS[name]))
    if not 0 < len(made) <= MOST_NODES:
        raise WireError(f"{len(made)} agents, expected 1 to {MOST_NODES}")
    return tuple(made)
