"""What translated code does at a store, so that it is known afterwards which instruction made it.

A store that goes on where the last one ended only moves the end of the run that is open, which is noted when control
leaves its scope or the region. Others are noted one by one, in the plane, behind a look at their cell.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from understudy.core.errors import ModelBug
from understudy.engine.riscv.code_stores.codes import CELL, CELL_BITS, DISTANCE, SITES, HartRow, SiteRow, Stores
from understudy.engine.riscv.code_stores.runs import run_scopes, stores
from understudy.engine.riscv.jit.emit_region import Algebra
from understudy.engine.riscv.jit.engine import Noting
from understudy.engine.riscv.jit.region import Block, Region
from understudy.engine.riscv.jit.strides import STORES, Stride
from understudy.ir.native import numbers
from understudy.isa.riscv.state import CODE_STORES

ROW_AT: Final = numbers(HartRow)
STORES_AT: Final = numbers(Stores)
SITE_AT: Final = numbers(SiteRow)
MOST_RUNS: Final = 4
"""Runs that are open at the same time."""
MOST_CELLS: Final = 4
"""Cells of a round of a walk that are looked at together."""
LIKELY: Final = ", !prof !0"
"""Of a branch whose first arm is the unlikely one."""


class StoreNotes:
    """Writes it for one region.

    A run has variables of the function: where it began and ends, and its number; both ends are 0 where none is open.
    One run is that of whatever scope control is in. Where the stores of a measured loop are known not to meet, each has
    one.
    """

    def __init__(self, algebra: Algebra, region: Region) -> None:
        self.text = algebra.control.text
        self.control = algebra.control
        self.memory = algebra.memory
        self.scopes = run_scopes(region)
        self._scoped = {start for scope in self.scopes.values() for start in scope}
        self._beside = {pc for start in self._scoped for pc, _ in region.blocks[start].insns} - self.scopes.keys()
        self._runs = 0
        """How many runs there are."""
        self._closing = 0
        """How many of them `close` is about."""
        self._hoisted: dict[int, str] = {}
        """Of the measured loop that is being written: by the pc of a store, its number."""
        self._running: dict[int, int] = {}
        """By the pc of a store that goes on for certain, its run."""
        self._rounds: dict[int, Stride] = {}
        """By the pc of the first store of a walk, where the cells of all of a round are looked at, that walk."""
        self._looked: set[int] = set()
        """The pcs of stores of such walks."""

    # ---- calls ---------------------------------------------------------------------------------------------------
    def _row(self) -> None:
        """Have the words of the hart's row."""
        for line in (
            f"  %q_code_stores = getelementptr i64, ptr %st, i64 {CODE_STORES}",
            "  %code_stores = load ptr, ptr %q_code_stores, !invariant.load !1",
            "  %code_stores_row = ptrtoint ptr %code_stores to i64",
            f"  %q_store_sites = getelementptr i64, ptr %code_stores, i64 {ROW_AT['sites']}",
            "  %store_sites = load ptr, ptr %q_store_sites, !invariant.load !1",
            f"  %q_all_stores = getelementptr i64, ptr %code_stores, i64 {ROW_AT['stores']}",
            "  %all_stores = load ptr, ptr %q_all_stores, !invariant.load !1",
            f"  %q_stretch = getelementptr i64, ptr %all_stores, i64 {STORES_AT['stretch']}",
            "  %stretch = load i64, ptr %q_stretch",  # no hart fetches anew while one is here
            f"  %q_cells = getelementptr i64, ptr %all_stores, i64 {STORES_AT['cells']}",
            "  %cells = load ptr, ptr %q_cells, !invariant.load !1",
            f"  %q_cell_mask = getelementptr i64, ptr %all_stores, i64 {STORES_AT['cell_mask']}",
            "  %cell_mask = load i64, ptr %q_cell_mask, !invariant.load !1",
        ):
            self.text.alloca(line)

    def _call(self, name: str, *arguments: str) -> str:
        self._row()
        place = self.text.let(f"getelementptr i64, ptr %code_stores, i64 {ROW_AT[name]}")
        function = self.text.let(f"load ptr, ptr {place}, !invariant.load !1")
        given = "".join(f", i64 {each}" for each in arguments)
        return self.text.let(f"call i64 {function}(i64 %code_stores_row{given})")

    @property
    def _pc(self) -> str:
        return self.control.ints.const(64, self.control.pc)

    def _host(self, pointer: str) -> str:
        return self.text.let(f"ptrtoint ptr {pointer} to i64")

    def _some(self, value: str) -> str:
        """A number, which an instruction without one leaves to the reference engine."""
        self.control.side(self.text.let(f"icmp eq i64 {value}, 0"))
        return value

    # ---- runs ----------------------------------------------------------------------------------------------------
    def _run(self, k: int) -> tuple[str, str, str]:
        """The variables of a run: where it began, where it ends, and its number."""
        names = f"%run_start{k}", f"%run_end{k}", f"%run_number{k}"
        for name in names:
            self.text.alloca(f"  {name} = alloca i64")
            self.text.alloca(f"  store i64 0, ptr {name}")
        self._runs = max(self._runs, k + 1)
        return names

    def _set(self, value: str, *names: str) -> None:
        for name in names:
            self.text.put(f"store i64 {value}, ptr {name}")

    def _move(self, k: int, pc: int) -> str:
        """Close a run; gives the number of the instruction that makes the next one, or 0."""
        start, end, number = self._run(k)
        was = [self.text.let(f"load i64, ptr {name}") for name in (number, start, end)]
        found = self._call("move", self.control.ints.const(64, pc), *was)
        self._set("0", start, end)
        self._set(found, number)
        return found

    def _begin(self, k: int, pc: int, host: str) -> str:
        """A run of a measured loop begins at a place, or goes on there; whether it does."""
        text, (start, end, _) = self.text, self._run(k)
        moved, on = text.fresh("moved"), text.fresh("on")
        with text.apart(moved):
            has_number = text.let(f"icmp ne i64 {self._move(k, pc)}, 0")
            self._set(text.let(f"select i1 {has_number}, i64 {host}, i64 0"), start, end)
            text.put(f"br label %{on}")
        text.branch(text.let(f"icmp ne i64 {text.let(f'load i64, ptr {end}')}, {host}"), moved, on)
        text.start(on)
        return text.let(f"icmp eq i64 {text.let(f'load i64, ptr {end}')}, {host}")

    def _reach(self, k: int, host: str) -> None:
        """The instruction stores next at a place, most likely where its run ends: else it begins another one."""
        text, (start, end, _) = self.text, self._run(k)
        moved, on = text.fresh("moved"), text.fresh("on")
        with text.apart(moved):
            self._some(self._move(k, self.control.pc))
            self._set(host, start, end)
            text.put(f"br label %{on}")
        text.branch(text.let(f"icmp ne i64 {text.let(f'load i64, ptr {end}')}, {host}"), moved, on, LIKELY)
        text.start(on)

    def _extend(self, k: int, host: str, size: str) -> None:
        """It does, and the run ends behind that."""
        self._set(self.text.let(f"add i64 {host}, {size}"), self._run(k)[1])

    def edge(self, start: int, successor: int) -> bool:
        """Whether runs may be open that end between two blocks."""
        is_left = any(start in scope and successor not in scope for scope in self.scopes.values())
        self._closing = 1 if is_left else 0
        if start not in self._scoped and self._running and start != successor:
            self._closing = len(self._running)
        return self._closing > 0

    def leave(self) -> None:
        """The region is left: no run is open any more."""
        self._close(self._runs)

    def close(self) -> None:
        """Note them."""
        self._close(self._closing)

    def _close(self, count: int) -> None:
        """Note the first runs, so many."""
        text = self.text
        for k in range(count):
            start, end, number = self._run(k)
            first, last = (text.let(f"load i64, ptr {name}") for name in (start, end))
            closing, on = text.fresh("closing"), text.fresh("on")
            text.branch(text.let(f"icmp ne i64 {first}, {last}"), closing, on)
            text.start(closing)
            self._call("span", text.let(f"load i64, ptr {number}"), first, last)
            text.put(f"br label %{on}")
            text.start(on)
            self._set("0", start, end)

    # ---- loops that were measured --------------------------------------------------------------------------------
    def measure(self, block: Block, walks: Sequence[tuple[Stride, str]], times: str) -> str:
        """Before so many rounds of a loop: how many of them may be made with less of a look at each."""
        text, fine = self.text, "true"
        pcs = [pc for pc, insn in block.insns if stores(insn)]
        of = {pc: (walk, host) for walk, host in walks for pc in walk.accesses}
        if 1 < len(pcs) <= MOST_RUNS and all(pc in of and of[pc][0].goes_on for pc in pcs):
            self._running = {pc: k for k, pc in enumerate(pcs)}
            self._close(len(pcs))  # one may come where another one has been by now
            times = self._apart([of[pc] for pc in pcs], times)
        still: list[tuple[Stride, str]] = []
        are_small = all(insn.name in STORES or insn.spec.extension == "A" for _, insn in block.insns if stores(insn))
        for pc in pcs:
            walk, host = of.get(pc, (None, ""))
            if pc in self.scopes and walk is not None and walk.goes_on:
                self._running[pc] = 0
            if pc in self._running:
                fine = text.let(f"and i1 {fine}, {self._begin(self._running[pc], pc, host)}")
                continue
            if pc in self.scopes:
                continue
            wrong, self._hoisted[pc] = self._site(pc)
            if walk is not None and walk.high - walk.low <= MOST_CELLS * CELL:
                self._looked.add(pc)
                wrong = text.let(f"or i64 {wrong}, {text.let(f'and i64 {host}, {walk.align - 1}')}")
                if pc == walk.accesses[0] and are_small and not walk.step and not walk.step_register:
                    still.append((walk, host))  # what no round moves; nothing in it gives cells numbers
                elif pc == walk.accesses[0]:
                    self._rounds[pc] = walk
            fine = text.let(f"and i1 {fine}, {text.let(f'icmp eq i64 {wrong}, 0')}")
        times = text.let(f"select i1 {fine}, i64 {times}, i64 0")
        for walk, host in still:
            self._look(host, walk, text.let(f"icmp ne i64 {times}, 0"))
        return times

    def _apart(self, walks: Sequence[tuple[Stride, str]], times: str) -> str:
        """How many rounds of a loop may be made so that none of its walks comes where another one began."""
        text = self.text
        for (one, begin), (other, its_begin) in combinations(walks, 2):
            for walk, first, second in ((one, begin, its_begin), (other, its_begin, begin)):
                gap = text.call("i64", "llvm.usub.sat.i64", f"i64 {text.let(f'sub i64 {second}, {first}')}", "i64 1")
                is_behind = text.let(f"icmp ugt i64 {first}, {second}")
                room = text.let(f"select i1 {is_behind}, i64 -1, i64 {text.let(f'udiv i64 {gap}, {walk.step}')}")
                times = text.call("i64", "llvm.umin.i64", f"i64 {times}", f"i64 {room}")
        return times

    def unmeasured(self) -> None:
        """What follows are the rounds with a look at each."""
        if len(self._running) > 1:
            self._close(len(self._running))
        self._hoisted, self._running, self._rounds, self._looked = {}, {}, {}, set()

    # ---- stores --------------------------------------------------------------------------------------------------
    def begin(self, pointer: str) -> str:
        """A store is next, which may be left to the reference engine; gives what `store` and `many` want.

        That is the number of its instruction where something else looks at it in between, and it has no run.
        """
        pc = self.control.pc
        if pc in self.scopes or pc in self._running:
            if pc not in self._running:
                self._reach(0, self._host(pointer))
            return ""
        return "" if self.memory.looks is None else self.ready()

    def store(self, w: int, pointer: str, begun: str) -> None:
        """It is made now."""
        text, pc = self.text, self.control.pc
        if pc in self.scopes or pc in self._running:
            self._extend(self._running.get(pc, 0), self._host(pointer), str(w >> 3))
        elif pc in self._looked:
            if pc in self._rounds:
                walk = self._rounds[pc]
                self._look(text.let(f"add i64 {self._host(pointer)}, {walk.low - walk.offsets[0]}"), walk)
            self._put(w, pointer, self._hoisted[pc])
        elif begun or pc in self._hoisted:
            self.stored(w, pointer, begun or self._hoisted[pc])
        else:
            self._note(w, pointer)

    def many(self, w: int, pointer: str, count: str, begun: str) -> None:
        """It is one of so many elements side by side."""
        text, host = self.text, self._host(pointer)
        size = text.let(f"mul i64 {count}, {w >> 3}")
        if self.control.pc in self.scopes:
            self._extend(0, host, size)
        else:
            self._call("span", begun or self.ready(), host, text.let(f"add i64 {host}, {size}"))

    def ready(self) -> str:
        """The number of this instruction, in four parcels."""
        text, pc = self.text, self.control.pc
        if pc in self._hoisted:
            return self._hoisted[pc]
        wrong, parcels = self._site(pc)
        text.alloca("  %number = alloca i64")
        self._set(parcels, "%number")
        first, on = text.fresh("first"), text.fresh("on")
        with text.apart(first):
            self._set(self._some(self._call("ready", self._pc)), "%number")
            text.put(f"br label %{on}")
        text.branch(text.let(f"icmp ne i64 {wrong}, 0"), first, on, LIKELY)
        text.start(on)
        return text.let("load i64, ptr %number")

    def stored(self, w: int, pointer: str, ready: str) -> None:
        """Bytes have been stored, by the instruction of a number."""
        text, host = self.text, self._host(pointer)
        closer, on, done = text.fresh("closer"), text.fresh("on"), text.fresh("noted")
        with text.apart(closer):
            self._call("span", ready, host, text.let(f"add i64 {host}, {w >> 3}"))
            text.put(f"br label %{done}")
        text.branch(text.let(f"icmp ne i64 {self._unlike(w, host)}, 0"), closer, on, LIKELY)
        text.start(on)
        self._put(w, pointer, ready)
        text.put(f"br label %{done}")
        text.start(done)

    def _note(self, w: int, pointer: str) -> None:
        """A store is next, of an instruction that may have no number yet."""
        text, host = self.text, self._host(pointer)
        closer, on, done = text.fresh("closer"), text.fresh("on"), text.fresh("noted")
        with text.apart(closer):
            number = self._some(self._call("ready", self._pc))
            self._call("span", number, host, text.let(f"add i64 {host}, {w >> 3}"))
            text.put(f"br label %{done}")
        wrong, parcels = self._site(self.control.pc)
        wrong = text.let(f"or i64 {wrong}, {self._unlike(w, host)}")
        text.branch(text.let(f"icmp ne i64 {wrong}, 0"), closer, on, LIKELY)
        text.start(on)
        self._put(w, pointer, parcels)
        text.put(f"br label %{done}")
        text.start(done)

    def _site(self, pc: int) -> tuple[str, str]:
        """Of the row of an instruction: what is 0 if it is its own, and its number in four parcels."""
        if pc in self._beside:
            raise ModelBug(f"the instruction at {pc:#x} stores beside a run")
        self._row()
        text, at = self.text, (pc >> 1 & SITES - 1) * ctypes.sizeof(SiteRow)
        key, parcels = (
            text.let(f"load i64, ptr {text.let(f'getelementptr i8, ptr %store_sites, i64 {at + 8 * SITE_AT[name]}')}")
            for name in ("key", "parcels")
        )
        own = text.let(f"or i64 %stretch, {self.control.ints.const(64, pc)}")
        return text.let(f"xor i64 {key}, {own}"), parcels

    def _cell(self, host: str) -> str:
        """What the table says of the cell of a byte."""
        text = self.text
        row = text.let(f"and i64 {text.let(f'lshr i64 {host}, {CELL_BITS}')}, %cell_mask")
        number = text.let(f"load i16, ptr {text.let(f'getelementptr i16, ptr %cells, i64 {row}')}")
        return text.let(f"zext i16 {number} to i64")

    def _unlike(self, w: int, host: str) -> str:
        """What is 0 where a store is one of whole parcels, or of one byte, of a cell whose numbers are in the plane."""
        self._row()
        if w == 8:
            return self._cell(host)
        odd = self.text.let(f"and i64 {host}, {(w >> 3) - 1}")  # pages may begin anywhere in memory
        return self.text.let(f"or i64 {self._cell(host)}, {odd}")

    def _look(self, first: str, walk: Stride, is_there: str = "true") -> None:
        """Have the numbers of all that a round of a walk stores, from a place on, in the plane, if it is memory."""
        text, size = self.text, walk.high - walk.low
        self._row()
        places = [first]
        if len(walk.accesses) > 1:
            offsets = [*range(CELL, size - 1, CELL), size - 1]
            places += [text.let(f"add i64 {first}, {offset}") for offset in offsets]
        cells = self._cell(places[0])
        for place in places[1:]:
            cells = text.let(f"or i64 {cells}, {self._cell(place)}")
        split, on = text.fresh("split"), text.fresh("on")
        with text.apart(split):
            self._call("split", first, text.let(f"add i64 {first}, {size}"))
            text.put(f"br label %{on}")
        wanted = text.let(f"and i1 {is_there}, {text.let(f'icmp ne i64 {cells}, 0')}")
        text.branch(wanted, split, on, LIKELY)
        text.start(on)

    def _put(self, w: int, pointer: str, parcels: str) -> None:
        """Write the number of whole parcels, or of that of a byte, into the plane."""
        text = self.text
        if w == 8:
            host = text.let(f"and i64 {self._host(pointer)}, -2")
            pointer, w = text.let(f"inttoptr i64 {host} to ptr"), 16
        place = text.let(f"getelementptr i8, ptr {pointer}, i64 {DISTANCE}")
        value = parcels if w == 64 else text.let(f"trunc i64 {parcels} to i{w}")
        text.put(f"store i{w} {value}, ptr {place}, align 2")


NOTING: Final = Noting("code stores", StoreNotes)
