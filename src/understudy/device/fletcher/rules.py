"""Every sentence of the Fletcher document that a design, a device or a host can obey or break.

Those about where registers are, those about what the device does, those about the arrays of a kernel.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Rule
from understudy.device.fletcher.array_rules import ARRAY_RULES
from understudy.device.fletcher.device_rules import DEVICE_RULES
from understudy.device.fletcher.map.rules import MAP_RULES

RULES: Final[tuple[Rule, ...]] = (*MAP_RULES, *DEVICE_RULES, *ARRAY_RULES)

BY_ID: Final[dict[str, Rule]] = {rule.id: rule for rule in RULES}
