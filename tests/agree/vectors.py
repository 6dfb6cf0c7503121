"""Instructions of the vector extension against qemu-riscv64: ``python -m tests.agree.vectors --cases 2000 --vlen 512``.

A case is a state and a few instructions. One static program carries many cases through QEMU: it loads the state from
the case's slot, runs the instructions, and stores the state to the slot; a handler counts instructions that end in a
signal, and goes on behind them. Memory is shared by all cases and compared when they are over.
"""

from __future__ import annotations

import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from softcard.core.space import AddressSpace, Ram
from softcard.engine.riscv.api import LOAD_MISALIGNED, STORE_MISALIGNED, Engine, Why
from softcard.isa.riscv import csr
from softcard.isa.riscv.assembler import assemble, text
from softcard.isa.riscv.csrnames import VCSR
from softcard.isa.riscv.decode import decode, encode
from softcard.isa.riscv.state import FFLAGS, FRM, RETURN_ADDRESS, VL, VSTART, VTYPE, F, Hart
from softcard.isa.riscv.table import VECTOR
from softcard.isa.riscv.vector.vtype import parse
from tests.agree.bench import UNKNOWN_ORIGIN, FlatPort
from tests.agree.fuzz import ENGINES
from tests.agree.qemu import QEMU, _elf
from tests.agree.values import integer, pattern

MEMORY, MEMORY_BYTES = 0x0800_0000, 0x4000
CODE, DATA = 0x0100_0000, 0x1000_0000
FLAGS = 0x0900_0000
"""Where QEMU's handler counts."""
X, FL, CSRS, V = 0, 256, 512, 576
"""Offsets in a slot: x0 to x31, f0 to f31, (vstart, vl, vtype, vcsr, fcsr, traps), v0 to v31."""
MARGIN = 1 << 24
"""An access as far from the memory may hit something else in QEMU: such cases are not used."""
OUTPUTS = (5, 6, 7, 8, 9, 10)
POINTERS = (16, 17, 18, 19)
STEPS = (20, 21, 22, 23)
VALUES = (11, 12, 13, 14, 15)
LENGTH = 24
VSTART_COPY = 29
NAMES = tuple(row.name for row in VECTOR)
PLAIN = tuple(name for name in NAMES if "seg" not in name)
SEGMENTS = tuple(name for name in NAMES if "seg" in name)
ACCESSES = tuple(name for name in NAMES if VECTOR[name].pattern.match & 0x7F in (0x07, 0x27))
WHOLE = tuple(name for name in ACCESSES if re.match(r"v[ls][1248]r", name))
"""Of these QEMU 7.2 keeps a vstart that lies behind their last element."""
ARITHMETIC = tuple(name for name in PLAIN if name not in ACCESSES and ".rtz." not in name)
"""Without what ends QEMU 7.2 with a failed assertion."""


@dataclass
class State:
    """What a case reads or changes, beside memory."""

    x: list[int]
    f: list[int]
    vstart: int
    vl: int
    vtype: int
    vcsr: int
    fcsr: int
    vectors: bytes
    traps: int = 0

    def packed(self) -> bytes:
        """As it stands in a slot."""
        csrs = struct.pack("<6Q", self.vstart, self.vl, self.vtype, self.vcsr, self.fcsr, self.traps)
        registers = struct.pack("<64Q", *self.x, *self.f)
        return registers + csrs.ljust(V - CSRS, b"\0") + self.vectors

    @classmethod
    def unpacked(cls, slot: bytes, vlen: int) -> State:
        """Of a slot."""
        registers = struct.unpack_from("<64Q", slot, X)
        vstart, vl, vtype, vcsr, fcsr, traps = struct.unpack_from("<6Q", slot, CSRS)
        vectors = slot[V : V + 4 * vlen]
        return cls(list(registers[:32]), list(registers[32:]), vstart, vl, vtype, vcsr, fcsr, vectors, traps)


@dataclass
class Case:
    """Instructions and the state before them."""

    words: list[int]
    before: State
    vlen: int
    after: State | None = None
    notes: list[str] = field(default_factory=list)

    def listing(self) -> str:
        """The instructions as text."""
        return "; ".join(text(decode(word)) for word in self.words)


def slot_bytes(vlen: int) -> int:
    """Of one case."""
    return V + 4 * vlen


# ---- cases ---------------------------------------------------------------------------------------------------------


def vtype_bits(random: Random, vlen: int) -> int:
    """Mostly what is legal."""
    while True:
        bits = random.randrange(8) | random.randrange(4) << 3 | random.randrange(4) << 6
        if parse(bits, vlen) is not None or random.random() < 0.02:
            return bits


def vectors(random: Random, vlen: int) -> bytes:
    """Registers of numbers of all kinds; some are small and multiples of 8, to be indexes."""
    out = bytearray()
    for _ in range(32):
        kind, words = random.randrange(6), []
        for _ in range(vlen // 64):
            if kind == 0:
                words.append(random.getrandbits(64))
            elif kind == 1:
                words.append(pattern(random, "s") | pattern(random, "s") << 32)
            elif kind == 2:
                words.append(pattern(random, "d"))
            elif kind == 3:
                w = random.choice((8, 16, 32, 64))
                words.append(sum((random.randrange(0, 1024 if w > 8 else 256, 8)) << k for k in range(0, 64, w)))
            elif kind == 4:
                w = random.choice((8, 16, 32, 64))
                words.append(sum((integer(random) & (1 << w) - 1) << k for k in range(0, 64, w)))
            else:
                w = random.choice((8, 16, 32))
                words.append(sum(random.randrange(0, 40) << k for k in range(0, 64, w)))
        out += struct.pack(f"<{len(words)}Q", *words)
    return bytes(out)


def pointer(random: Random) -> int:
    """Somewhere in the memory, now and then near its ends."""
    if random.random() < 0.15:
        return MEMORY + MEMORY_BYTES - random.randrange(0, 128, 8)
    if random.random() < 0.05:
        return MEMORY - random.randrange(8, 64, 8)
    return MEMORY + random.randrange(0, MEMORY_BYTES, 8)


def state(random: Random, vlen: int) -> State:
    """Before the instructions."""
    x, f = [0] * 32, []
    for n in (*OUTPUTS, *VALUES):
        x[n] = integer(random) if random.random() < 0.7 else random.randrange(0, 80)
    for n in POINTERS:
        x[n] = pointer(random)
    for n in STEPS:
        x[n] = random.choice((0, 8, 16, 24, 40, 64, -8, -16, 128, 512)) & (1 << 64) - 1
    for _ in range(32):
        if random.random() < 0.5:
            f.append(pattern(random, "s") | 0xFFFF_FFFF << 32)
        else:
            f.append(pattern(random, "d"))
    bits = vtype_bits(random, vlen)
    found = parse(bits, vlen)
    vlmax = found.vlmax if found else 0
    vl = random.choice((vlmax, vlmax, random.randrange(vlmax + 1), random.randrange(vlmax + 1), min(1, vlmax), 0))
    fcsr = random.randrange(32) | random.choice((0, 0, 0, 1, 2, 3, 4)) << 5
    if found is None:
        vl, bits = 0, 1 << 63
    return State(x, f, 0, vl, bits, random.randrange(8), fcsr, vectors(random, vlen))


def instruction(random: Random, name: str, lmul: int) -> int:
    """A word of `name`, with register numbers that are legal more often than not."""
    pattern_ = VECTOR[name].pattern
    step = 1 << max(lmul, 0)
    fields = {f.name for f in pattern_.fields}
    operands = VECTOR[name].operands
    given: dict[str, int] = {}

    def vector() -> int:
        if random.random() < 0.1:
            return random.randrange(32)
        by = random.choice((step, step, 2 * step, 8))
        return random.randrange(0, 32, min(by, 16))

    for each in sorted(fields):
        if each == "rd":
            given[each] = vector() if "vd" in pattern_.text else random.choice(OUTPUTS)
        elif each == "rs2":
            given[each] = vector() if "vs2" in pattern_.text else random.choice(STEPS)
        elif each == "rs1" and "vs1" in pattern_.text:
            given[each] = vector()
        elif each == "rs1":
            if "zimm" in pattern_.text:
                given[each] = random.randrange(32)
            elif "(rs1)" in operands:
                given[each] = random.choice(POINTERS)
            elif "fs1" in operands:
                given[each] = random.randrange(32)
            else:
                given[each] = random.choice(VALUES)
        elif each == "vm":
            given[each] = random.getrandbits(1)
        elif each == "imm":
            low, high = next((-16, 16) if f.signed else (0, 32) for f in pattern_.fields if f.name == "imm")
            given[each] = random.randrange(low, high)
    if name.startswith("vset"):
        if "imm" in fields:
            given["imm"] = random.randrange(8) | random.randrange(4) << 3 | random.randrange(4) << 6
        if "rs2" in fields:
            given["rs2"] = random.choice(VALUES)
        given["rd"] = random.choice((0, *OUTPUTS))
        if "zimm" not in pattern_.text and random.random() < 0.2:
            given["rs1"] = 0
    if given.get("rd") == 0 and given.get("vm") == 0 and random.random() < 0.9:
        given["rd"] = step if step < 8 else 8
    return encode(name, **given)


def make(random: Random, vlen: int, names: Sequence[str] = ()) -> Case:
    """A case of one to four instructions, or of those that are given."""
    before = state(random, vlen)
    found = parse(before.vtype, vlen)
    lmul = found.lmul if found else 0
    if not names:
        names = [
            random.choice(ARITHMETIC if random.random() < 0.7 else ACCESSES) for _ in range(random.randrange(1, 5))
        ]
        if random.random() < 0.1:
            names = [random.choice(SEGMENTS)]
    words = []
    for name in names:
        words.append(instruction(random, name, lmul))
        if name in ACCESSES:
            words.append(encode("csrrwi", rd=VSTART_COPY, imm=8))
    if random.random() < 0.7:  # vtype is known where this is translated
        words.insert(0, encode("vsetvli", rs1=LENGTH, imm=before.vtype & 0xFF))
        before.x[LENGTH] = before.vl
    elif names[0] in ACCESSES and names[0] not in WHOLE and before.vl and random.random() < 0.3:
        before.vstart = random.randrange(before.vl)
    return Case(words, before, vlen)


# ---- the two sides -------------------------------------------------------------------------------------------------


class Strayed(Exception):
    """An access that the two sides cannot agree on: misaligned, or to where QEMU may have something of its own."""


class NearPort(FlatPort):
    """Only what lies in or near the memory."""

    def load(self, address: int, size: int) -> int:
        _check(address)
        return super().load(address, size)

    def store(self, address: int, size: int, value: int) -> None:
        _check(address)
        super().store(address, size, value)


def _may_differ(case: Case, after: State) -> bool:
    """QEMU 7.2 has floats of 16 bits, and moves registers while vtype is illegal; and fields of the segment that a
    first-fault load ends in may be written or not."""
    names, notes = [decode(word).name for word in case.words], "".join(case.notes)
    if "floats have 16" in notes or ("vill" in notes and any(re.match(r"vmv[1248]r", name) for name in names)):
        return True
    return any("ff.v" in n and "seg" in n for n in names) and (after.vl != case.before.vl or after.traps > 0)


def _check(address: int) -> None:
    if CODE <= address < CODE + 0x10000 or MEMORY - MARGIN <= address < MEMORY + MARGIN:
        return
    raise Strayed


class Ours:
    """One of our engines."""

    def __init__(self, engine: Engine, vlen: int, memory: bytes) -> None:
        self.engine = engine
        self.vlen = vlen
        self.space = AddressSpace()
        self.code, self.memory = Ram(0x10000), Ram(MEMORY_BYTES)
        self.space.map(CODE, self.code, "code")
        self.space.map(MEMORY, self.memory, "memory")
        self.memory.view[:] = memory
        self.hart = Hart(0, NearPort(self.space))

    def run(self, case: Case) -> State | None:
        """The state after a case; None, and memory as it was, where it cannot be used."""
        kept = bytes(self.memory.view)
        after = self._run(case)
        if after is None or _may_differ(case, after):
            after = None
            self.memory.view[:] = kept
        return after

    def _run(self, case: Case) -> State | None:
        hart, words, before = self.hart, self.hart.words, case.before
        code = struct.pack(f"<{len(case.words)}I", *case.words)
        self.space.write(CODE, code, UNKNOWN_ORIGIN)
        found = self.space.find(CODE)
        assert found is not None
        host = found.region.host_address(0, UNKNOWN_ORIGIN)
        assert host is not None
        self.engine.code_written(host, 0x1000)
        csr.reset(hart, self.vlen)
        for n in range(32):
            words[n], words[F + n] = before.x[n], before.f[n]
        words[FFLAGS], words[FRM] = before.fcsr & 31, before.fcsr >> 5
        words[VSTART], words[VL], words[VTYPE] = before.vstart, before.vl, before.vtype
        csr.write(hart, VCSR, before.vcsr, 3)
        hart.own_vectors[:] = before.vectors
        hart.pc, words[RETURN_ADDRESS] = CODE, CODE + len(code)
        traps = 0
        while True:
            try:
                result = self.engine.run(hart, 1000)
            except Strayed:
                return None
            if result.why is Why.RETURN:
                break
            assert result.why is Why.TRAP, result
            if result.cause in (LOAD_MISALIGNED, STORE_MISALIGNED):
                return None
            case.notes.append(f"{result.instruction}: {result.detail}")
            traps += 1
            hart.pc = result.pc + 4
        return State(
            list(words[:32]),
            list(words[F : F + 32]),
            words[VSTART],
            words[VL],
            words[VTYPE],
            csr.read(hart, VCSR, 3),
            words[FFLAGS] | words[FRM] << 5,
            bytes(hart.own_vectors),
            traps,
        )


def _frame(vlen: int, count: int) -> tuple[str, str, str, str]:
    """Assembly text: start, load, store, finish."""
    group = 8 * vlen // 8
    low, high = count * slot_bytes(vlen) & 0xFFF, (count * slot_bytes(vlen) + 0x800) >> 12
    low -= 0x1000 if low >= 0x800 else 0
    start = "\n".join(
        [
            *(f"addi a0, zero, {signal}; lui a1, {FLAGS >> 12:#x}; addi a1, a1, 64; addi a2, zero, 0; addi a3, zero, 8;"
              "addi a7, zero, 134; ecall" for signal in (4, 7, 11)),
            f"lui x31, {DATA >> 12:#x}",
        ]
    )  # fmt: skip
    load = "\n".join(
        [
            "csrrwi zero, vstart, 0",
            f"addi x30, x31, {V}; addi x5, zero, {group}",
            *(f"vl8re8.v v{n}, (x30); add x30, x30, x5" for n in range(0, 32, 8)),
            *(f"fld f{n}, {FL + 8 * n}(x31)" for n in range(32)),
            f"ld x30, {CSRS + 16}(x31); ld x5, {CSRS + 8}(x31); vsetvl zero, x5, x30",
            f"ld x5, {CSRS + 24}(x31); csrrw zero, vcsr, x5; ld x5, {CSRS + 32}(x31); csrrw zero, fcsr, x5",
            f"lui x5, {FLAGS >> 12:#x}; sd zero, 0(x5)",
            f"ld x5, {CSRS}(x31); csrrw zero, vstart, x5",
            *(f"ld x{n}, {X + 8 * n}(x31)" for n in range(3, 30)),
            "jalr zero, 0(ra)",
        ]
    )
    store = "\n".join(
        [
            *(f"sd x{n}, {X + 8 * n}(x31)" for n in range(3, 30)),
            *(
                f"csrrs x5, {name}, zero; sd x5, {CSRS + 8 * k}(x31)"
                for k, name in enumerate(("vstart", "vl", "vtype", "vcsr", "fcsr"))
            ),
            f"lui x5, {FLAGS >> 12:#x}; ld x5, 0(x5); sd x5, {CSRS + 40}(x31); csrrwi zero, vstart, 0",
            *(f"fsd f{n}, {FL + 8 * n}(x31)" for n in range(32)),
            f"addi x30, x31, {V}; addi x5, zero, {group}",
            *(f"vs8r.v v{n}, (x30); add x30, x30, x5" for n in range(0, 32, 8)),
            "addi x31, x30, 0",
            "jalr zero, 0(ra)",
        ]
    )
    finish = "\n".join(
        [
            f"addi a0, zero, 1; lui a1, {DATA >> 12:#x}; lui a2, {high:#x}; addi a2, a2, {low}",
            "addi a7, zero, 64; ecall",
            f"addi a0, zero, 1; lui a1, {MEMORY >> 12:#x}; lui a2, {MEMORY_BYTES >> 12:#x}; addi a7, zero, 64; ecall",
            "addi a0, zero, 0; addi a7, zero, 93; ecall",
        ]
    )
    return start, load, store, finish


HANDLER = f"""
ld t0, 176(a2); addi t0, t0, 4; sd t0, 176(a2)
lui t1, {FLAGS >> 12:#x}; ld t0, 0(t1); addi t0, t0, 1; sd t0, 0(t1)
jalr zero, 0(ra)
"""


def program(cases: Sequence[Case], vlen: int, memory: bytes) -> bytes:
    """The ELF file that runs `cases`."""
    start, load, store, finish = _frame(vlen, len(cases))
    load_at = CODE + 0x1000
    store_at = load_at + len(assemble(load)) + 16
    handler_at = store_at + len(assemble(store)) + 16
    routines = {load_at: assemble(load), store_at: assemble(store), handler_at: assemble(HANDLER)}
    body_at = CODE + 0x2000
    body = bytearray(assemble(start))
    for case in cases:
        body += _jump(body_at + len(body), load_at)
        body += struct.pack(f"<{len(case.words)}I", *case.words)
        body += _jump(body_at + len(body), store_at)
    body += assemble(finish)
    code = bytearray(0x2000)
    code[:4] = encode("jal", imm=0x2000).to_bytes(4, "little")
    for at, routine in routines.items():
        code[at - CODE : at - CODE + len(routine)] = routine
    action = struct.pack("<QQQ", handler_at, 4, 0)
    data = b"".join(case.before.packed() for case in cases)
    return _elf([(CODE, bytes(code + body)), (MEMORY, memory), (FLAGS, bytes(64) + action), (DATA, data)])


def _jump(at: int, to: int) -> bytes:
    return encode("jal", rd=1, imm=to - at).to_bytes(4, "little")


def run_qemu(cases: Sequence[Case], vlen: int, memory: bytes) -> tuple[list[State], bytes]:
    """The states after each case and the memory after all of them."""
    assert QEMU is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases"
        path.write_bytes(program(cases, vlen, memory))
        os.chmod(path, 0o755)
        model = f"rv64,v=true,vlen={vlen},elen=64,vext_spec=v1.0"
        done = subprocess.run([QEMU, "-cpu", model, str(path)], capture_output=True, timeout=300, check=False)
    size = slot_bytes(vlen)
    if done.returncode or len(done.stdout) != len(cases) * size + MEMORY_BYTES:
        raise RuntimeError(f"qemu-riscv64: status {done.returncode}, {len(done.stdout)} bytes, {done.stderr!r}")
    slots = [State.unpacked(done.stdout[n * size : (n + 1) * size], vlen) for n in range(len(cases))]
    return slots, done.stdout[len(cases) * size :]


# ---- comparison ----------------------------------------------------------------------------------------------------


def differences(ours: State, theirs: State, vlen: int) -> Iterator[str]:
    """What differs, one line each."""
    for name in ("vstart", "vl", "vtype", "vcsr", "fcsr", "traps"):
        a, b = getattr(ours, name), getattr(theirs, name)
        if a != b:
            yield f"{name}: {a:#x}, qemu {b:#x}"
    for letter in "xf":
        for n, (a, b) in enumerate(zip(getattr(ours, letter), getattr(theirs, letter), strict=True)):
            if a != b and not (letter == "x" and n in (1, 2, 30, 31)):
                yield f"{letter}{n}: {a:#x}, qemu {b:#x}"
    size = vlen // 8
    for n in range(32):
        a, b = (each.vectors[n * size : (n + 1) * size] for each in (ours, theirs))
        if a != b:
            yield f"v{n}: {a[::-1].hex()}\n     {b[::-1].hex()} qemu"


Maker = Callable[[Random, int], Case]


def batch(seed: str, count: int, vlen: int, engine: Engine, maker: Maker = make) -> tuple[list[Case], bytes, bytes]:
    """Cases that can be compared, with the state after them, and the memory before the first and behind the last."""
    random = Random(seed)
    memory = random.randbytes(MEMORY_BYTES)
    ours = Ours(engine, vlen, memory)
    cases: list[Case] = []
    while len(cases) < count:
        case = maker(random, vlen)
        case.after = ours.run(case)
        if case.after is not None:
            cases.append(case)
    return cases, memory, bytes(ours.memory.view)


def disagreements(seed: str, count: int, vlen: int, engine: Engine, maker: Maker = make) -> tuple[list[str], int]:
    """Reports of what differs from QEMU, and how many instructions were run."""
    cases, memory, behind = batch(seed, count, vlen, engine, maker)
    theirs, their_memory = run_qemu(cases, vlen, memory)
    found = []
    for case, state_ in zip(cases, theirs, strict=True):
        assert case.after is not None
        lines = list(differences(case.after, state_, vlen))
        if lines:
            kind = f"vtype {case.before.vtype:#x} vl {case.before.vl} vstart {case.before.vstart}"
            found.append("\n".join([f"{case.listing()}  [{kind}]", *case.notes, *lines]))
    if behind != their_memory:
        found.append("memory differs")
    return found, sum(len(case.words) for case in cases)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare in rounds; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--vlen", type=int, default=512)
    parser.add_argument("--round", type=int, default=500)
    parser.add_argument("--names", default="", help="only instructions whose names contain one of these, by commas")
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--engine", choices=ENGINES, default="reference")
    given = parser.parse_args(arguments)
    wanted = [name for name in (*ARITHMETIC, *ACCESSES) if any(part in name for part in given.names.split(","))]

    def maker(random: Random, vlen: int) -> Case:
        return make(random, vlen, [random.choice(wanted)] if given.names else ())

    failed = instructions = 0
    for first in range(0, given.cases, given.round):
        found, ran = disagreements(f"{given.seed}/{first}", given.round, given.vlen, ENGINES[given.engine](), maker)
        failed += len(found)
        instructions += ran
        head = f"{first + given.round} cases, {instructions} instructions, {failed} differ"
        print("\n\n".join([head, *found[: given.show]]), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
