"""Where keys stand in a TOML file: its parser does not tell, and an error must."""

from __future__ import annotations

import re
from typing import Final

_TABLE: Final = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_\-\"']+)\s*=")


class Lines:
    """Lines of tables and keys; of arrays of tables by number."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, int, str], int] = {}
        table, number = "", 0
        counts: dict[str, int] = {}
        for line, content in enumerate(text.splitlines(), 1):
            if match := _TABLE.match(content):
                table = match[2].replace('"', "").replace("'", "")
                number = counts.get(table, -1) + 1 if match[1] == "[[" else 0
                counts[table] = number
                self._lines.setdefault((table, number, ""), line)
            elif match := _KEY.match(content):
                self._lines.setdefault((table, number, match[1].strip("\"'")), line)

    def of(self, table: str, key: str = "", number: int = 0) -> int:
        """The line of a key, or of its table where it has none of its own; 1 where neither stands there."""
        return self._lines.get((table, number, key)) or self._lines.get((table, number, "")) or 1
