"""Random C programs for RV64 with defined behaviour and no C library: they print 16 numbers and exit with 0."""

from __future__ import annotations

from typing import Final

from softcard.campaign.generators.c_expressions import DEEPEST, Scope, prelude
from softcard.campaign.generators.c_statements import SMALL, Frame, Size, Statements
from softcard.campaign.generators.c_types import UINT, Dialect
from softcard.campaign.generators.tree import Choices, Node, leaf, lines

ROUNDS: Final = 16
DIALECT: Final = Dialect(is_opencl=False)
_MEMORY: Final = """#define __OWN(name) __attribute__((no_builtin, used)) void *name
__OWN(memcpy)(void *to, const void *from, ulong n) {
    for (ulong i = 0; i < n; i++) ((volatile uchar *)to)[i] = ((const uchar *)from)[i];
    return to;
}
__OWN(memset)(void *to, int value, ulong n) {
    for (ulong i = 0; i < n; i++) ((volatile uchar *)to)[i] = (uchar)value;
    return to;
}
__OWN(memmove)(void *to, const void *from, ulong n) {
    volatile uchar *a = to; const uchar *b = from;
    if ((ulong)a < (ulong)b) for (ulong i = 0; i < n; i++) a[i] = b[i];
    else for (ulong i = n; i-- > 0;) a[i] = b[i];
    return to;
}
"""
"""The functions that compilers call implicitly."""
_PROGRAM: Final = "/* ---- the program ---- */"
CALL: Final = """static long call(long number, long a, long b, long c) {
    register long a7 __asm__("a7") = number; register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b; register long a2 __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
    return a0;
}
"""
_MAIN: Final = f"""static ulong out[{ROUNDS}];
void _start(void) {{
    uint state = 12345;
    for (uint gid = 0; gid < {ROUNDS}; gid++) {{
        uint x0 = state = state * 1664525u + 1013904223u;
        uint x1 = state = state * 1664525u + 1013904223u;
        out[gid] = k(gid, x0, x1);
    }}
    call(64, 1, (long)out, sizeof out);
    call(93, 0, 0, 0);
    __builtin_unreachable();
}}
"""


LARGE: Final = Size(3, (3, 9), (4, 12), DEEPEST)
HEAD: Final = prelude(DIALECT) + "\n" + _MEMORY + _PROGRAM
"""The source text with which every program of this generator begins."""
TAIL: Final = CALL + _MAIN


def make(choices: Choices) -> Node:
    """Draw a random C program for RV64."""
    return _make(choices, LARGE)


def make_small(choices: Choices) -> Node:
    """Draw a small random C program for RV64."""
    return _make(choices, SMALL)


def _make(choices: Choices, size: Size) -> Node:
    statements = Statements(choices, DIALECT, size)
    structs = statements.declare_structs()
    functions = [statements.function(number) for number in range(choices.integer(0, size.functions))]
    frame = Frame(Scope(functions=statements.functions.functions))
    for name in ("gid", "x0", "x1"):
        frame.scope.add(UINT, name)
    variables = lines(*statements.declare(frame, choices.integer(*size.variables)))
    body = statements.block(frame, choices.integer(*size.statements), 0)
    head = "__attribute__((noinline)) static ulong k(uint gid, uint x0, uint x1) {"
    form = f"{head}\n{{}}\n{{}}\nulong h = 0;\n{{}}\nreturn h;\n}}\n"
    kernel = Node(form, [variables, body, statements.hashed(frame)])
    return lines(leaf(HEAD), *structs, *functions, kernel, leaf(TAIL))
