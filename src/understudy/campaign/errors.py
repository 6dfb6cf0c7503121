"""What ends a campaign; what goes wrong in a task does not, it is an outcome."""

from __future__ import annotations

from understudy.core.errors import UnderstudyError


class CampaignError(UnderstudyError):
    """A campaign cannot be run, or go on: its file is wrong, a worker lacks something, results cannot be written."""
