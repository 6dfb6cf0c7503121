"""Zba, Zbb, Zbs, Zicond, Zicntr, Zfh: values against plain Python, encodings against GNU and LLVM, who has them."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from softcard.core.errors import WireError
from softcard.isa.riscv.assembler import assemble, text
from softcard.isa.riscv.decode import IllegalInstruction, decode
from softcard.isa.riscv.isa import ALL, REFSI, isa_of
from softcard.isa.riscv.table import FURTHER
from tests.engine.riscv.rig import CODE, ENGINES, Rig

M64, M32 = (1 << 64) - 1, (1 << 32) - 1


def s(n: int, w: int = 64) -> int:
    n &= (1 << w) - 1
    return n - (1 << w) if n >> w - 1 else n


def turned(w: int, by: int) -> Callable[[int, int], int]:
    """Rotated: as text, so that nothing is shared with how engines do it."""

    def rotate(a: int, n: int) -> int:
        bits = f"{a & (1 << w) - 1:0{w}b}"
        n = n * by % w
        return s(int(bits[n:] + bits[:n], 2), w)

    return rotate


def zeros(w: int, side: Callable[[str], str]) -> Callable[[int, int], int]:
    return lambda a, _: w - len(side(f"{a & (1 << w) - 1:0{w}b}"))


def either(a: int, n: int, bit: str) -> int:
    bits = list(f"{a:064b}")
    bits[63 - n % 64] = bit or str(1 - int(bits[63 - n % 64]))
    return int("".join(bits), 2)


EXPECTED: dict[str, Callable[[int, int], int]] = {
    **{f"sh{k}add": lambda a, b, k=k: b + (a << k) for k in (1, 2, 3)},
    **{f"sh{k}add.uw": lambda a, b, k=k: b + ((a & M32) << k) for k in (1, 2, 3)},
    "add.uw": lambda a, b: b + (a & M32),
    "slli.uw": lambda a, n: (a & M32) << n,
    "andn": lambda a, b: a & ~b,
    "orn": lambda a, b: a | ~b,
    "xnor": lambda a, b: ~(a ^ b),
    "clz": zeros(64, lambda bits: bits.lstrip("0")),
    "clzw": zeros(32, lambda bits: bits.lstrip("0")),
    "ctz": zeros(64, lambda bits: bits.rstrip("0")),
    "ctzw": zeros(32, lambda bits: bits.rstrip("0")),
    "cpop": lambda a, _: a.bit_count(),
    "cpopw": lambda a, _: (a & M32).bit_count(),
    "min": lambda a, b: min(s(a), s(b)),
    "minu": min,
    "max": lambda a, b: max(s(a), s(b)),
    "maxu": max,
    "sext.b": lambda a, _: s(a, 8),
    "sext.h": lambda a, _: s(a, 16),
    "zext.h": lambda a, _: a & 0xFFFF,
    "rol": turned(64, 1),
    "rolw": turned(32, 1),
    "ror": turned(64, -1),
    "rorw": turned(32, -1),
    "rori": turned(64, -1),
    "roriw": turned(32, -1),
    "orc.b": lambda a, _: int.from_bytes(bytes(255 * (byte > 0) for byte in a.to_bytes(8, "little")), "little"),
    "rev8": lambda a, _: int.from_bytes(a.to_bytes(8, "little"), "big"),
    **{name: lambda a, n: either(a, n, "0") for name in ("bclr", "bclri")},
    **{name: lambda a, n: either(a, n, "1") for name in ("bset", "bseti")},
    **{name: lambda a, n: either(a, n, "") for name in ("binv", "binvi")},
    **{name: lambda a, n: int(f"{a:064b}"[63 - n % 64]) for name in ("bext", "bexti")},
    "czero.eqz": lambda a, b: a if b else 0,
    "czero.nez": lambda a, b: 0 if b else a,
}


def operands(name: str) -> list[tuple[int, int]]:
    rng = random.Random(name)
    edges = [0, 1, M64, 1 << 63, (1 << 63) - 1, 1 << 31, (1 << 31) - 1, M32, 1 << 32, 0x8000_0000_8000_0000]
    numbers = [*edges, *(rng.getrandbits(64) >> rng.randrange(64) for _ in range(4))]
    return [(a, b) for a in numbers for b in (0, 31, 32, 64, a, *rng.sample(numbers, 2))]


@pytest.mark.parametrize("engine", ENGINES)
def test_values(engine: str) -> None:
    rig = Rig(ENGINES[engine]())
    rig.hart.isa = ALL
    assert set(EXPECTED) == {row.name for row in FURTHER if row.what.extension != "Zfh"}
    for name, expected in EXPECTED.items():
        form = FURTHER[name].operands
        numbers = (1, 31) if name == "roriw" else (1, 31, 32, 63)
        for number in numbers if "shamt" in form else (0,):
            last = {"rd, rs1": "", "rd, rs1, rs2": ", x6", "rd, rs1, shamt": f", {number}"}[form]
            end = rig.place(f"{name} x7, x5{last}")
            for a, b in operands(name):
                want = expected(a, number if "shamt" in form else b) & M64
                assert rig.run(end, x5=a, x6=b).x[7] == want, (name, hex(a), hex(b), number)


AS, OBJDUMP = (shutil.which(f"riscv64-unknown-elf-{tool}") for tool in ("as", "objdump"))
LINE = re.compile(r"\s*[0-9a-f]+:\s*([0-9a-f]{8})\s+\t(\S+)\s*([^#<]*)")


@pytest.mark.oracle
@pytest.mark.skipif(AS is None or OBJDUMP is None, reason="needs riscv64-unknown-elf-as and -objdump (binutils)")
@pytest.mark.parametrize("extensions", [("Zba", "Zbb", "Zbs"), ("Zfh",), ("Zicond",)])
def test_encodings_and_texts(extensions: tuple[str, ...], tmp_path: Path) -> None:
    """Our words, their texts; our texts, their words."""
    rng, words = random.Random(3), []
    for row in FURTHER:
        if row.what.extension in extensions:
            fields = [rng.getrandbits(32) & ~row.pattern.mask for _ in range(8)]
            if " rm " in row.pattern.text:  # two of eight modes are reserved; GNU has none for widening
                modes = (0,) * 8 if row.name in ("fcvt.s.h", "fcvt.d.h") else (0, 1, 2, 3, 4, 7, 7, 0)
                fields = [field & ~0x7000 | mode << 12 for field, mode in zip(fields, modes, strict=True)]
            words += [row.pattern.match | field for field in fields]
    assert AS is not None
    assert OBJDUMP is not None
    source, code = tmp_path / "a.s", tmp_path / "a.o"
    source.write_text("\n".join(text(decode(word, ALL)) for word in words) + "\n")
    if extensions == ("Zicond",):
        clang = [sys.executable, "-m", "ziglang", "clang", "--target=riscv64"]
        subprocess.run([*clang, "-march=rv64gc_zicond", "-c", "-o", code, source], check=True)
    else:
        subprocess.run([AS, "-march=rv64gc_zba_zbb_zbs_zfh", "-o", code, source], check=True)
    dump = subprocess.run([OBJDUMP, "-d", "-M", "no-aliases", code], check=True, capture_output=True, text=True).stdout
    found = [line for line in map(LINE.match, dump.splitlines()) if line]
    assert [int(line[1], 16) for line in found] == words
    if extensions != ("Zicond",):  # which these binutils do not know
        assert [f"{line[2]} {line[3].strip()}" for line in found] == [text(decode(word, ALL)) for word in words]
    for word in words:
        assert assemble(text(decode(word, ALL))) == word.to_bytes(4, "little")


@pytest.mark.parametrize("engine", ["quick", "optimised"])
def test_half_floats_are_rounded_once(engine: str) -> None:
    """Cases in which machine code computes wider: sums beside a tie, tiny results, doubles, in all rounding modes."""
    text_ = """
        fmadd.h f4, f1, f2, f3\nfnmsub.h f5, f1, f2, f3, rne\nfcvt.h.d f6, f7\nfdiv.h f8, f1, f2\nfsqrt.h f9, f1
        fcvt.h.l f10, x5\nfcvt.h.wu f11, x5\nfcvt.h.s f12, f13\nfcvt.w.h x6, f1\nfmin.h f14, f1, f2\nfclass.h x7, f2
        flt.h x8, f1, f2\nfcvt.d.h f15, f1\nfsgnjn.h f16, f1, f2\nfmul.h f17, f1, f2
        fadd.h f18, f1, f3\nfmv.x.h x9, f18
    """
    rng, rigs = random.Random(11), [Rig(ENGINES[name]()) for name in ("reference", engine)]
    for rig in rigs:
        rig.hart.isa = ALL
        end = rig.place(text_)
    box = M64 << 16 & M64
    for n in range(600):
        a, b = (rng.choice((0x3C00, 0x7BFF, 1, 0x400, rng.getrandbits(16))) | rng.getrandbits(3) for _ in range(2))
        c = rng.choice((1, 0x8001, 0x3FF, rng.getrandbits(16), a ^ 0x8000))
        least = rng.choice((0, 1, -1, 1 << 41, (1 << 41) + 1, 1 << 28, 1 << 29))
        d = (rng.randrange(990, 1040) << 52 | rng.getrandbits(11) << 41) + least | rng.getrandbits(1) << 63
        single = rng.randrange(100, 145) << 23 | rng.getrandbits(10) << 13 | rng.choice((0, 1 << 12, 4095, 4097))
        f = {"f1": box | a, "f2": box | b, "f3": box | c, "f7": d & M64, "f13": M64 << 32 & M64 | single}
        x5 = rng.choice((rng.getrandbits(17), (1 << 24) + rng.randrange(-2, 3), -rng.getrandbits(16), 2049, 4094 + n))
        wanted, found = (rig.run(end, **f, x5=x5, frm=n % 5) for rig in rigs)
        assert wanted == found, {name: hex(value) for name, value in f.items()}


def test_who_has_them() -> None:
    for row in FURTHER:
        word, extension = row.pattern.match, row.what.extension
        assert decode(word, isa_of(f"rv64gc_{extension.lower()}")).name == row.name
        reported = f"RV64GCV_Zbc has no such encoding, {row.name} belongs to {extension}"
        with pytest.raises(IllegalInstruction, match=re.escape(reported)):
            decode(word)
        assert extension not in REFSI
    with pytest.raises(IllegalInstruction, match=r"0x4501: RV64IMA has no such encoding, c\.li belongs to C"):
        decode(0x4501, isa_of("rv64ima"))
    with pytest.raises(IllegalInstruction, match=r"RV64IMAFC has no such encoding, fld belongs to D"):
        decode(0x0000_3007, isa_of("rv64imafc"))


def test_a_hart_without_them_shares_no_code_with_one_that_has() -> None:
    for name, make in ENGINES.items():
        rig = Rig(make())
        other = rig.new_hart(1)
        other.isa = isa_of("rv64gc_zba_zicntr")
        end = rig.place("sh1add x7, x5, x6\ncsrrs x8, time, x0\naddi x9, x0, 1")
        for _ in range(3):
            assert rig.run(end, hart=other, x5=3, x6=5).x[7] == 11, name
            assert rig.run(end, hart=other).x[8] > 0
            ended = rig.run(end, x5=3)
            assert (ended.cause, ended.x[7], ended.pc) == (2, 0, CODE), name


def test_names() -> None:
    assert [isa_of(name).name for name in ("rv64gc", "rv64gc_b", "RV64GCV", "rv64i2p1_m2p0_a2p1_f2p2_d2p2_c2p0")] == [
        "RV64GC",
        "RV64GC_Zba_Zbb_Zbs",
        "RV64GCV",
        "RV64GC",
    ]
    assert isa_of("rv64gc_zicond_zba1p0") is isa_of("RV64IMAFDC_Zba_Zicond")
    for name, reported in (
        ("rv32gc", "'rv32gc' must be an instruction set of 64-bit harts"),
        ("rv64gc_zbx", "has the unknown extension 'Zbx'; did you mean 'Zb"),
        ("", "'' must be an instruction set"),
    ):
        with pytest.raises(WireError, match=re.escape(reported)):
            isa_of(name)
