"""Random programs of harts that share memory, as assembly text: accesses of all kinds and what brings them into order.

All that is gone through up to three times. a0 is the number of the instance, a1 the array; the array's end has what
each instance has loaded.
"""

from __future__ import annotations

from typing import Final

from tests.agree.hart_programs import HartMaker

WORDS: Final = 256
"""Dwords of the array."""
FENCES: Final = ("fence rw, rw", "fence rw, rw", "fence r, rw", "fence rw, w", "fence w, w", "fence r, r", "fence.tso")
SIZES: Final = {"b": 0, "h": 1, "w": 2, "d": 3}
AMOS: Final = ("amoadd", "amoswap", "amoor", "amomaxu")
ORDERS: Final = ("", "", ".aq", ".rl", ".aqrl")
DMA: Final = 0x2000_2000


class Maker(HartMaker):
    """Writes one program."""

    def text(self) -> str:
        """The program: a kernel called `kernel`."""
        self._begin(self.random.choice((1, 2, 3, 6)))
        if self._chance(0.4):
            self.random.choice((self._handed_on, self._by_turns))()
        self._rounds(3, 14, self._step)
        return self._kernel()

    def _step(self) -> None:
        if self._chance(0.15):
            self._barrier()
        elif self._chance(0.12):
            self._watched()
        elif self._chance(0.35):
            self._by_some(self._action)
        elif self._chance(0.4):
            self._loop()
        elif self._chance(0.4):
            self._walk()
        else:
            self._action()

    def _loop(self) -> None:
        """The same places again and again: what is known of them is looked at in line."""
        label = self._fresh()
        self._put(f"li t5, {self.random.choice((2, 3, 4))}", f"{label}:")
        for _ in range(self.random.randrange(1, 5)):
            self.random.choice((self._access, self._access, self._action))()
        self._put("addi t5, t5, -1", f"bnez t5, {label}")

    def _action(self) -> None:
        what = self.random.random()
        if what < 0.55:
            self._access()
        elif what < 0.68:
            self._put(self.random.choice(FENCES))
        elif what < 0.78:
            self._atomic()
        elif what < 0.86:
            self._poll()
        elif what < 0.95:
            self._vector()
        else:
            self._transfer()

    def _walk(self) -> None:
        """Through memory by a fixed step: what is looked at before the loop is not looked at in it, the next time."""
        label, again = self._labels(2)
        sizes = self.random.choice(("b", "b", "h", "w", "w", "d", "bh", "bw", "bhwd"))
        largest = max(SIZES[size] for size in sizes)
        steps = [self.random.choice((0, 1, 1, 1, 2)) << largest for _ in range(2)]
        if len(sizes) == 1 or self._chance(0.3):
            steps[1] = steps[0]
        self._put(
            f"li t0, {self.random.choice((1, 2, 2, 3))}",
            f"{again}:",
            f"li t5, {self.random.randrange(3, self.random.choice((20, 60)))}",
        )
        for register in ("t3", "t4"):
            self._put(f"slli {register}, s3, {self.random.choice((3, 4, 6))}", f"add {register}, {register}, a1")
            self._put(f"addi {register}, {register}, {8 * self.random.randrange(16)}")
        self._perhaps_undefined("t3", "t4")
        self._put(f"{label}:")
        for _ in range(self.random.randrange(1, 5)):
            size, register = self.random.choice(sizes), self.random.choice(("t3", "t4"))
            offset = self.random.choice((0, 0, 1, 2)) << largest
            if self._chance(0.6):
                self._put(f"l{size} t2, {offset}({register})", "add t6, t6, t2")
            else:
                self._put(f"s{size} t5, {offset}({register})")
        self._put(f"addi t3, t3, {steps[0]}", f"addi t4, t4, {steps[1]}", "addi t5, t5, -1", f"bnez t5, {label}")
        self._put("addi t0, t0, -1", f"bnez t0, {again}")

    def _barrier(self) -> None:
        self._put("li a7, 2", "li a0, 0", "ecall")

    def _address(self, align: int) -> None:
        """t1: an aligned address in the first part of the array."""
        number, shift = self.random.randrange(16), self.random.choice((align, 2, 3))
        self._put(
            *self.random.choice((
                (f"li t1, {number * 4}",),
                (f"li t1, {number * 4}",),
                (f"slli t1, s3, {shift}",),
                (f"xori t1, s3, {number & 3}", f"slli t1, t1, {shift}"),
                ("andi t1, s3, 1", f"slli t1, t1, {shift}"),
                (f"slli t1, s0, {shift}", f"addi t1, t1, {number}"),
                ("li t1, 64",),
            ))
        )  # fmt: skip
        self._put(f"andi t1, t1, {-1 << align}", "add t1, t1, a1")
        self._perhaps_undefined("t1")

    def _access(self) -> None:
        size = self.random.choice("bhwwwwd")
        self._address(SIZES[size])
        if self._chance(0.5):
            self._put(f"l{size} t2, 0(t1)", "add t6, t6, t2")
        else:
            self._put(f"li t2, {self.random.choice((0, 0, 1, 7))}")
            if self._chance(0.3):
                self._put("add t2, t2, s0")
            self._perhaps_undefined("t2")
            self._put(f"s{size} t2, 0(t1)")
        if self._chance(0.3):  # a pair on one place
            self._put(f"l{size} t2, 0(t1)", "addi t2, t2, 1", f"s{size} t2, 0(t1)")

    def _atomic(self) -> None:
        size = self.random.choice("wwd")
        self._address(SIZES[size])
        order = self.random.choice(ORDERS)
        if self._chance(0.6):
            self._put("li t2, 1")
            self._perhaps_undefined("t2")
            self._put(f"{self.random.choice(AMOS)}.{size}{order} t2, t2, (t1)", "add t6, t6, t2")
        else:
            self._put(f"lr.{size}{order} t2, (t1)", "addi t2, t2, 1", f"sc.{size}{order} t3, t2, (t1)")

    def _poll(self) -> None:
        """Wait a while for a word to be other than 0; or store one behind a fence."""
        if self._chance(0.5):
            self._put("li t2, 1")
            self._perhaps_undefined("t2")
            self._put("fence rw, w", f"sw t2, {4 * self.random.choice((16, 20))}(a1)")
            return
        label, on, count = self._fresh(), self._fresh(), self.random.choice((2, 10))
        offset = 4 * self.random.choice((16, 20))
        if self._chance(0.15):  # one that engines know for polling
            self._put(f"beqz s3, {on}", f"{label}:", f"lw t2, {offset}(a1)", f"beqz t2, {label}", f"{on}:")
        else:
            self._put(f"li t4, {count}", f"{label}:", f"lw t2, {offset}(a1)", f"bnez t2, {on}", "addi t4, t4, -1")
            self._put(f"bnez t4, {label}", f"{on}:")
        if self._chance(0.7):
            self._put("fence r, rw")

    def _watched(self) -> None:
        """Some harts look at a word again and again, now and then with a fence behind that; others store there."""
        word, other, (loop, on, out) = self.random.choice((64, 80)), self.random.randrange(16), self._labels(3)
        self._put(f"li t0, {self.random.choice((1, 2, 3))}", f"bltu s3, t0, {on}")
        for _ in range(self.random.randrange(1, 3)):
            self._release()
            self._put(self.random.choice((f"sw s0, {word}(a1)", f"addi t1, a1, {word}\namoadd.w t2, s0, (t1)")))
        self._put(f"j {out}", f"{on}:", f"li t5, {self.random.choice((4, 5, 7))}", f"{loop}:", f"lw t2, {word}(a1)")
        skip = self._fresh()
        self._put(f"li t0, {self.random.randrange(1, 6)}", f"bne t5, t0, {skip}", self._acquire(), f"{skip}:")
        if self._chance(0.8):
            self._put(f"lw t2, {4 * other}(a1)")
        else:
            self._access()
        self._put("addi t5, t5, -1", f"bnez t5, {loop}", f"{out}:")

    def _handed_on(self) -> None:
        """What one hart has stored comes to another by a third one's atomic, which has not seen it itself.

        The last one knows that atomic already, by a flag, when it reads what that has left, where it has looked before.
        """
        again, loop, poll, last, first, other, out = self._labels(7)
        word, flag, place = self.random.choice((96, 100)), 104, 4 * self.random.randrange(8)
        acquire, release = self._mostly("fence r, rw", *FENCES), self._mostly("fence rw, w", *FENCES)
        self._put("li t0, 2", f"bgtu s3, t0, {out}", f"beq s3, t0, {other}", "li t5, 2", f"bnez s3, {first}")
        self._put(f"{again}:", "li t4, 4", f"{loop}:", f"lw t2, {word}(a1)", "addi t4, t4, -1", f"bnez t4, {loop}")
        self._put(self._mostly("lw t2, 128(a1)", "nop"), acquire, "addi t5, t5, -1", f"beqz t5, {last}")
        self._put(f"{poll}:", f"lw t2, {flag}(a1)", f"beqz t2, {poll}", acquire, f"j {again}")
        self._put(f"{last}:", f"lw t2, {place}(a1)", "add t6, t6, t2", f"j {out}")
        self._put(f"{first}:", f"sw s0, {place}(a1)", f"addi t1, a1, {word}")
        self._put(f"amoadd.w{self._mostly('.rl', *ORDERS)} t2, s0, (t1)", f"j {out}", f"{other}:")
        self._put(f"addi t1, a1, {word}", f"amoadd.w{self._mostly('', *ORDERS)} t2, s0, (t1)", release)
        self._put(f"sw s0, {flag}(a1)", f"{out}:")

    def _mostly(self, usual: str, *others: str) -> str:
        return self.random.choice(others) if self._chance(0.1) else usual

    def _by_turns(self) -> None:
        """One hart walks over parts of dwords, again there or elsewhere; others go there in between or afterwards."""
        again, loop, poll, others, out = self._labels(5)
        size, place, flag = self.random.choice("bbh"), 4 * self.random.randrange(4), 104
        parts, on = [part << SIZES[size] for part in range(16 >> SIZES[size])], self.random.choice((0, 0, 16))
        self._put("li t0, 2", f"bgtu s3, t0, {out}", f"addi t3, a1, {place + on}", f"bnez s3, {others}")
        self._put(f"addi t3, a1, {place}", "li t4, 2", f"{again}:", "li t5, 12", f"{loop}:")
        step = self.random.choice((0, 1)) << SIZES[size]
        for _ in range(self.random.choice((1, 1, 2, 3))):
            access = self.random.choice((f"l{size} t2,", f"s{size} t5,"))
            self._put(f"{access} {self.random.choice(parts[:2])}(t3)")
        self._put(f"addi t3, t3, {step}", "addi t5, t5, -1", f"bnez t5, {loop}", f"addi t3, t3, {on - 12 * step}")
        self._put("addi t4, t4, -1", f"beqz t4, {out}")
        if self._chance(0.6):
            self._put(f"{poll}:", f"lw t2, {flag}(a1)", f"beqz t2, {poll}", self._mostly("nop", *FENCES))
        self._put(f"j {again}", f"{others}:")
        for _ in range(self.random.randrange(2, 6)):
            access = self.random.choice((f"l{size} t2,", f"s{size} s0,", f"s{size} s0,"))
            self._put(f"{access} {self.random.choice(parts)}(t3)")
        self._put(f"sw s0, {flag}(a1)", f"{out}:")

    def _labels(self, count: int) -> list[str]:
        return [self._fresh() for _ in range(count)]

    def _release(self) -> None:
        if self._chance(0.9):
            self._put(self.random.choice(("fence rw, w", "fence rw, w", "fence rw, rw", "fence.tso")))

    def _acquire(self) -> str:
        return self.random.choice(("fence r, rw", "fence r, rw", "fence r, r", "fence rw, rw", "nop"))

    def _vector(self) -> None:
        sew = self.random.choice((8, 16, 32, 32, 64))
        align = sew.bit_length() - 4
        self._address(align)
        count = self.random.choice((1, 3, 4, 5, 8))
        self._put(f"li t0, {count}", f"vsetvli t0, t0, e{sew}, m{self.random.choice((1, 2))}, ta, ma", "vid.v v4")
        mask = ""
        if self._chance(0.3):
            self._put("vmv.v.i v8, 1", "vand.vv v8, v8, v4", "vmsne.vi v0, v8, 0")
            mask = ", v0.t"
        loads = self._chance(0.5)
        kind = self.random.choice(("unit", "unit", "unit", "strided", "segments", "strided segments"))
        name = "l" if loads else "s"
        if kind == "unit":
            self._put(f"v{name}e{sew}.v v4, (t1){mask}")
        elif kind == "strided":
            self._put(f"li t3, {self.random.choice((0, 1, 2)) * sew // 8}", f"v{name}se{sew}.v v4, (t1), t3{mask}")
        elif kind == "segments":
            self._put("vid.v v6", f"v{name}seg2e{sew}.v v4, (t1){mask}")
        else:
            self._put("vid.v v6", f"li t3, {self.random.choice((1, 2, 3)) * sew // 8}")
            self._put(f"v{name}sseg2e{sew}.v v4, (t1), t3{mask}")
        if loads and not mask:
            self._put("vmv.x.s t2, v4", "add t6, t6, t2")

    def _transfer(self) -> None:
        """A hart moves some bytes, and perhaps waits for that; each waits in the end."""
        source, target = (4 * self.random.randrange(32) for _ in range(2))
        self._put(f"li t0, {DMA}", f"addi t1, a1, {source}")
        self._perhaps_undefined("t0")
        self._put("sd t1, 24(t0)", f"addi t1, a1, {target + 128}")
        self._put("sd t1, 32(t0)", f"li t1, {4 * self.random.randrange(1, 6)}", "sd t1, 40(t0)")
        self._put("li t1, 17", "sd t1, 0(t0)")
        if self._chance(0.5):
            self._access()
        if self._chance(0.8):
            self._put(f"li t0, {DMA}", "ld t1, 8(t0)", "sd t1, 16(t0)")
