"""The IR that translated code executes at a store to record the storing instruction.

Adjacent stores form a run: a store that begins where the last one ended only extends the open run. A run is
recorded when control leaves its scope (see `run_scopes`) or the region. Other stores are recorded one by one
in shadow memory, after a test that the store numbers of their cell are in shadow memory, not in the table."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from softcard.core.errors import ModelBug
from softcard.engine.riscv.code_stores.layout import CELL, CELL_BITS, DISTANCE, SITES, HartRow, SiteRow, Stores
from softcard.engine.riscv.hooks import Instrumentation
from softcard.engine.riscv.jit.emit_region import Algebra
from softcard.engine.riscv.jit.region import Block, Region
from softcard.engine.riscv.jit.strides import SHIFTED, STORES, Stride
from softcard.ir.native import numbers
from softcard.ir.operand import Operand
from softcard.isa.riscv.insn import Insn
from softcard.isa.riscv.state import CODE_STORES
from softcard.isa.riscv.unitstate import FLOAT_EXTENSIONS

# ---- stores of loops -------------------------------------------------------------------------------------------------
# Stores of loops that step through memory, which are recorded as one run.
#
# A run is open in a *scope*: blocks that lead to each other, in which no other instruction stores. So when control
# leaves the scope and the run is recorded, no later store of this hart has overwritten it.


UNIT: Final = ("vse8.v", "vse16.v", "vse32.v", "vse64.v")
FROM_FLOATS: Final = ("fcvt.w", "fcvt.l", "fmv.x", "feq", "flt", "fle", "fclass", "vset", "vmv.x", "vcpop", "vfirst")
"""The prefixes of the names of float and vector instructions that write integer registers."""
STORE_FP: Final = 0x27
"""The opcode of the store instructions for floats and vectors."""


def stores(insn: Insn) -> bool:
    """Return True if an instruction may store."""
    if insn.spec.extension == "A":
        return not insn.name.startswith("lr.")
    return insn.name in STORES or (insn.length == 4 and insn.word & 0x7F == STORE_FP)


def run_scopes(region: Region) -> dict[int, frozenset[int]]:
    """Return, by the pc of a store, the start addresses of the blocks within which its run stays open (its scope).

    Only instructions whose stores form runs of adjacent stores are included. Scopes are as large as possible.
    """
    scopes: dict[int, frozenset[int]] = {}
    for loop in _loops(region):
        found = [(pc, insn) for start in loop for pc, insn in region.blocks[start].insns if stores(insn)]
        if len(found) == 1:
            [(pc, insn)] = found
            if pc in scopes or _goes_on(pc, insn, [region.blocks[start] for start in loop]):
                scopes[pc] = scopes.get(pc, frozenset()) | loop
    return scopes


def _loops(region: Region) -> list[frozenset[int]]:
    """Return the blocks of each loop, from its head to its last back edge; inner loops come before outer ones."""
    ends: dict[int, int] = {}
    for start, block in region.blocks.items():
        for head in block.successors:
            if head <= start and head in region.blocks:
                ends[head] = max(ends.get(head, 0), start)
    spans = sorted(ends.items(), key=lambda span: span[1] - span[0])
    return [frozenset(start for start in region.blocks if head <= start <= end) for head, end in spans]


def _goes_on(pc: int, insn: Insn, blocks: list[Block]) -> bool:
    """Return True if a loop's store most likely begins where the store of the previous iteration ended."""
    moves: dict[int, list[Insn]] = {}
    before: list[Insn] = []
    for block in blocks:
        for at, each in block.insns:
            if at == pc:
                before = [other for other_pc, other in block.insns if other_pc < pc]
            if each.rd and _writes_integer(each):
                moves.setdefault(each.rd, []).append(each)
    if insn.name in STORES:
        return _step(insn.rs1, before, moves) == STORES[insn.name]
    if insn.name not in UNIT or insn.vm == 0 or len(moves.get(insn.rs1, ())) != 1:
        return False
    [move] = moves[insn.rs1]
    return move.name in ("add", *SHIFTED) and insn.rs1 in (move.rs1, move.rs2)


def _step(register: int, before: list[Insn], moves: dict[int, list[Insn]]) -> int | None:
    """Return the constant by which one iteration changes a register; None if it is not constant.

    `before` contains the instructions that precede the register's use in its block. `moves` contains, by register, all
    instructions of the loop that write registers.
    """
    for index in reversed(range(len(before))):
        move = before[index]
        if move.rd == register and _writes_integer(move):
            return _step_by(move, before[:index], moves)
    if register not in moves or not register:
        return 0
    move = moves[register][0]
    return move.imm if len(moves[register]) == 1 and move.name == "addi" and move.rs1 == register else None


def _step_by(move: Insn, before: list[Insn], moves: dict[int, list[Insn]]) -> int | None:
    """Return the constant by which one iteration changes an instruction's result; None if it is not constant."""
    if move.name not in ("addi", "slli", "add", *SHIFTED):
        return None
    first = _step(move.rs1, before, moves)
    second = _step(move.rs2, before, moves) if move.name in ("add", *SHIFTED) else 0
    if first is None or second is None:
        return None
    return (first << (move.imm if move.name == "slli" else SHIFTED.get(move.name, 0))) + second


def _writes_integer(insn: Insn) -> bool:
    """Return True if rd may be an integer register."""
    if insn.spec.extension in (*FLOAT_EXTENSIONS, "V", "Zve64d"):
        return insn.name.startswith(FROM_FLOATS)
    return insn.spec.flow != "branch" and insn.name not in STORES


# ---- records of stores -----------------------------------------------------------------------------------------------


ROW_AT: Final = numbers(HartRow)
STORES_AT: Final = numbers(Stores)
SITE_AT: Final = numbers(SiteRow)
MOST_RUNS: Final = 4
"""The maximum number of runs of adjacent stores that are open at the same time."""
MOST_CELLS: Final = 4
"""The maximum number of cells stored to in one iteration of a loop that are tested together."""
INVARIANT: Final = ", !invariant.load !1"
"""LLVM metadata for loads that give the same value whenever they are executed."""
LIKELY: Final = ", !prof !0"
"""LLVM metadata for a branch whose first target is unlikely to be taken."""


class StoreNotes:
    """Emits the code that records the stores of one region.

    Each run of adjacent stores has three variables in the function: start address, end address and store number. Start
    and end are 0 while no run is open. Run 0 belongs to the scope that control is in. A loop with hoisted tests has one
    run per store if its stores are known not to overlap.
    """

    def __init__(self, algebra: Algebra, region: Region) -> None:
        self.text = algebra.control.text
        self.control = algebra.control
        self.memory = algebra.memory
        self.scopes = run_scopes(region)
        self._scoped = {start for scope in self.scopes.values() for start in scope}
        self._unscoped = {pc for start in self._scoped for pc, _ in region.blocks[start].insns} - self.scopes.keys()
        self._has_row = False
        self._runs = 0
        """The number of runs of adjacent stores that have variables."""
        self._closing = 0
        """The number of runs of adjacent stores that `close` records."""
        self._hoisted: dict[int, Operand] = {}
        """By the pc of a store in the loop that is being emitted: its hoisted store number."""
        self._running: dict[int, int] = {}
        """By the pc of a store that is certain to extend a run of adjacent stores: the number of that run."""
        self._rounds: dict[int, Stride] = {}
        """By the pc of the first store of a strided access: the access, if its cells are tested jointly.

        One test then covers all cells that the access touches in an iteration.
        """
        self._split: set[int] = set()
        """The pcs of stores whose cells are tested once per iteration."""

    # ---- calls ---------------------------------------------------------------------------------------------------
    def _row(self) -> None:
        """Emit the loads of the hart's recording state (`HartRow`) at the head of the function."""
        if self._has_row:
            return
        self._has_row = True
        text = self.text
        with text.at_head():
            row = text.fixed("code_stores", text.pointer("%st").element("i64", CODE_STORES), INVARIANT)
            text.named("%code_stores_row", row.ptrtoint())
            text.fixed("store_sites", row.element("i64", ROW_AT["sites"]), INVARIANT)
            every = text.fixed("all_stores", row.element("i64", ROW_AT["stores"]), INVARIANT)
            # No hart fetches anew while one is here.
            text.fixed("interval", every.element("i64", STORES_AT["interval"]), type="i64")
            text.fixed("cells", every.element("i64", STORES_AT["cells"]), INVARIANT)
            text.fixed("cell_mask", every.element("i64", STORES_AT["cell_mask"]), INVARIANT, "i64")

    def _call(self, name: str, *arguments: Operand | int) -> Operand:
        self._row()
        place = self.text.pointer("%code_stores").element("i64", ROW_AT[name])
        function = place.load("ptr", tail=INVARIANT)
        return self.text.invoke("i64", function, self.text.word("%code_stores_row"), *arguments)

    @property
    def _pc(self) -> Operand:
        return self.control.ints.const(64, self.control.pc)

    def _host(self, pointer: Operand) -> Operand:
        return pointer.ptrtoint()

    def _some(self, value: Operand) -> Operand:
        """Emit a side exit that is taken if a store number is 0 (no number is free); return the number."""
        self.control.side(value.eq(0))
        return value

    # ---- runs ----------------------------------------------------------------------------------------------------
    def _run(self, k: int) -> tuple[Operand, Operand, Operand]:
        """Return the variables of run number `k` of adjacent stores: start, end and store number."""
        self._runs = max(self._runs, k + 1)
        return self._word(f"%run_start{k}"), self._word(f"%run_end{k}"), self._word(f"%run_number{k}")

    def _word(self, name: str) -> Operand:
        """Return the variable of the function with this name, which is initially 0."""
        slot = self.text.slot(f"  {name}", "i64")
        with self.text.at_head():
            slot.store(0)
        return slot

    def _set(self, value: Operand | int, *names: Operand) -> None:
        for name in names:
            name.store(value)

    def _move(self, k: int, pc: int) -> Operand:
        """Emit the end of run `k`; return the store number of the instruction at `pc`, which begins the next run.

        The store number is 0 at run time if no number is free.
        """
        start, end, number = self._run(k)
        was = [name.load("i64") for name in (number, start, end)]
        found = self._call("move", self.control.ints.const(64, pc), *was)
        self._set(0, start, end)
        self._set(found, number)
        return found

    def _begin(self, k: int, pc: int, host: Operand) -> Operand:
        """Emit the start or extension of run `k` at host address `host`.

        Return an i1 that is 0 if no store number is free, else 1."""
        text, (start, end, _) = self.text, self._run(k)
        moved, on = text.fresh("moved"), text.fresh("on")
        with text.apart(moved):
            has_number = self._move(k, pc).ne(0)
            self._set(has_number.select(host, 0), start, end)
            text.jump(on)
        text.branch(end.load("i64").ne(host), moved, on)
        text.start(on)
        return end.load("i64").eq(host)

    def _reach(self, k: int, host: Operand) -> None:
        """Emit the preparation of a store at host address `host` that belongs to run `k`.

        Unless the open run ends at that address, the emitted code ends that run and begins another one.
        """
        text, (start, end, _) = self.text, self._run(k)
        moved, on = text.fresh("moved"), text.fresh("on")
        with text.apart(moved):
            self._some(self._move(k, self.control.pc))
            self._set(host, start, end)
            text.jump(on)
        text.branch(end.load("i64").ne(host), moved, on, LIKELY)
        text.start(on)

    def _extend(self, k: int, host: Operand, size: Operand | int) -> None:
        """Emit the extension of run `k` past a store of `size` bytes at `host`."""
        self._set(host + size, self._run(k)[1])

    def edge(self, start: int, successor: int) -> bool:
        """Return True if control on the edge from block `start` to `successor` may leave open runs to be recorded."""
        is_left = any(start in scope and successor not in scope for scope in self.scopes.values())
        self._closing = 1 if is_left else 0
        if start not in self._scoped and self._running and start != successor:
            self._closing = len(self._running)
        return self._closing > 0

    def leave(self) -> None:
        """Emit the recording of all runs, before the region is left."""
        self._close(self._runs)

    def close(self) -> None:
        """Emit the recording of the runs that end on the edge that `edge` was last called for."""
        self._close(self._closing)

    def _close(self, count: int) -> None:
        """Emit the recording of the first `count` runs, and close them."""
        text = self.text
        for k in range(count):
            start, end, number = self._run(k)
            first, last = (name.load("i64") for name in (start, end))
            closing, on = text.fresh("closing"), text.fresh("on")
            text.branch(first.ne(last), closing, on)
            text.start(closing)
            self._call("span", number.load("i64"), first, last)
            text.jump(on)
            text.start(on)
            self._set(0, start, end)

    # ---- loops that were measured --------------------------------------------------------------------------------
    def measure(self, block: Block, walks: Sequence[tuple[Stride, Operand]], times: Operand) -> Operand:
        """Emit the preparation of a loop's runs; return the number of iterations that may run with fewer tests.

        `walks` contains the loop's strided accesses with their start addresses. `times` is the number of iterations
        that may run without other checks; the result is at most that.
        """
        fine = self.text.flag(True)
        pcs = [pc for pc, insn in block.insns if stores(insn)]
        of = {pc: (walk, host) for walk, host in walks for pc in walk.accesses}
        if 1 < len(pcs) <= MOST_RUNS and all(pc in of and of[pc][0].goes_on for pc in pcs):
            self._running = {pc: k for k, pc in enumerate(pcs)}
            self._close(len(pcs))  # a walk may have reached addresses of another walk
            times = self._apart([of[pc] for pc in pcs], times)
        still: list[tuple[Stride, Operand]] = []
        are_small = all(insn.name in STORES or insn.spec.extension == "A" for _, insn in block.insns if stores(insn))
        for pc in pcs:
            walk, host = of.get(pc, (None, None))
            if pc in self.scopes and walk is not None and walk.goes_on:
                self._running[pc] = 0
            if pc in self._running:
                assert host is not None
                fine = fine & self._begin(self._running[pc], pc, host)
                continue
            if pc in self.scopes:
                continue
            wrong, self._hoisted[pc] = self._site(pc)
            if walk is not None and host is not None and walk.high - walk.low <= MOST_CELLS * CELL:
                self._split.add(pc)
                wrong = wrong | host & walk.align - 1
                if pc == walk.accesses[0] and are_small and not walk.step and not walk.step_register:
                    still.append((walk, host))  # a walk with step 0; the loop gives no separate numbers to cells
                elif pc == walk.accesses[0]:
                    self._rounds[pc] = walk
            fine = fine & wrong.eq(0)
        times = fine.select(times, 0)
        for walk, host in still:
            self._split_round(host, walk, times.ne(0))
        return times

    def _apart(self, walks: Sequence[tuple[Stride, Operand]], times: Operand) -> Operand:
        """Return the number of iterations, at most `times`, in which no strided access reaches the start of another
        one.

        `walks` contains the strided accesses with their start addresses."""
        text = self.text
        for (one, begin), (other, its_begin) in combinations(walks, 2):
            for walk, first, second in ((one, begin, its_begin), (other, its_begin, begin)):
                gap = text.call("i64", "llvm.usub.sat.i64", f"i64 {second - first}", "i64 1")
                is_behind = first > second
                room = is_behind.select(-1, gap // walk.step)
                times = text.call("i64", "llvm.umin.i64", f"i64 {times}", f"i64 {room}")
        return times

    def unmeasured(self) -> None:
        """Resume the emission of one test per store, after the iterations with fewer tests were emitted."""
        if len(self._running) > 1:
            self._close(len(self._running))
        self._hoisted, self._running, self._rounds, self._split = {}, {}, {}, set()

    # ---- stores --------------------------------------------------------------------------------------------------
    def begin(self, pointer: Operand) -> Operand | None:
        """Emit the preparation of a store; return the value to pass as `begun` to `store` and `many`.

        The emitted code may still take a side exit. The value is the store number of the instruction if the store
        extends no run, and if code of another check follows before the store. Otherwise it is None."""
        pc = self.control.pc
        if pc in self.scopes or pc in self._running:
            if pc not in self._running:
                self._reach(0, self._host(pointer))
            return None
        return None if self.memory.access_check is None else self.ready()

    def store(self, w: int, pointer: Operand, begun: Operand | None) -> None:
        """Emit the recording of a `w`-bit store at `pointer`, for which `begin` has returned `begun`."""
        pc = self.control.pc
        if pc in self.scopes or pc in self._running:
            self._extend(self._running.get(pc, 0), self._host(pointer), w >> 3)
        elif pc in self._split:
            if pc in self._rounds:
                walk = self._rounds[pc]
                self._split_round(self._host(pointer) + (walk.low - walk.offsets[0]), walk)
            self._put(w, pointer, self._hoisted[pc])
        elif begun or pc in self._hoisted:
            self.stored(w, pointer, begun or self._hoisted[pc])
        else:
            self._note(w, pointer)

    def many(self, w: int, pointer: Operand, count: Operand, begun: Operand | None) -> None:
        """Emit the recording of a store of `count` adjacent elements, for which `begin` has returned `begun`."""
        host = self._host(pointer)
        size = count * (w >> 3)
        if self.control.pc in self.scopes:
            self._extend(0, host, size)
        else:
            self._call("span", begun or self.ready(), host, host + size)

    def ready(self) -> Operand:
        """Return this instruction's store number, repeated for four halfwords."""
        text, pc = self.text, self.control.pc
        if pc in self._hoisted:
            return self._hoisted[pc]
        wrong, halfwords = self._site(pc)
        number = text.slot("  %number", "i64")
        self._set(halfwords, number)
        first, on = text.fresh("first"), text.fresh("on")
        with text.apart(first):
            self._set(self._some(self._call("ready", self._pc)), number)
            text.jump(on)
        text.branch(wrong.ne(0), first, on, LIKELY)
        text.start(on)
        return number.load("i64")

    def stored(self, w: int, pointer: Operand, ready: Operand) -> None:
        """Emit the recording of a store of `w` bits at `pointer` by the instruction with the store number `ready`."""
        text, host = self.text, self._host(pointer)
        slow_path, on, done = text.fresh("slow_path"), text.fresh("on"), text.fresh("noted")
        with text.apart(slow_path):
            self._call("span", ready, host, host + (w >> 3))
            text.jump(done)
        text.branch(self._unlike(w, host).ne(0), slow_path, on, LIKELY)
        text.start(on)
        self._put(w, pointer, ready)
        text.jump(done)
        text.start(done)

    def _note(self, w: int, pointer: Operand) -> None:
        """Emit code that records a store of `w` bits at `pointer`.

        If the storing instruction has no number in the table of storing instructions yet, the code assigns one."""
        text, host = self.text, self._host(pointer)
        slow_path, on, done = text.fresh("slow_path"), text.fresh("on"), text.fresh("noted")
        with text.apart(slow_path):
            number = self._some(self._call("ready", self._pc))
            self._call("span", number, host, host + (w >> 3))
            text.jump(done)
        wrong, halfwords = self._site(self.control.pc)
        wrong = wrong | self._unlike(w, host)
        text.branch(wrong.ne(0), slow_path, on, LIKELY)
        text.start(on)
        self._put(w, pointer, halfwords)
        text.jump(done)
        text.start(done)

    def _site(self, pc: int) -> tuple[Operand, Operand]:
        """Return two values for the instruction at `pc`: one that is 0 if it has a valid store number, and that number.

        Both come from the instruction's row in the table of storing instructions. The store number is repeated for
        four halfwords."""
        if pc in self._unscoped:
            raise ModelBug(
                f"the store at {pc:#x} must be recorded with the run of stores that contains it, not by itself"
            )
        self._row()
        text, at = self.text, (pc >> 1 & SITES - 1) * ctypes.sizeof(SiteRow)
        key, halfwords = (
            text.pointer("%store_sites").offset(at + 8 * SITE_AT[name]).load("i64") for name in ("key", "halfwords")
        )
        own = text.word("%interval") | self.control.ints.const(64, pc)
        return (key ^ own), halfwords

    def _cell(self, host: Operand) -> Operand:
        """Return the number of the last store to the block of code bytes that contains host address `host`."""
        text = self.text
        row = host >> CELL_BITS & text.word("%cell_mask")
        number = text.pointer("%cells").element("i16", row).load("i16")
        return number.zext("i64")

    def _unlike(self, w: int, host: Operand) -> Operand:
        """Return a value that is 0 if a store of `w` bits can be recorded in shadow memory directly.

        That is so on two conditions: the store covers whole halfwords or one byte, and the store numbers of its cell
        are in shadow memory, not in the table.
        """
        self._row()
        if w == 8:
            return self._cell(host)
        odd = host & (w >> 3) - 1  # pages may begin anywhere in memory
        return self._cell(host) | odd

    def _split_round(self, first: Operand, walk: Stride, is_there: Operand | None = None) -> None:
        """Emit code that moves store numbers from the table into shadow memory, for the cells of one loop iteration.

        These are the cells that the strided access `walk` accesses in one iteration, from address `first` on. If
        `is_there` is given, the code takes effect only if `is_there` is 1 (the address is in memory)."""
        text, size = self.text, walk.high - walk.low
        self._row()
        places = [first]
        if len(walk.accesses) > 1:
            offsets = [*range(CELL, size - 1, CELL), size - 1]
            places += [(first + offset) for offset in offsets]
        cells = self._cell(places[0])
        for place in places[1:]:
            cells = cells | self._cell(place)
        split, on = text.fresh("split"), text.fresh("on")
        with text.apart(split):
            self._call("split", first, first + size)
            text.jump(on)
        wanted = (self.text.flag(True) if is_there is None else is_there) & cells.ne(0)
        text.branch(wanted, split, on, LIKELY)
        text.start(on)

    def _put(self, w: int, pointer: Operand, halfwords: Operand) -> None:
        """Emit the write of the store number `halfwords` to the shadow memory of a store of `w` bits at `pointer`.

        A store of one byte writes the number of the byte's halfword.
        """
        if w == 8:
            host = self._host(pointer) & -2
            pointer, w = host.inttoptr(), 16
        place = pointer.offset(DISTANCE)
        value = halfwords if w == 64 else halfwords.trunc(f"i{w}")
        place.store(value, align=2)


NOTES: Final = Instrumentation(("code stores",), store_notes=StoreNotes)
