"""One region of RV64 code as one LLVM function: registers in SSA form, fuel checked at loop heads.

The function takes the hart's shared state and the pc to enter at, and returns an exit code with pc, fuel and all
registers written back. At a `STEP` exit the instruction at pc has not begun.
"""

from __future__ import annotations

from understudy.engine.riscv.jit.dispatcher import JUMP, MISS, OUT_OF_FUEL, POLLED, STEP
from understudy.engine.riscv.jit.emit_float import TYPE, Held, fma_helper
from understudy.engine.riscv.jit.emit_integer import CLMUL_PORTABLE, CLMUL_X86
from understudy.engine.riscv.jit.emit_loop import LoopEmitter
from understudy.engine.riscv.jit.floatreps import INTEGER, Rep
from understudy.engine.riscv.jit.region import Block, is_system
from understudy.engine.riscv.jit.strides import strides
from understudy.isa.riscv import state as layout

_TABLES = ("loads", "stores", "load_ends", "store_ends")


class RegionEmitter(LoopEmitter):
    """Translates one region; `text()` is the whole module, with one function named `region`."""

    # -- blocks

    def block(self, block: Block) -> None:
        """Translate one block, and where it is a loop that walks through memory, a version without checks."""
        walks = strides(block)
        if not walks:
            self._begin(block.start, f"b{block.start:x}")
            self._body(block)
            return
        floor = self._measure(block, walks)
        fast = f"fast{block.start:x}"
        self._begin(block.start, fast)
        self.back = (block.start, self._loop_back(block.start, fast, floor))
        self._body(block, checked=False)
        self.addends, self.back = {}, None
        self._begin(block.start, f"slow{block.start:x}")
        self._body(block)

    def _body(self, block: Block, checked: bool = True) -> None:
        start, least = block.start, self.region.least[block.start]
        if start in self.region.budget:
            self._spend(start, least, self.region.budget[start] if checked else 0)
        for index, (pc, insn) in enumerate(block.insns):
            self.pc, self.next_pc = pc, (pc + insn.length) & ((1 << 64) - 1)
            self.out, self.refund = None, least - index
            if is_system(insn, self.native_float):
                self._leave(self.const(64, pc), STEP, 0)
                return
            insn.spec.meaning(self, insn)
        self._end(block)

    def _spend(self, start: int, least: int, budget: int) -> None:
        """Take `least` from the fuel, leaving before the block where there is less than `budget`."""
        rest = self.value(f"sub i64 {self.fuel}, {least}") if least else self.fuel
        if budget:
            out, on = self.label("dry"), self.label("on")
            body, self.lines = self.lines, [f"{out}:"]
            self._leave(self.const(64, start), OUT_OF_FUEL, 0)
            self.tail += self.lines
            self.lines = body
            slack = self.region.slack
            if budget - least <= slack:
                short = self.value(f"icmp slt i64 {rest}, 0")
            else:
                short = self.value(f"icmp slt i64 {self.fuel}, {budget - slack}")
            self.line(f"br i1 {short}, label %{out}, label %{on}, !prof !0")
            self.lines.append(f"{on}:")
        self.fuel = rest
        self.line(f"store i64 {rest}, ptr %fuel")

    def _end(self, block: Block) -> None:
        kind = self.terminator[0] if self.terminator else "fall"
        if kind == "indirect":
            self._go_to(self.terminator[1])
            return
        if not block.successors:
            self._leave(self.const(64, int(self.terminator[1])), JUMP, 0)
            return
        self._flush()
        dirty, self.dirty_x, self.dirty_f = (self.dirty_x, self.dirty_f), set(), set()
        owed = self.region.least[block.start] - block.cost
        labels = [self._edge(successor, self.region.debt(successor) - owed) for successor in block.successors]
        if block.polls:
            labels[0] = self._poll(block.successors[0], labels[0])
        self.dirty_x, self.dirty_f = dirty
        if kind == "branch":
            self.line(f"br i1 {self.terminator[1]}, label %{labels[0]}, label %{labels[1]}")
        else:
            self.line(f"br label %{labels[0]}")

    def _go_to(self, address: str) -> None:
        """A computed jump: back into the region where a call inside it may have come from, else away."""
        if not self.region.calls_itself:
            self._leave(address, JUMP, 0)
            return
        away = self.label("away")
        body, self.lines = self.lines, [f"{away}:"]
        self._leave(address, JUMP, 0)
        self.tail += self.lines
        self.lines = body
        self._flush()
        self.dirty_x, self.dirty_f = set(), set()
        returns = sorted(self.region.entries - {self.region.entry})
        cases = " ".join(f"i64 {self.const(64, pc)}, label %{self._edge(pc, 0)}" for pc in returns)
        self.line(f"switch i64 {address}, label %{away} [ {cases} ]")

    def _edge(self, successor: int, price: int) -> str:
        """The label to go to for `successor`, with a block of its own where that costs fuel or registers must change
        representation."""
        if successor not in self.region.blocks:
            label = self.label("away")
            body, self.lines = self.lines, [f"{label}:"]
            self._leave(self.const(64, successor), JUMP, 0)
            self.tail += self.lines
            self.lines = body
            return label
        wanted = self.reps_before[successor]
        target = f"b{successor:x}"
        if self.back is not None and successor == self.back[0]:
            target = self.back[1]
        changes = []
        for n in sorted(self.reps.keys() | wanted.keys()):
            have, want = self.reps.get(n, INTEGER), wanted.get(n, INTEGER)
            if have[0] != want[0] or (have[1] == "r" and want[1] == "x"):
                changes.append((n, want))
        if not changes and not price:
            return target
        label = self.label("edge")
        body, self.lines = self.lines, [f"{label}:"]
        cached = dict(self.fs)
        if price:
            left = self.value(f"sub i64 {self.fuel}, {price}")
            self.line(f"store i64 {left}, ptr %fuel")
        for n, want in changes:
            self._store_as(n, want)
        self.line(f"br label %{target}")
        self.fs = cached
        self.tail += self.lines
        self.lines = body
        return label

    def _poll(self, head: int, on: str) -> str:
        """The label to go to for another round of polling: on to label `on`, or away where that was the last one."""
        label, away = self.label("poll"), self.label("polled")
        body, self.lines = self.lines, [f"{label}:"]
        polls = self.value("load i64, ptr %polls")
        last = self.value(f"icmp eq i64 {polls}, 0")
        fewer = self.value(f"call i64 @llvm.usub.sat.i64(i64 {polls}, i64 1)")
        self.declared.add("declare i64 @llvm.usub.sat.i64(i64, i64)")
        self.line(f"store i64 {fewer}, ptr %polls")
        self.line(f"br i1 {last}, label %{away}, label %{on}")
        self.lines.append(f"{away}:")
        self._leave(self.const(64, head), POLLED, 0)
        self.tail += self.lines
        self.lines = body
        return label

    def _store_as(self, n: int, want: Rep) -> None:
        v = self.convert_rep(self._held(n), want)
        self.slots.add((n, want[0]))
        ty, name = (TYPE[v.fmt], v.name) if isinstance(v, Held) else ("i64", v)
        self.line(f"store {ty} {name}, ptr %f{want[0]}{n}")

    # -- the function around them

    def text(self) -> str:
        """The module."""
        region = self.region
        for start in sorted(region.blocks):
            self.block(region.blocks[start])
        body = self.lines + self.tail
        stubs = self._exit_stubs()
        entries = sorted((region.entries | region.heads) & region.blocks.keys())
        shims = [line for start in entries for line in self._shim(start)]
        head = self._head(entries)
        parts = ["define i64 @region(ptr %st, i64 %pc0) #0 {", *head, *shims, *body, *stubs, "}"]
        return "\n".join(parts) + "\n" + self._footer()

    def _head(self, entries: list[int]) -> list[str]:
        out = ["entry:"]
        named = {
            "q_fuel": layout.FUEL,
            "q_pc": layout.PC,
            "frm": layout.FRM,
            "reserved": layout.RESERVED_ADDRESS,
            "reserved_value": layout.RESERVED_VALUE,
            "scratch": layout.SCRATCH,
            "polls": layout.POLLS,
            "shared": layout.SHARED,
            "synchronized": layout.SYNCHRONIZED,
            "q_loads": layout.LOAD_TABLE,
            "q_stores": layout.STORE_TABLE,
            "q_load_ends": layout.LOAD_ENDS,
            "q_store_ends": layout.STORE_ENDS,
        }
        out += [f"  %{name} = getelementptr i64, ptr %st, i64 {offset}" for name, offset in named.items()]
        out += [f"  %{name} = load ptr, ptr %q_{name}, !invariant.load !1" for name in _TABLES]
        out += [f"  %{name} = alloca i64" for name in ("fuel", "pc", "code")]
        out += ["  %fuel0 = load i64, ptr %q_fuel", f"  %fuel1 = sub i64 %fuel0, {self.region.slack}"]
        out += ["  store i64 %fuel1, ptr %fuel"]
        for n in sorted(self.used_x):
            out += [
                f"  %qx{n} = getelementptr i64, ptr %st, i64 {layout.X + n}",
                f"  %x{n} = alloca i64",
                f"  %ix{n} = load i64, ptr %qx{n}",
                f"  store i64 %ix{n}, ptr %x{n}",
            ]
        for n in sorted({n for n, _ in self.slots} | self.written_f):
            out += [
                f"  %qf{n} = getelementptr i64, ptr %st, i64 {layout.F + n}",
                f"  %fI{n} = alloca i64",
                f"  %if{n} = load i64, ptr %qf{n}",
                f"  store i64 %if{n}, ptr %fI{n}",
            ]
        out += [f"  %f{fmt}{n} = alloca {TYPE[fmt.lower()]}" for n, fmt in sorted(self.slots) if fmt != "I"]
        cases = " ".join(f"i64 {self.const(64, pc)}, label %e{pc:x}" for pc in entries)
        out += [f"  switch i64 %pc0, label %miss [ {cases} ]", "miss:", f"  ret i64 {MISS}"]
        out += ["slow:", f"  ret i64 {STEP}"]
        return out

    def _shim(self, start: int) -> list[str]:
        """Enter at `start` from outside: bring registers into its representations, or leave it to the reference."""
        self.lines = [f"e{start:x}:"]
        for n, (fmt, kind) in sorted(self.reps_before[start].items()):
            raw = self.value(f"load i64, ptr %fI{n}")
            v = self.from_integer(fmt.lower(), raw)
            bits = self.value(f"bitcast {TYPE[v.fmt]} {v.name} to i{64 if v.fmt == 'd' else 32}")
            bad = None
            if fmt == "S":
                bad = self.value(f"icmp ult i64 {raw}, -4294967296")
            if kind != "x":
                quiet = "2143289344" if v.fmt == "s" else "9221120237041090560"
                w = 64 if v.fmt == "d" else 32
                odd = self.value(f"icmp ne i{w} {bits}, {quiet}")
                payload = self.value(f"and i1 {odd}, {self._is_nan(v.fmt, bits)}")
                bad = payload if bad is None else self.value(f"or i1 {bad}, {payload}")
            if bad is not None:
                on = self.label("on")
                self.line(f"br i1 {bad}, label %slow, label %{on}, !prof !0")
                self.lines.append(f"{on}:")
            self.slots.add((n, fmt))
            self.line(f"store {TYPE[v.fmt]} {v.name}, ptr %f{fmt}{n}")
        self.line(f"br label %b{start:x}")
        return self.lines

    def _exit_stubs(self) -> list[str]:
        """One stub for each combination of representations at an exit, then the common write-back."""
        self.lines = []
        for (code, key), label in self.exits.items():
            self.lines.append(f"{label}:")
            self.line(f"store i64 {code}, ptr %code")
            self.fs, self.reps = {}, dict(key)
            for n, _ in key:
                self._store_as(n, INTEGER)
                self.written_f.add(n)
            self.line("br label %leave")
        self.lines.append("leave:")
        for n in sorted(self.written_x):
            self.line(f"store i64 {self.value(f'load i64, ptr %x{n}')}, ptr %qx{n}")
        for n in sorted(self.written_f):
            self.line(f"store i64 {self.value(f'load i64, ptr %fI{n}')}, ptr %qf{n}")
        left = self.value("load i64, ptr %fuel")
        self.line(f"store i64 {self.value(f'add i64 {left}, {self.region.slack}')}, ptr %q_fuel")
        self.line(f"store i64 {self.value('load i64, ptr %pc')}, ptr %q_pc")
        self.line(f"ret i64 {self.value('load i64, ptr %code')}")
        return self.lines

    def _footer(self) -> str:
        helpers = ""
        if "clmul" in self.helpers:
            helpers += CLMUL_X86 if "pclmul" in self.features else CLMUL_PORTABLE
        for fmt in ("s", "d"):
            if f"fma_{fmt}" in self.helpers:
                helpers += fma_helper(fmt, layout.FFLAGS)
        return (
            helpers
            + "\n".join(sorted(self.declared))
            + "\nattributes #0 = { strictfp nounwind }\nattributes #1 = { nounwind noinline }\n"
            + "attributes #2 = { nounwind noinline cold }\n"
            + '!0 = !{!"branch_weights", i32 1, i32 100000}\n!1 = !{}\n'
        )
