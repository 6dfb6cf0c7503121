"""Public names of the host side of AMD HSA: a GPU, its memory, executables, queues, signals and launches."""

from softcard.host.hsa.gpu import (
    AGENTS,
    Condition,
    Executable,
    Gpu,
    Kernel,
    Launch,
    Local,
    Queue,
    Result,
    Signal,
    demo_code,
)

__all__ = [
    "AGENTS",
    "Condition",
    "Executable",
    "Gpu",
    "Kernel",
    "Launch",
    "Local",
    "Queue",
    "Result",
    "Signal",
    "demo_code",
]
