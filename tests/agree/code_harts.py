"""Random programs of harts that store code, with and without FENCE.I, as assembly text.

a0 is the number of the instance, a1 the array. Functions of a few instructions that add to t6 lie in the program and,
copied there, in the array; instructions of them are stored by accesses of all kinds.
"""

from __future__ import annotations

from random import Random
from typing import Final

from tests.agree.hart_programs import OWN, HartMaker

WORDS: Final = 4096
"""Dwords of the array."""
CODE: Final = 4096
"""Offset of the functions there, one page of them and a bit of the next."""
FUNCTIONS: Final = 3
SPACING: Final = 28
LENGTH: Final = 5
"""Instructions of a function, with its return."""


class Maker(HartMaker):
    """Writes one program."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._chosen: tuple[int, str] | None = None
        """The function that is stored to."""

    def text(self) -> str:
        """The program: a kernel called `kernel`."""
        self._begin(self.random.choice((1, 2, 2, 3)))
        self._put("la s4, functions", f"li s5, {CODE + self.random.choice((0, 4000, 4094))}", "add s5, s5, a1")
        if self._chance(0.8):
            self._copy()
        self._rounds(3, 12, self._step)
        return "\n".join([self._kernel(), *self._functions(), *self._templates()])

    def _functions(self) -> list[str]:
        out = [".p2align 2", ".option norvc", *([".half 1"] if self._chance(0.3) else []), "functions:"]
        for _ in range(FUNCTIONS):
            for _ in range(LENGTH - 1):
                out.append(self.random.choice(("addi t6, t6, 3", "xori t6, t6, 21", ".half 0x0f85, 0x0f89")))
            out += ["ret"]
            out += [".half 1"] * ((SPACING - 4 * LENGTH) // 2)
        return out

    def _templates(self) -> list[str]:
        return [".p2align 3", "templates:", "addi t6, t6, 100", "xori t6, t6, 77", ".half 0x0f8d, 0x0f91"]

    def _step(self) -> None:
        if self._chance(0.1):
            self._put("li a7, 2", "li a0, 0", "ecall")
        elif self._chance(0.35):
            self._by_some(self._action)
        elif self._chance(0.4):
            label = self._fresh()
            self._put(f"li s6, {self.random.choice((2, 2, 3, 9))}", f"{label}:")
            for _ in range(self.random.randrange(1, 5)):
                self._action()
            self._put("addi s6, s6, -1", f"bnez s6, {label}")
        else:
            self._action()

    def _action(self) -> None:
        what = self.random.random()
        if what < 0.35:
            self._burst()
        elif what < 0.5:
            self._call()
        elif what < 0.7:
            self._store()
        elif what < 0.8:
            self._put("fence.i")
        elif what < 0.85:
            self._put(self.random.choice(("fence rw, rw", "sd s1, 0(a1)", "sb s1, 9(a1)")))
        elif what < 0.95:
            self._vector()
        else:
            self._copy()

    def _burst(self) -> None:
        """Several stores into one function before anything there is executed: translated code notes them in line."""
        self._chosen = self.random.randrange(FUNCTIONS), self.random.choice(("s4", "s5", "s5"))
        for _ in range(self.random.randrange(2, 6)):
            self.random.choice((self._store, self._store, self._store, self._vector))()
            if self._chance(0.15):
                self._put("fence.i")
        self._call()
        self._chosen = None

    def _function(self) -> None:
        """t1: the address of a function, of the program's or of the array's."""
        number, base = self._chosen or (self.random.randrange(FUNCTIONS), self.random.choice(("s4", "s5")))
        if self._chance(0.3) and not self._chosen:
            self._put("andi t1, s3, 1", f"li t0, {SPACING}", "mul t1, t1, t0", f"add t1, t1, {base}")
        else:
            self._put(f"addi t1, {base}, {number * SPACING}")

    def _call(self) -> None:
        self._function()
        # where nothing has been copied to is a zero, which is no instruction
        label = self._fresh()
        self._put("lhu t0, 0(t1)", f"beqz t0, {label}", "jalr t1", f"{label}:")

    def _instruction(self, align: int = 4) -> None:
        """t1: the address of an instruction of a function, not its last, if that is aligned so; else some place."""
        self._function()
        self._put(f"addi t1, t1, {4 * self.random.randrange(LENGTH - 1)}")
        if align > 2:  # functions may begin at any parcel
            self._put(f"andi t0, t1, {align - 1}", "sub t2, t1, t0", "snez t0, t0")
            self._put("neg t0, t0", f"addi t3, a1, {OWN + 512}", "xor t2, t1, t3", "and t2, t2, t0", "xor t1, t1, t2")
        self._perhaps_undefined("t1")

    def _template(self, size: str) -> None:
        """t2: an instruction, or two."""
        self._put("la t2, templates", f"l{size} t2, {self.random.choice((0, 4, 8) if size == 'w' else (0,))}(t2)")
        self._perhaps_undefined("t2")

    def _store(self) -> None:
        how = self.random.choice(("b", "h", "w", "w", "w", "d", "amo", "sc", "late sc"))
        if how == "b":  # the upper bits of an immediate
            self._instruction(2)
            self._put("li t2, 9", self._guarded("sb t2, 3(t3)"))
        elif how == "h":
            self._instruction(2)
            self._put("li t2, 0x12f")
            self._put(self._guarded("sh t2, 2(t3)"))
        elif how == "w":
            self._instruction()
            self._template("w")
            self._put("sw t2, 0(t1)")
        elif how == "d":
            self._instruction(8)
            self._template("d")
            self._put(f"sub t3, t1, {self.random.choice(('s4', 's5'))}")
            self._put(f"li t0, {SPACING}", "remu t3, t3, t0", f"li t0, {4 * (LENGTH - 2)}")
            label = self._fresh()
            self._put(f"bgeu t3, t0, {label}", "sd t2, 0(t1)", f"{label}:")  # not over the return
        elif how == "amo":
            self._instruction()
            self._template("w")
            self._put("amoswap.w t2, t2, (t1)")
        else:
            self._instruction()
            self._template("w")
            self._put("lr.w t3, (t1)")
            if how == "late sc":
                self._put("sw t2, 0(t1)" if self._chance(0.5) else "lr.w t3, (a1)")
            self._put("sc.w t3, t2, (t1)")

    def _guarded(self, line: str) -> str:
        """A store into an instruction of four bytes at t1 that has an immediate, by t3; else into no code."""
        label = self._fresh()
        is_other = "mv t3, t1", "lbu t0, 0(t1)", "andi t0, t0, 127", "addi t0, t0, -19", f"beqz t0, {label}"
        return "\n".join((*is_other, "mv t3, a1", f"{label}:", line))

    def _vector(self) -> None:
        """Several instructions at once."""
        self._instruction()
        self._template("w")
        sew, count = self.random.choice(((32, 1), (32, 1), (16, 2), (8, 4)))
        self._put(f"li t0, {count}", f"vsetvli t0, t0, e{sew}, m1, ta, ma", "la t3, templates", f"vle{sew}.v v4, (t3)")
        kind = self.random.choice(("unit", "unit", "strided", "masked"))
        if kind == "strided":
            self._put(f"li t3, {sew // 8}", f"vsse{sew}.v v4, (t1), t3")
        elif kind == "masked":
            self._put("vmset.m v0", f"vse{sew}.v v4, (t1), v0.t")
        else:
            self._put(f"vse{sew}.v v4, (t1)")

    def _copy(self) -> None:
        """Functions into the array, by a walk."""
        label, size = self._fresh(), self.random.choice("hhw")
        step = 2 if size == "h" else 4
        if size == "w":
            on = self._fresh()
            self._put("andi t0, s5, 3", "andi t1, s4, 3", "or t0, t0, t1", f"bnez t0, {on}")
        self._put(f"li t5, {FUNCTIONS * SPACING // step}", "mv t3, s4", "mv t4, s5", f"{label}:")
        self._put(f"l{size} t2, 0(t3)", f"s{size} t2, 0(t4)", f"addi t3, t3, {step}", f"addi t4, t4, {step}")
        self._put("addi t5, t5, -1", f"bnez t5, {label}")
        if size == "w":
            self._put(f"{on}:")
