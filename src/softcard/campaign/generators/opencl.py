"""Random OpenCL C kernels with defined behaviour: one result for all compilers, options, GPUs and engines.

A kernel has 256 work-items in groups of 128, which are two waves. ``in`` holds 256 numbers, and ``out`` two for each
work-item. ``sums`` holds eight numbers that all work-items update, by operations whose order does not matter.
"""

from __future__ import annotations

from typing import Final

from softcard.campaign.generators.c_expressions import DEEPEST, Scope, prelude
from softcard.campaign.generators.c_statements import SMALL, Frame, Size, Statements
from softcard.campaign.generators.c_types import UINT, ULONG, Dialect, Type
from softcard.campaign.generators.tree import Choices, Node, chance, leaf, lines, pick

GRID: Final = 256
GROUP: Final = 128
SUMS: Final = 8
DIALECT: Final = Dialect(is_opencl=True)
SCALARS: Final = tuple(Type(base) for base in ("int", "uint", "ushort", "uchar", "long", "ulong", "float"))
ATOMICS: Final = (
    ("__atomic_fetch_add", "uint"), ("__atomic_fetch_or", "uint"), ("__atomic_fetch_and", "uint"),
    ("__atomic_fetch_xor", "uint"), ("__atomic_fetch_sub", "uint"),
)  # fmt: skip
"""The atomic operations on the numbers in ``sums``.

Each number is changed by only one of these operations; with a mixture, their order would matter.
"""
_HEAD: Final = """#pragma OPENCL FP_CONTRACT OFF
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define GROUP_BARRIER __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); __builtin_amdgcn_s_barrier(); \\
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup")
"""


LARGE: Final = Size(3, (3, 8), (3, 9), DEEPEST)
HEAD: Final = _HEAD + prelude(DIALECT)
"""The source text with which every program of this generator begins."""


def make(choices: Choices) -> Node:
    """Draw a random kernel called ``k``."""
    return _Kernel(choices, LARGE).node()


def make_small(choices: Choices) -> Node:
    """Draw a small random kernel called ``k``."""
    return _Kernel(choices, SMALL).node()


class _Kernel:
    """The random generator of one kernel in OpenCL C."""

    def __init__(self, choices: Choices, size: Size) -> None:
        self.choices, self.size = choices, size
        self.statements = Statements(choices, DIALECT, size)
        self.expressions = self.statements.expressions
        self.frame = Frame(self.statements.functions)
        self.shared: list[Node] = []

    def node(self) -> Node:
        choices, statements = self.choices, self.statements
        structs = statements.declare_structs()
        functions = [statements.function(number) for number in range(choices.integer(0, self.size.functions))]
        scope = Scope(functions=statements.functions.functions)
        self.frame = frame = Frame(scope)
        for name in ("gid", "lid", "x0", "x1"):
            scope.add(UINT, name)
        variables = lines(*statements.declare(frame, choices.integer(*self.size.variables)))
        body = lines(*(self._uniform(0) for _ in range(choices.integer(*self.size.statements))))
        ending = statements.hashed(frame)
        head = "\n".join([
            "__kernel void k(__global ulong *out, __global const uint *in, __global uint *sums) {",
            "uint lid = __builtin_amdgcn_workitem_id_x();",
            f"uint gid = __builtin_amdgcn_workgroup_id_x() * {GROUP} + lid;",
            f"uint x0 = in[gid], x1 = in[(gid * 5 + 1) & {GRID - 1}];",
        ])  # fmt: skip
        kernel = Node(
            f"{head}\n{{}}\n{{}}\n{{}}\nulong h = 0;\n{{}}\nout[gid] = h;\n}}\n",
            [lines(*self.shared), variables, body, ending],
        )
        return lines(leaf(HEAD), *structs, *functions, kernel)

    def _uniform(self, depth: int) -> Node:
        """Draw a random statement for a point that all work-items reach; it may therefore contain barriers.

        `depth` is the number of `_rounds` loops around the statement."""
        how = self.choices.integer(0, 9)
        if how <= 1:
            made = self._exchange()
        elif how == 2:
            made = self._sum()
        elif how == 3 and depth == 0:
            made = self._rounds()
        elif how == 4:
            made = self._local_sum()
        else:
            return self.statements.statement(self.frame, 0)
        made.may_go = True
        return made

    def _rounds(self) -> Node:
        """Draw a loop with 2 or 3 iterations for all work-items, which may therefore contain barriers."""
        self.frame.counters += 1
        counter = f"i{self.frame.counters}"
        count = pick(self.choices, (2, 3))
        self.frame.scope.add(UINT, counter)
        body = lines(*(self._uniform(1) for _ in range(self.choices.integer(1, 3))))
        self.frame.scope.variables[UINT].remove(counter)
        return Node(f"for (uint {counter} = 0; {counter} < {count}; {counter}++) {{\n{{}}\n}}", [body])

    def _exchange(self) -> Node:
        """Draw an exchange through LDS.

        Between two barriers, each work-item reads values that others of its work-group wrote.
        """
        targets = [(kind, name) for kind, name in self.frame.targets if kind.width in (1, 2, 4)]
        if not targets:
            return leaf(";")
        kind, target = pick(self.choices, targets)
        name = f"lds{len(self.shared)}"
        self.shared.append(Node(f"__local {kind.name} {name}[{GROUP}];", name=name, may_go=True))
        value = self.expressions.draw(kind, self.frame.scope)
        index = self.expressions.draw(UINT, self.frame.scope, 2)
        text = f"{name}[lid] = {{}}; GROUP_BARRIER; {target} = {name}[{{}} & {GROUP - 1}u]; GROUP_BARRIER;"
        return Node(text, [value, index])

    def _sum(self) -> Node:
        """Draw an atomic update of a number in memory, which is read after the kernel has ended."""
        place = self.choices.integer(0, SUMS - 1)
        value = self.expressions.draw(UINT, self.frame.scope, 1)
        name, _ = ATOMICS[place % len(ATOMICS)]
        text = f"{name}(&sums[{place}], {{}}, __ATOMIC_RELAXED);"
        if chance(self.choices, 50):
            return Node(f"if ({{}}) {text}", [self.expressions.condition(self.frame.scope), value])
        return Node(text, [value])

    def _local_sum(self) -> Node:
        """Draw an atomic update of a number in LDS, which is read after a barrier."""
        targets = [name for kind, name in self.frame.targets if kind in (UINT, ULONG)]
        if not targets:
            return leaf(";")
        name = f"lds{len(self.shared)}"
        self.shared.append(Node(f"__local uint {name};", name=name, may_go=True))
        value = self.expressions.draw(UINT, self.frame.scope, 1)
        function, _ = pick(self.choices, ATOMICS)
        text = f"if (lid == 0) {name} = 1; GROUP_BARRIER; "
        add = f"{function}(&{name}, {{}}, __ATOMIC_RELAXED);"
        kids = [value]
        if chance(self.choices, 50):
            add = f"if ({{}}) {add}"
            kids.insert(0, self.expressions.condition(self.frame.scope))
        ending = f" GROUP_BARRIER; {pick(self.choices, targets)} = {name}; GROUP_BARRIER;"
        return Node(text + add + ending, kids)
