"""Whose register map a Fletcher device shows to host programs: a word of two commands."""

from __future__ import annotations

from enum import StrEnum


class MapProfile(StrEnum):
    """Whose register map."""

    FLETCHGEN = "fletchgen"
    RUNTIME = "runtime"
