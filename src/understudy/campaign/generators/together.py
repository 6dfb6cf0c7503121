"""Many generated programs as one source: a compiler starts once for all of them, and reads what all begin with once.

What a program declares gets its number, so that each is what it is alone; kernel ``k`` of program 3 is ``k_3``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from understudy.campaign.generators import opencl, rv64

ROUNDS: Final = rv64.ROUNDS
"""Numbers that each of the programs for RV64 prints."""
_DECLARED: Final = re.compile(r"\b(?:func_\d+|S\d+)\b|\bk\b(?=\()")
_ENTRY: Final = """static ulong out[{count}][{rounds}];
void _start(void) {{
    uint state;
{calls}
    call(64, 1, (long)out, sizeof out);
    call(93, 0, 0, 0);
    __builtin_unreachable();
}}
"""
_CALL: Final = """    state = 12345;
    for (uint gid = 0; gid < {rounds}; gid++) {{
        uint x0 = state = state * 1664525u + 1013904223u;
        uint x1 = state = state * 1664525u + 1013904223u;
        out[{number}][gid] = k_{number}(gid, x0, x1);
    }}"""


def together(kind: str, texts: Sequence[str]) -> str:
    """Programs of a kind in one; those for RV64 print what the first prints, then the second, and so on."""
    if kind == "opencl":
        return opencl.HEAD + "".join(_numbered(text.removeprefix(opencl.HEAD), n) for n, text in enumerate(texts))
    bodies = [text.removeprefix(rv64.HEAD).removesuffix(rv64.TAIL) for text in texts]
    calls = "\n".join(_CALL.format(number=number, rounds=ROUNDS) for number in range(len(texts)))
    entry = _ENTRY.format(count=len(texts), rounds=ROUNDS, calls=calls)
    return rv64.HEAD + "".join(_numbered(body, n) for n, body in enumerate(bodies)) + rv64.CALL + entry


def _numbered(text: str, number: int) -> str:
    return _DECLARED.sub(lambda found: f"{found[0]}_{number}", text)
