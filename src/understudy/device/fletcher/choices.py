"""The gaps of the Fletcher document and our answers: about the map, the device, and the arrays of kernels."""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Choice
from understudy.device.fletcher.array_rules import ARRAY_CHOICES
from understudy.device.fletcher.device_choices import DEVICE_CHOICES
from understudy.device.fletcher.map.choices import MAP_CHOICES

CHOICES: Final[tuple[Choice, ...]] = (*MAP_CHOICES, *DEVICE_CHOICES, *ARRAY_CHOICES)

BY_ID: Final[dict[str, Choice]] = {choice.id: choice for choice in CHOICES}
