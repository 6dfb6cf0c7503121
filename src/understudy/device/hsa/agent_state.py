"""What a driver has told an agent, beside memory and queues."""

from __future__ import annotations

from understudy.core.snapshot import Stateful


class AgentState(Stateful):
    """Registers that a driver sets, as far as launches depend on them."""

    STATE = ("has_trap_handler", "hidden_private_base")

    def __init__(self, hidden_private_base: int) -> None:
        self.has_trap_handler = False
        """Whether the driver has given all waves a trap handler, whatever their kernels and queues say."""
        self.hidden_private_base = hidden_private_base
        """SH_HIDDEN_PRIVATE_BASE_VIMID: where GFX7 and GFX8 count addresses of private memory from; 0 on GFX9."""
