"""The analysis that finds loads which only propose a value to a compare-and-swap.

Such loads are part of one atomic operation. If a processor lacks an atomic (such as an addition of floats, or
of 16-bit integers), compilers expand it to a loop. The loop loads the old value, computes the new one, and
stores the new value with a compare-and-swap, which succeeds if memory still holds the old value. Programs
also contain such loops themselves. The load may be plain, even a load by the wave as a whole: if another wave
stores between the load and the swap, the comparison fails, and the loop continues with the value that the
swap has found. A load is a *proposal* under these conditions:

- It loads as many bits as the swap compares, from the same address. Its value becomes the comparand of the
  swap either unchanged, or as a bit field that bit operations have extracted and combined with other bits
  (swaps of 16 bits).
- Apart from that, its value is only used to compute the new value of that swap (with that comparand), and in
  the comparison of the comparand with the value that the swap has found.
- After that comparison has succeeded, lanes may use the comparand for any purpose, since it is known to equal
  the contents of memory. This includes code after a loop that repeats the swap until it succeeds.

A load whose value is stored, decides a branch or EXEC, is an address, or is an operand of another atomic, is
not a proposal. The check `races` ignores proposals and checks the swap itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.jit.basics import CodeRanges, holds, joined
from softcard.engine.gcn.races.symbolic import (
    ONES,
    Block,
    Code,
    Event,
    Expression,
    Node,
    Point,
    Start,
    Unknown,
    halves_of,
)
from softcard.isa.gcn.coherence import is_coherent_load
from softcard.isa.gcn.insn import Insn
from softcard.isa.gcn.state import EXEC

if TYPE_CHECKING:
    from softcard.engine.gcn.memory import GpuMemory

REACH: Final = 1 << 20
"""The number of bytes before and after a kernel's entry that are searched for compare-and-swaps."""
HEAD: Final = 1 << 12
"""The number of bytes of code, from the kernel's entry on, that must be unchanged for a cached result."""
BITWISE: Final = frozenset({"and_", "or_", "xor", "not_", "shl", "lshr", "zext", "trunc"})
COMPARISONS: Final = frozenset({"eq", "ne", "feq"})
VECTORS: Final = ((0xFC000000, 0xE0000000, 18), (0xFC000000, 0xDC000000, 18))
"""A mask, an encoding and the opcode's position for each encoding with a 7-bit opcode: MUBUF and FLAT.

FLAT includes its segments.
"""
LOCAL: Final = (0xFC000000, 0xD8000000)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The cached proposals of a kernel, which are loads of compare-and-swap loops.

    The object has their pcs as a set and as a table. The result is valid while memory holds the same code. A result
    without an analysis, since no compare-and-swap is near, is also invalid after a change of the mappings."""

    pcs: frozenset[int]
    table: npt.NDArray[np.uint64]
    version: int | None
    """The version of the mappings; None if only the code decides."""
    code_ranges: CodeRanges

    def is_valid(self, memory: GpuMemory) -> bool:
        """Return True if memory still holds the code that was analysed."""
        return self.version in (None, memory.version) and holds(self.code_ranges, memory)


NONE: Final = Known(frozenset(), np.zeros(0, np.uint64), 0, [])


class SwapLoops:
    """The proposals (loads of compare-and-swap loops) of the running kernel, in `present`.

    Results are cached by kernel.
    """

    def __init__(self) -> None:
        self.present = NONE
        self._known: dict[int, Known] = {}

    def follow(self, dispatch: Start, fetch: Callable[[int], Insn]) -> None:
        """Find the proposals of the kernel that is launched next, and store them in `present`."""
        known = self._known.get(dispatch.entry)
        if known is None or not known.is_valid(dispatch.memory):
            known = self._known[dispatch.entry] = _found(dispatch, fetch)
        self.present = known


def _found(dispatch: Start, fetch: Callable[[int], Insn]) -> Known:
    memory, entry = dispatch.memory, dispatch.entry
    pcs, words = frozenset[int](), dict[int, bytes]()
    version: int | None = memory.version
    plain = memory.plain(entry, 4)
    if plain is not None:
        at = entry - plain.base
        words = {entry: bytes(plain.view[at : at + HEAD])}
        first, last = max(at - REACH, at & 3), min(at + REACH, len(plain.view)) - at & ~3
        if may_swap(np.frombuffer(plain.view, np.uint8)[first : at + last].view(np.uint32)):
            pcs, code, is_final = proposals(dispatch, fetch)
            version = None if is_final else version
            words |= {pc: np.array(each, "<u4").tobytes() for pc, each in code.items() if not 0 <= pc - entry < HEAD}
    table = np.array(sorted(pcs), np.uint64)
    return Known(pcs, table, version, joined(words))


def may_swap(words: npt.NDArray[np.uint32]) -> bool:
    """Return True if one of these instruction words may be the first word of a compare-and-swap."""
    for mask, encoding, at in VECTORS:
        found = words[words & mask == encoding] >> at & 0x7F
        if np.isin(found, (0x24, 0x25, 0x31, 0x41, 0x44, 0x51, 0x61, 0x71)).any():
            return True
    local = words[words & LOCAL[0] == LOCAL[1]]
    return bool(np.isin([local >> 17 & 0xFF, local >> 18 & 0xFF], (0x10, 0x30, 0x50, 0x70)).any())


def proposals(dispatch: Start, fetch: Callable[[int], Insn]) -> tuple[frozenset[int], dict[int, tuple[int, ...]], bool]:
    """Return the pcs of a kernel's proposals (see the module), and the words of the analysed code by pc.

    A kernel that cannot be followed has no proposals. Its words are those of the code before that point. The third
    result is False if an instruction could not be read or executed, which a change of the mappings may change."""
    words: dict[int, tuple[int, ...]] = {}
    try:
        code = Code(dispatch, fetch, words=words)
    except (Unknown, RecursionError) as error:
        return frozenset(), words, not isinstance(error.__cause__, SoftcardError)
    events = [(point, event) for point, block in code.blocks.items() for event in block.events]
    swaps = [event for _, event in events if event.kind == "swap"]
    verdicts: dict[int, bool] = {}
    for _, event in events:
        if event.kind == "load" and event.bits in (32, 64) and swaps and not is_coherent_load(event.insn):
            pc = event.insn.pc
            verdicts[pc] = verdicts.get(pc, True) and Proposal(code, event, swaps).holds
    return frozenset(pc for pc, holds in verdicts.items() if holds), words, True


@dataclass(frozen=True, slots=True)
class Swap:
    """A compare-and-swap whose comparand comes from the load under analysis.

    `checked` has the expressions known to equal memory once the swap has succeeded.
    """

    event: Event
    checked: frozenset[Node]


class Proposal:
    """The analysis of one load. `holds` is True if the load only proposes a value to compare-and-swaps."""

    def __init__(self, code: Code, load: Event, swaps: list[Event]) -> None:
        self._code = code
        self._load = load
        assert load.node is not None
        self._nodes = [code.node("load", each, *load.node.args[1:]) for each in range(load.bits // 32)]
        found = [self._swap(each) for each in swaps if self._is_alike(each)]
        self._swaps = {id(each.event): each for each in found if each is not None}
        self._results = {each.event.node for each in self._swaps.values()}
        self._every = frozenset().union(*(each.checked for each in self._swaps.values()))
        self._tests: dict[Node, bool] = {}
        self.holds = bool(self._swaps) and self._is_swap_only()

    # ---- its swaps ---------------------------------------------------------------------------------------------------
    def _is_alike(self, swap: Event) -> bool:
        """Return True if a swap accesses the same bytes as the load under analysis."""
        is_local, there = self._load.space == "lds", swap.space == "lds"
        if swap.bits != self._load.bits or is_local != there:
            return False
        return self._code.is_same_dword(self._load.takes[0], swap.takes[0])

    def _swap(self, swap: Event) -> Swap | None:
        """Return the swap with its checked expressions; None if its comparand does not come from the loaded value."""
        comparand = swap.takes[2]
        if not isinstance(comparand, Node):
            return None
        halves = halves_of(comparand)
        parts = [comparand] if halves is None else list(halves)
        is_whole = len(parts) == len(self._nodes) and all(
            self._arrives(part, node) for part, node in zip(parts, self._nodes, strict=True)
        )
        if is_whole:
            return Swap(swap, frozenset({comparand, *(each for each in parts if isinstance(each, Node))}))
        if not self._is_bitwise(comparand) or not any(node in self._nodes for node in self._bitwise(comparand)):
            return None
        return Swap(swap, frozenset(node for node in _operands(comparand) if node not in self._nodes))

    def _arrives(self, part: Expression, node: Node) -> bool:
        """Return True if `part` may have the value `node`, and if no other value that it may have depends on the load.

        A phi may have the value of any of its operands."""
        found = list(self._leaves(part))
        return node in found and not any(self._is_tainted(each, frozenset()) for each in found if each is not node)

    def _leaves(self, expression: Expression) -> Iterator[Node]:
        """Yield the expressions whose value `expression` may have; phis are replaced by their operands."""
        seen, work = set[Node](), [expression]
        while work:
            each = work.pop()
            if not isinstance(each, Node) or each in seen:
                continue
            seen.add(each)
            if each.op == "phi":
                work += self._code.phis[each]
            else:
                yield each

    def _bitwise(self, expression: Expression) -> Iterator[Node]:
        """Yield all operands from which bit operations compute an expression; phis are replaced by their operands."""
        seen, work = set[Node](), [expression]
        while work:
            each = work.pop()
            if not isinstance(each, Node) or each in seen:
                continue
            seen.add(each)
            yield each
            if each.op == "phi":
                work += self._code.phis[each]
            elif each.op in BITWISE:
                work += each.args
            elif each.op == "select":
                work += each.args[2:]

    def _is_bitwise(self, expression: Expression) -> bool:
        """Return True if an expression depends on the loaded value through bit operations only."""
        for each in self._bitwise(expression):
            if each.op == "select":
                if self._is_tainted(each.args[1], ()):
                    return False
            elif each.op not in BITWISE and each.op != "phi" and each not in self._nodes and self._is_tainted(each, ()):
                return False
        return True

    # ---- where the value goes ----------------------------------------------------------------------------------------
    def _is_swap_only(self) -> bool:
        """Return True if only compare-and-swaps use the loaded value."""
        for point, is_checked in self._checked().items():
            block = self._code.blocks[point]
            lanes = self._succeeds(self._exec(block))
            for event in block.events:
                if event.node is self._load.node:
                    is_checked = lanes = False
                elif event.kind == "exec":
                    lanes = self._succeeds(event.exec)
                swap = self._swaps.get(id(event))
                allowed = self._every if is_checked or lanes else frozenset[Node]()
                if swap is not None:
                    if self._is_tainted(event.takes[0], allowed) or self._is_tainted(event.takes[1], swap.checked):
                        return False
                elif any(self._is_tainted(each, allowed) for each in event.takes):
                    return False
        return True

    def _is_tainted(self, expression: Expression, allowed: Collection[Node]) -> bool:
        """Return True if an expression depends on the loaded value by a path that avoids the `allowed` nodes."""
        seen, work = set[Node](), [expression]
        while work:
            each = work.pop()
            if not isinstance(each, Node) or each in seen or each in allowed or self._is_test(each):
                continue
            if each in self._nodes:
                return True
            seen.add(each)
            if each.op == "phi":
                work += self._code.phis[each]
            elif each.op == "lanes":
                work += [each.args[0], *(value for _, value in each.args[1])]
            elif each.op != "load":
                work += each.args
        return False

    def _is_test(self, node: Node) -> bool:
        """Return True if a node is a comparison with bits of the value that a swap has found in memory."""
        if node.op not in COMPARISONS:
            return False
        if node not in self._tests:
            self._tests[node] = False  # where it depends on itself
            one, other = node.args[1:3]
            is_found = any(each in self._results for side in (one, other) for each in self._bitwise(side))
            self._tests[node] = is_found and self._is_bitwise(one) and self._is_bitwise(other)
        return self._tests[node]

    # ---- after the test ----------------------------------------------------------------------------------------------
    def _checked(self) -> dict[Point, bool]:
        """Return, for each block, True if on all paths to it a swap has succeeded since the load was last executed."""
        blocks = self._code.blocks
        entry: Point = (), self._code.dispatch.entry
        known, work = {entry: False}, [entry]
        while work:
            point = work.pop()
            block = blocks[point]
            loads = any(event.node is self._load.node for event in block.events)
            for target, condition, number in block.leads:
                now = (known[point] and not loads) or self._is_success(block, target, condition, number)
                if known.get(target) is None or (known[target] and not now):
                    known[target] = now
                    work.append(target)
        return known

    def _is_success(self, block: Block, target: Point, condition: Expression, number: int) -> bool:
        """Return True if a swap has succeeded whenever `block` branches to `target`.

        It branches there if `condition` has the value `number`."""
        if not self._tests_in(condition) or self._meets_swap(target):
            return False
        if any(self._meets_swap(other) for other, _, _ in block.leads):
            return True  # what leaves the loop
        if not isinstance(condition, Node) or condition.op not in ("eq", "ne") or condition.args[2] != 0:
            return False
        return self._decides(condition.args[1], success=number == (condition.op == "ne"))

    def _exec(self, block: Block) -> Expression:
        """Return the expression of EXEC's value at the beginning of a block."""
        return self._code.pair(*(block.state.get(("s", EXEC + each), 0) for each in (0, 1)))

    def _succeeds(self, lanes: Expression) -> bool:
        """Return True if a lane mask contains only lanes whose swap has succeeded."""
        return self._decides(lanes, success=True)

    def _decides(self, mask: Expression, success: bool) -> bool:
        """Return True if a mask contains only lanes whose swap has succeeded (or failed, if `success` is False).

        The result is False for a mask without lanes."""
        return self._bit(mask, not success) == 0 and self._bit(mask, success) != 0

    def _bit(self, mask: Expression, success: bool) -> int | None:
        """Return the bit that a mask has for lanes whose swap has succeeded (or failed, if `success` is False).

        Return None if this bit is not the same for all such lanes."""
        if not isinstance(mask, Node):
            return {0: 0, ONES: 1}.get(mask)
        if self._is_test(mask):
            return int(success == (mask.op != "ne"))
        if mask.op in ("bits", "mask"):
            return self._bit(mask.args[0], success)
        if mask.op not in ("and_", "or_", "xor", "not_"):
            return None
        bits = [self._bit(each, success) for each in mask.args[1:]]
        if mask.op == "not_":
            return None if bits[0] is None else 1 - bits[0]
        if mask.op == "xor":
            return None if None in bits else int(bits[0] != bits[1])
        decisive = int(mask.op == "or_")
        return decisive if decisive in bits else None if None in bits else 1 - decisive

    def _tests_in(self, condition: Expression) -> bool:
        """Return True if a condition depends on a comparison with the value that a swap has found."""
        seen, work = set[Node](), [condition]
        while work:
            each = work.pop()
            if not isinstance(each, Node) or each in seen:
                continue
            if self._is_test(each):
                return True
            seen.add(each)
            work += self._code.phis[each] if each.op == "phi" else () if each.op in ("load", "lanes") else each.args
        return False

    def _meets_swap(self, start: Point) -> bool:
        """Return True if a path leads from the block `start` to a swap without executing the load before the swap."""
        seen, work = set[Point](), [start]
        while work:
            point = work.pop()
            is_over = False
            for event in self._code.blocks[point].events:
                if id(event) in self._swaps:
                    return True
                if event.node is self._load.node:
                    is_over = True
                    break
            for target, _, _ in () if is_over else self._code.blocks[point].leads:
                if target not in seen:
                    seen.add(target)
                    work.append(target)
        return False


def _operands(expression: Expression) -> Iterator[Node]:
    """Yield an expression, and all operands from which bit operations compute it; phis are not replaced."""
    work = [expression]
    while work:
        each = work.pop()
        if isinstance(each, Node):
            yield each
            if each.op in BITWISE:
                work += each.args
