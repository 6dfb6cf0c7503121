"""Random loops of stores, as assembly text of a rig, and what engines know of the stores afterwards, parcel by parcel.

x10 to x14 are places in the data memory, x13 the first of them, x20 to x23 count, x24 to x29 are values.
"""

from __future__ import annotations

from itertools import cycle, islice
from random import Random
from typing import Final

from softcard.core.space import Ram
from softcard.engine.riscv.code_stores.engines import CodeStoreEngine, CodeStores
from softcard.engine.riscv.code_stores.layout import StoreRam
from softcard.engine.riscv.code_stores.translated import TranslatedCodeStoreEngine
from softcard.isa.riscv import csrnames
from softcard.isa.riscv.state import Hart
from tests.agree.hart_programs import TextMaker
from tests.engine.riscv.rig import CACHE, DATA, OddPort, Outcome, Rig, WidePort

PLACES: Final = DATA + 0x800
SPAN: Final = 0x300
"""Bytes from there on that loops begin in."""
CHECKED_BYTES: Final = 0x1C00
"""Bytes of the data memory whose parcels are compared."""
SIZES: Final = {"sb": 1, "sh": 2, "sw": 4, "sd": 8, "fsw": 4, "fsd": 8}
Known = dict[tuple[int, int], tuple[int, int]]
"""By address and hart: the pc and hart of a store that this one may not see."""


class UnevenPort(OddPort):
    """Data lies two bytes further on."""

    further = 2


class Maker(TextMaker):
    """Writes one program."""

    def __init__(self, random: Random, has_atomics: bool = True) -> None:
        super().__init__(random)
        self.has_atomics = has_atomics

    def text(self) -> str:
        """Some loops, one after the other, or one after the other again and again."""
        again = self._chance(0.3)
        self._put(*self._counter(23, 2, 4, "again") if again else [])
        for _ in range(self.random.randrange(1, 5)):
            self._loop()
        if again:
            self._put("addi x23, x23, -1", "bne x23, x0, again")
        self._put("addi x0, x0, 0")
        return "\n".join(self.lines)

    def _counter(self, n: int, least: int, most: int, label: str) -> list[str]:
        return [f"addi x{n}, x0, {self.random.randrange(least, most)}", f"{label}:"]

    def _place(self, register: int, align: int = 8) -> None:
        """A register becomes a place in the data memory."""
        offset = self.random.randrange(0, SPAN, align) if self._chance(0.7) else 64 * self.random.randrange(8)
        self._put(f"addi x15, x0, {offset}", f"add x{register}, x13, x15")

    def _loop(self) -> None:
        kind = self.random.choice((self._walks, self._walks, self._walks, self._indexed, self._vectors, self._rows))
        kind()
        if self._chance(0.2):
            self._put(self.random.choice(("fence.i", "fence rw, rw", "sw x24, 4(x14)", "sb x24, 3(x10)")))

    def _store(self, name: str, base: int, offset: int = 0) -> str:
        return f"{name} {'f' if name[0] == 'f' else 'x'}{self.random.randrange(24, 30)}, {offset}(x{base})"

    def _body(self, lines: list[str]) -> list[str]:
        """What a round does, perhaps with something beside it."""
        out = list(lines)
        if self._chance(0.2):
            label = self._fresh()
            at = self.random.randrange(len(out))
            skips = self.random.choice((f"andi x19, x20, {self.random.choice((1, 3, 4))}", "slti x19, x20, 5"))
            behind = self.random.randrange(at, len(out)) + 1
            out[at:behind] = [skips, f"beq x19, x0, {label}", *out[at:behind], f"{label}:"]
        if self._chance(0.15) and self.has_atomics:
            other = ("amoadd.w x30, x24, (x14)", "lr.w x30, (x14)\nsc.w x30, x25, (x14)", "amoswap.d x30, x26, (x14)")
            out.insert(self.random.randrange(len(out) + 1), self.random.choice(other))
        if self._chance(0.1):
            out.insert(self.random.randrange(len(out) + 1), "vsetivli x0, 4, e32, m1, ta, ma\nvse32.v v4, (x14)")
        return out

    def _walks(self) -> None:
        """One to three walks, of one store or several in each round."""
        lines, moves, plain = [], [], self._chance(0.3)
        self._place(14)
        for base in range(10, 10 + self.random.choice((1, 1, 1, 2, 2, 3))):
            name = self.random.choice(list(SIZES))
            size, count = SIZES[name], 1 if plain else self.random.choice((1, 1, 1, 2, 4))
            if base > 10 and self._chance(0.4):
                self._put(
                    f"addi x{base}, x10, {size * self.random.randrange(-40, 40)}", f"andi x{base}, x{base}, -{size}"
                )
            else:
                self._place(base, size)
            offsets = [size * k for k in range(count)]
            if self._chance(0.3):
                self.random.shuffle(offsets)
            lines += [self._store(name, base, offset) for offset in offsets]
            step = size * (1 if plain else self.random.choice((count, count, count, count, 0, 2 * count, -count, 1)))
            moves.append(f"addi x{base}, x{base}, {step}")
        if self._chance(0.3):
            self.random.shuffle(lines)
        lines = lines + moves if self._chance(0.7) else self.random.sample(lines + moves, len(lines + moves))
        label = self._fresh()
        body = self._body(lines)
        self._put(*self._counter(20, 1, self.random.choice((4, 20, 60)), label), *body)
        self._put("addi x20, x20, -1", f"bne x20, x0, {label}")

    def _indexed(self) -> None:
        """A store at a place that is computed anew each round."""
        name = self.random.choice(list(SIZES))
        shift = (SIZES[name] - 1).bit_length()
        self._place(10, SIZES[name])
        self._place(14)
        label = self._fresh()
        self._put("addi x21, x0, 0", "addi x11, x10, 0", "addi x15, x0, 0")
        step = self.random.choice((1, 1, 1, 2, -1, 0))
        lines = [f"slli x15, x21, {shift}", "add x11, x10, x15", self._store(name, 11), f"addi x21, x21, {step}"]
        body = self._body(lines)
        self._put(*self._counter(20, 1, 70, label), *body, "addi x20, x20, -1", f"bne x20, x0, {label}")

    def _vectors(self) -> None:
        """Strips of elements, some of them past the end of the one before."""
        width = self.random.choice((8, 16, 32, 64))
        self._place(10, width // 8)
        label, group = self._fresh(), self.random.choice(("m1", "m1", "m4"))
        shift = (width // 8 - 1).bit_length()
        self._put(f"addi x20, x0, {self.random.randrange(1, 150)}", f"{label}:")
        self._put(f"vsetvli x16, x20, e{width}, {group}, ta, ma")
        self._put(
            self.random.choice((f"vse{width}.v v4, (x10)", f"vse{width}.v v4, (x10)", f"vsse{width}.v v4, (x10), x18"))
        )
        if self._chance(0.2):
            self._put(self._store("sw", 14) if self._chance(0.5) else f"vse{width}.v v8, (x10)")
        self._put("sub x20, x20, x16", f"slli x17, x16, {shift}", "add x10, x10, x17", f"bne x20, x0, {label}")

    def _rows(self) -> None:
        """Rows that follow each other, or do not."""
        name = self.random.choice(list(SIZES))
        size = SIZES[name]
        self._place(10, size)
        outer, inner = self._fresh(), self._fresh()
        gap = size * self.random.choice((0, 0, 3, -2))
        store = self._store(name, 10)
        self._put(*self._counter(21, 2, 5, outer), *self._counter(20, 1, 40, inner), store, f"addi x10, x10, {size}")
        self._put("addi x20, x20, -1", f"bne x20, x0, {inner}")
        self._put(*([self._store("sh", 14)] if self._chance(0.2) else []), f"addi x10, x10, {gap}")
        self._put("addi x21, x21, -1", f"bne x21, x0, {outer}")


def rigs(tier: int, port: type[WidePort]) -> tuple[Rig, Rig]:
    """The reference engine's, and one of translated code."""
    rams: list[Ram] = []
    engine = TranslatedCodeStoreEngine(lambda finding: None, rams=lambda: rams, tier=tier, cache=CACHE)
    made = Rig(CodeStoreEngine(lambda finding: None), port), Rig(engine, port, StoreRam)
    rams += [made[1].code, made[1].data]
    return made


def known(rig: Rig, harts: list[Hart]) -> Known:
    """What an engine knows of each parcel of the data memory, and harts that may not see it."""
    engine, first = rig.engine, rig.host(DATA)
    assert isinstance(engine, CodeStores)
    found = {(at, hart.index): engine.unfenced(hart, first + at) for at in range(0, CHECKED_BYTES, 2) for hart in harts}
    return {key: value for key, value in found.items() if value}


def agree(seed: str, tier: int) -> int:
    """Run one program on both engines, a few times, in turns of different lengths; how much is known in the end."""
    random = Random(seed)
    port = random.choice((WidePort, WidePort, WidePort, OddPort, UnevenPort))
    text = Maker(random, port is WidePort).text()
    turns = random.choice(((100_000,), (100_000,), (1, 7, 50, 3), (97, 31)))
    plan = [(random.randrange(2), random.choice((None, None, "fence", "sync"))) for _ in range(random.randrange(2, 6))]
    starts = {f"x{n}": random.randrange(1 << 32) for n in range(24, 30)} | {"x13": PLACES, "x14": PLACES + 0x40}
    starts |= {f"f{n}": random.randrange(1 << 64) for n in range(24, 30)} | {"x18": random.choice((8, 16, 24))}
    seen = []
    for rig in rigs(tier, port):
        end, harts, known_then = rig.place(text), [rig.hart, rig.new_hart(1)], []
        for hart in harts:
            hart.csr[csrnames.MSTATUS] |= 3 << 9
        for which, event in plan:
            outcome = run(rig, harts[which], end, turns, starts)
            assert harts[which].pc == end, f"{seed}: {outcome.ending} at {outcome.pc:#x}\n{text}"
            if event == "fence":
                rig.engine.flush_code(harts[which])
            elif event == "sync":
                rig.engine.code_synced()
            known_then.append(known(rig, harts))
        seen.append((known_then, bytes(rig.data.view[:CHECKED_BYTES])))
    for step, (one, other) in enumerate(zip(seen[0][0], seen[1][0], strict=True)):
        assert one == other, f"{seed}, step {step}\n{text}"
    assert seen[0][1] == seen[1][1], f"{seed}, memory\n{text}"
    return len(seen[0][0][-1])


def run(rig: Rig, hart: Hart, end: int, turns: tuple[int, ...], starts: dict[str, int]) -> Outcome:
    """Run a program to its end, or to a trap."""
    outcome = rig.run(end, turns[0], hart=hart, **starts)
    for length in islice(cycle(turns[1:] + turns[:1]), 10_000):
        if outcome.pc == end or outcome.ending == "trap":
            break
        outcome = rig.outcome(hart, rig.engine.run(hart, length))
    return outcome
