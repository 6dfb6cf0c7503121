"""Litmus tests of RVWMO: what harts see of each other is among the outcomes that the ISA manual allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from softcard.host.refsi.refsi import RefSi, demo_kernels
from softcard.isa.riscv.decode import assemble
from softcard.isa.riscv.format import REGISTERS
from softcard.isa.riscv.state import RETURN_ADDRESS
from tests.engine.riscv.rig import CODE, DATA, ENGINES, Rig
from tests.engine.riscv.rvwmo import PLACES, Outcome, outcomes

READ_BOTH = "lw a4, 0(s2); {0}; lw a5, 0(s3)", "lw a4, 0(s3); {0}; lw a5, 0(s2)"
LITMUS = {
    "MP": ("sw s5, 0(s2); sw s5, 0(s3)", "lw a4, 0(s3); lw a5, 0(s2)"),
    "MP+fences": ("sw s5, 0(s2); fence w, w; sw s5, 0(s3)", "lw a4, 0(s3); fence r, r; lw a5, 0(s2)"),
    "MP+fence+addr": (
        "sw s5, 0(s2); fence w, w; sw s5, 0(s3)",
        "lw a4, 0(s3); xor t0, a4, a4; add t1, t0, s2; lw a5, 0(t1)",
    ),
    "MP+fence+ctrl": ("sw s5, 0(s2); fence w, w; sw s5, 0(s3)", "lw a4, 0(s3); beq a4, zero, .+4; lw a5, 0(s2)"),
    "MP+amos": (
        "sw s5, 0(s2); amoswap.w.rl a4, s5, (s3)",
        "amoadd.w.aq a4, zero, (s3); lw a5, 0(s2)",
    ),
    "SB": ("sw s5, 0(s2); lw a4, 0(s3)", "sw s5, 0(s3); lw a4, 0(s2)"),
    "SB+fences": ("sw s5, 0(s2); fence rw, rw; lw a4, 0(s3)", "sw s5, 0(s3); fence rw, rw; lw a4, 0(s2)"),
    "SB+amos": (
        "amoswap.w.aqrl a4, s5, (s2); lw a5, 0(s3)",
        "amoswap.w.aqrl a4, s5, (s3); lw a5, 0(s2)",
    ),
    "SB+forwarded": (
        "sw s5, 0(s2); lw a4, 0(s2); lw a5, 0(s3)",
        "sw s5, 0(s3); lw a4, 0(s3); lw a5, 0(s2)",
    ),
    "LB": ("lw a4, 0(s2); sw s5, 0(s3)", "lw a4, 0(s3); sw s5, 0(s2)"),
    "LB+ctrls": ("lw a4, 0(s2); beq a4, zero, .+4; sw s5, 0(s3)", "lw a4, 0(s3); beq a4, zero, .+4; sw s5, 0(s2)"),
    "LB+datas": ("lw a4, 0(s2); sw a4, 0(s3)", "lw a4, 0(s3); sw a4, 0(s2)"),
    "IRIW": ("sw s5, 0(s2)", "sw s5, 0(s3)", "lw a4, 0(s2); lw a5, 0(s3)", "lw a4, 0(s3); lw a5, 0(s2)"),
    "IRIW+fences": ("sw s5, 0(s2)", "sw s5, 0(s3)", *(text.format("fence r, r") for text in READ_BOTH)),
    "WRC": ("sw s5, 0(s2)", "lw a4, 0(s2); fence; sw s5, 0(s3)", "lw a4, 0(s3); fence; lw a5, 0(s2)"),
    "CoRR": ("sw s5, 0(s2); sw s6, 0(s2)", "lw a4, 0(s2); lw a5, 0(s2)"),
    "2+2W": (
        "sw s5, 0(s2); fence w, w; sw s6, 0(s3); fence; lw a4, 0(s2)",
        "sw s5, 0(s3); fence w, w; sw s6, 0(s2); fence; lw a4, 0(s3)",
    ),
    "AMO": ("amoadd.w a4, s5, (s2); lw a5, 0(s2)", "amoadd.w a4, s5, (s2); lw a5, 0(s2)"),
    "AMO+store": ("amoadd.w a4, s5, (s2)", "sw s6, 0(s2); lw a5, 0(s2)"),
    "LRSC": ("lr.w a4, (s2); sc.w a5, s5, (s2)", "lr.w a4, (s2); sc.w a5, s6, (s2); lw a6, 0(s2)"),
    "LRSC+store": ("lr.w a4, (s2); sc.w a5, s5, (s2); lw a6, 0(s2)", "sw s6, 0(s2)"),
    "LRSC+ABA": (
        "lr.w a4, (s2); fence; sw s5, 0(s3); lw a5, 0(s4); fence; sc.w a6, s6, (s2)",
        "lw a4, 0(s3); fence; sw s5, 0(s2); sw zero, 0(s2); fence; sw s5, 0(s4)",
    ),
}
"""Programs of two to four harts, by their usual names."""
FORBIDDEN = {
    "MP+fences": (1, 0),
    "MP+fence+addr": (1, 0),
    "MP+amos": (0, 1, 0),
    "SB+fences": (0, 0),
    "SB+amos": (0, 0, 0, 0),
    "LB+ctrls": (1, 1),
    "LB+datas": (1, 1),
    "IRIW+fences": (1, 0, 1, 0),
    "WRC": (1, 1, 0),
    "CoRR": (2, 1),
    "AMO": (0, 1, 0, 1),
    "LRSC": (0, 0, 0, 0, 2),
    "LRSC+ABA": (0, 1, 0, 1),
}
"""One outcome of each that the ISA manual forbids."""
WEAK = {
    "MP": (1, 0),
    "MP+fence+ctrl": (1, 0),
    "SB": (0, 0),
    "SB+forwarded": (1, 0, 1, 0),
    "LB": (1, 1),
    "IRIW": (1, 0, 1, 0),
}
"""One outcome of each that the ISA manual allows, and that no turns give."""
RESULTS = ("a4", "a5", "a6")


def test_the_model_forbids_and_allows_what_the_manual_does() -> None:
    for name, outcome in FORBIDDEN.items():
        assert outcome not in outcomes(LITMUS[name]), name
    for name, outcome in WEAK.items():
        assert outcome in outcomes(LITMUS[name]) - outcomes(LITMUS[name], sequential=True), name


def _results(text: str) -> list[str]:
    """Registers with the results of a hart."""
    lines = [line.replace(",", " ").split() for line in text.split(";")]
    return [words[1] for words in lines if words[0][:2] in ("lw", "lr", "sc", "am")]


def _number(register: str) -> int:
    return REGISTERS.index(register)


def _turns(left: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """All ways in which harts with so many instructions `left` can take turns: (hart, instructions) after another."""
    if not any(left):
        yield []
    for hart, count in enumerate(left):
        for length in range(1, count + 1):
            rest = [*left[:hart], count - length, *left[hart + 1 :]]
            for turns in _turns(rest):
                if not turns or turns[0][0] != hart:
                    yield [(hart, length), *turns]


@pytest.mark.parametrize("engine", ["reference", "quick"])
def test_turns_of_every_length(engine: str) -> None:
    """Everything that taking turns can give comes of them, and nothing else; a reservation lasts for a turn."""
    rig = Rig(ENGINES[engine]())
    rig.warm()
    harts = [rig.new_hart(number) for number in range(4)]
    for name, program in LITMUS.items():
        at = [CODE + 0x100 * (number + 1) for number in range(len(program))]
        ends = [rig.place(text, start) for text, start in zip(program, at, strict=True)]
        counts = [text.count(";") + 1 for text in program]
        seen: set[Outcome] = set()
        for turns in _turns(counts):
            rig.data.view[:24] = bytes(24)
            for hart, start, end in zip(harts, at, ends, strict=False):
                _start(hart.words, [DATA, DATA + 8, DATA + 16])
                hart.pc, hart.words[RETURN_ADDRESS] = start, end
            for hart_number, length in turns:
                rig.engine.run(harts[hart_number], length)
            seen.add(
                tuple(
                    hart.x(_number(each)) for hart, text in zip(harts, program, strict=False) for each in _results(text)
                )
            )
        if "LRSC" in name:
            assert seen <= outcomes(program), name
        else:
            assert seen == outcomes(program, sequential=True), name


def _start(words: memoryview, places: list[int]) -> None:
    words[_number("s5")], words[_number("s6")] = 1, 2
    for register, place in zip(PLACES, places, strict=True):
        words[_number(register)] = place


ROUNDS = 20_000
STRIDE = 64
KERNEL = """
    lui t6, {work}
    busy: addi t6, t6, -1
    bne t6, zero, busy
    addi s5, zero, 1
    addi s6, zero, 2
    slli t5, a0, 4
    add a2, a2, t5
    round: addi s2, a1, 0
    addi s3, a1, 8
    addi s4, a1, 16
    {text}
    {save}
    addi a1, a1, 64
    addi a2, a2, 64
    addi a3, a3, -1
    bne a3, zero, round
    jalr zero, 0(ra)
"""


@pytest.mark.parametrize(("profile", "threads"), [("spec", 4), ("spec", 1), ("refsidrv", 1)])
def test_harts_of_a_device(profile: str, threads: int) -> None:
    """Round after round at new addresses, on threads after much work of their own."""
    with RefSi.open(profile=profile, threads=threads) as device:
        program = device.load_elf(demo_kernels())
        for name, texts in LITMUS.items():
            words = [_kernel(text, 0x80 if threads > 1 else 0x1) for text in texts]
            code, table = b"", b""
            for number, each in enumerate(words):
                table += assemble(
                    f"addi t0, zero, {number}; beq a0, t0, .+{12 * (len(words) - number) - 4 + len(code)}"
                )
                table += assemble("addi zero, zero, 0")
                code += each
            place = device.array(np.frombuffer(table + code, np.uint32))
            data, found = device.zeros(ROUNDS * STRIDE, np.uint8), device.zeros((ROUNDS, 4, 4), np.int32)
            kernel = type(program.kernel("vector_add"))(name, place.address, program)
            device.launch(kernel, len(texts), [data, found, ROUNDS])
            shown = [found.array[:, hart, : len(_results(text))] for hart, text in enumerate(texts)]
            rows = np.unique(np.concatenate(shown, axis=1), axis=0)
            seen = {tuple(int(value) for value in row) for row in rows}
            assert seen <= outcomes(texts), name


def _kernel(text: str, work: int) -> bytes:
    save = "\n".join(f"sw {register}, {4 * number}(a2)" for number, register in enumerate(_results(text)))
    return assemble(KERNEL.format(text=text, save=save, work=work))
