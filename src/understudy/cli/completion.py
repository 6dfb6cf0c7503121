"""What a shell completes behind options and arguments that take a name: each function gives the names that begin so."""

from __future__ import annotations

from collections.abc import Iterable


def agents(incomplete: str) -> list[str]:
    """Agents of AMD HSA, and harts."""
    from understudy.device.hsa.agents import AGENTS
    from understudy.image.assembly.program import RISCV_AGENTS

    return beginning(incomplete, (*RISCV_AGENTS, *AGENTS))


def processors(incomplete: str) -> list[str]:
    """AMD's processors, and harts."""
    from understudy.image.assembly.program import RISCV_AGENTS
    from understudy.isa.gcn.target import TARGETS

    return beginning(incomplete, (*RISCV_AGENTS, *TARGETS))


def cards(incomplete: str) -> list[str]:
    """Agents that programs of ROCm find."""
    from understudy.device.kfd.node import PRODUCTS

    return beginning(incomplete, PRODUCTS)


def checks(incomplete: str) -> list[str]:
    """Checks, the last one of several."""
    from understudy.core.checks import CHECKS

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + each for each in beginning(last, (*CHECKS, "all"))]


def fletcher_kernels(incomplete: str) -> list[str]:
    """Built-in kernels of Fletcher."""
    from understudy.device.fletcher.kernels import BUILT_IN

    return beginning(incomplete, BUILT_IN)


def interfaces(incomplete: str) -> list[str]:
    """What `bench` measures."""
    from understudy.cli.bench_cases import INTERFACES

    return beginning(incomplete, INTERFACES)


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that begin so."""
    return [name for name in names if name.startswith(incomplete)]
