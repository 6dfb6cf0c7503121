"""Operation lists: what a meaning asks of its algebra, written down, so that two ways to write it can be compared.

A list has the effects of an instruction in their order, and all values that it computes. A value's name is a hash of
the operation and of its operands' names: equal lists mean the same graph of operations, whatever the order in which
values that nothing stands between are computed, and in which the operands of a sum are written. Run as a program it
writes the vector files anew, or, with a folder, the lists themselves, to look at where a digest differs.
"""

from __future__ import annotations

import argparse
import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import numpy as np

from softcard.core.errors import SoftcardError
from softcard.engine.gcn.reference.lane_float import LaneFloats
from softcard.engine.gcn.reference.lane_integer import LaneIntegers
from softcard.isa.gcn.insn import Insn, Op
from softcard.isa.gcn.operations.table import OPS
from softcard.isa.gcn.semantics.execute import execute
from softcard.isa.gcn.state import Mode
from softcard.isa.gcn.target import TARGETS
from softcard.isa.riscv.decode import SPECS, decode
from softcard.isa.riscv.table import BASE
from tests.agree.gcn.insns import Maker, forms

VECTORS: Final = Path(__file__).parent.parent / "vectors" / "isa"
PROCESSORS: Final = ("gfx700", "gfx803", "gfx810", "gfx900", "gfx906")
"""Every level and feature that a meaning may branch on."""
SAMPLES: Final = 4
"""Instructions of each operation, form and processor, with fields drawn at random, the same ones always."""
PLAIN: Final = 0x3C0
MODES: Final = (PLAIN, 0x1F0, 0x0F0, 0x300, 0x33F, 0x800315, 0x3CA, 1 << 32 | PLAIN)
"""MODE: denormals, IEEE, DX10_CLAMP, roundings, 32-bit pointers; GPR indexing comes on top where it exists."""
GPR_IDX: Final = 1 << 27


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


BITS: Final = {"h": 16, "s": 32, "d": 64}
BINARY: Final = names("add sub mul and_ or_ xor shl lshr ashr umin umax smin smax udiv urem sdiv srem")
COMMUTATIVE: Final = names("add mul and_ or_ xor umin umax smin smax eq ne")
"""Integer operations whose operands may stand in either order."""
UNARY: Final = names("not_ ctlz cttz ctpop bitreverse bswap")
COMPARISONS: Final = names("eq ne ult ule slt sle")
RESIZES: Final = names("zext sext trunc")
FLOATS: Final = names("fadd fsub fmul fma fdiv fsqrt fflush fround fldexp fneg fmin fmax f_from_bits")
FLOAT_TESTS: Final = names("feq flt fle funo")
OTHER_VALUES: Final = names(
    "select clmul not1 fconvert ffrom_int fto_int fclass f_to_f f_to_int int_to_f f_bits lane_id"
)
PURE: Final = BINARY | UNARY | COMPARISONS | RESIZES | FLOATS | FLOAT_TESTS | OTHER_VALUES
READS: Final = names("s s64 scc s_indexed hwreg time v mask lane_bits active v_at lane v_indexed aperture x f f_raw")
WIDTHS: Final = {
    "s": 32, "s64": 64, "scc": 1, "hwreg": 32, "time": 64, "v": 32, "mask": 1, "lane_bits": 1, "lane_id": 32,
    "active": 1, "v_at": 32, "lane": 32, "v_indexed": 32, "aperture": 64, "x": 64, "clmul": 128, "not1": 1,
}  # fmt: skip
"""Bits of what reads give."""


class Value:
    """A value that is not known: looking at it is an error."""

    __slots__ = ("name", "width")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, width: int | None) -> None:
        self.name = name
        self.width = width

    def __bool__(self) -> bool:
        raise AssertionError("a meaning looked at a value")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a meaning looked at a value")


class Recorder:
    """An algebra of either instruction set that writes down what is asked of it and checks the operands' widths."""

    def __init__(self, **facts: Any) -> None:
        self.lines: list[str] = []
        self.effects: list[str] = []
        self.__dict__.update(facts)

    def const(self, w: int, n: int) -> Value:
        return Value(f"{n % (1 << w):#x}:{w}", w)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: self._call(name, arguments, named)

    def _call(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        shown = [_shown(each) for each in arguments]
        while shown and shown[-1] == ("0" if name in ("hint", "order") else "None"):
            shown.pop()
        shown += [f"{key}={_shown(value)}" for key, value in named.items() if value is not None]
        if name in COMMUTATIVE:
            shown[1:] = sorted(shown[1:])
        text = f"{name}({', '.join(shown)})"
        _check(name, arguments, text)
        pure = name in PURE
        if not pure:
            text += f" @{len(self.effects)}"
        if not pure and name not in READS:
            self.effects.append(text)
        if name in ("load", "scalar_load") and (name == "scalar_load" or isinstance(arguments[0], str)):
            count = arguments[0] if name == "scalar_load" else max(arguments[1] // 32, 1)
            return [self._value(f"{text}[{k}]", 32) for k in range(count)]
        return self._value(text, _width(name, arguments, named))

    def _value(self, text: str, width: int | None) -> Value:
        value = Value("%" + hashlib.sha256(text.encode()).hexdigest()[:12], width)
        self.lines.append(f"{value.name} = {text}")
        return value


def _shown(value: Any) -> str:
    if isinstance(value, Value):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_shown(each) for each in value)}]"
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]
    return repr(int(value) if isinstance(value, np.generic) else value)


def _check(name: str, arguments: tuple[Any, ...], text: str) -> None:
    """Operands of integer operations and of floats have the width that the operation says."""
    if name in BINARY | UNARY | COMPARISONS:
        wanted = [None] + [arguments[0]] * (len(arguments) - 1)
    elif name == "select":
        wanted = [None, 1, arguments[0], arguments[0]]
    elif name in RESIZES:
        wanted = [None, None, arguments[1]]
    elif (name in FLOATS and name != "fldexp") or name in FLOAT_TESTS:
        wanted = [None] + [BITS[arguments[0]]] * (len(arguments) - 1)
    else:
        return
    for width, value in zip(wanted, arguments, strict=True):
        assert width is None or not isinstance(value, Value) or value.width in (None, width), (text, value.width)


def _width(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> int | None:
    """Bits of a result, None where nobody has to know."""
    if name in BINARY | UNARY or name == "select" or name in RESIZES:
        return int(arguments[0])
    if name in COMPARISONS | FLOAT_TESTS:
        return 1
    if name == "load" or name == "f_to_int":
        return int(arguments[0])
    if name == "s_indexed":
        return int(named.get("w", arguments[2] if len(arguments) > 2 else 32))
    if name in ("atomic", "scalar_atomic"):
        return int(arguments[2])
    if name == "fto_int":
        return int(arguments[1])
    if name in FLOATS or name in ("fconvert", "ffrom_int"):
        return BITS[arguments[0]]
    return WIDTHS.get(name)


def listing(recorder: Recorder, run: Callable[[], object]) -> str:
    """The operation list of what `run` does; an error ends it, with its words."""
    try:
        run()
    except SoftcardError as error:
        recorder.effects.append(f"{type(error).__name__}: {error.message}")
    return "\n".join([*sorted(recorder.lines), *recorder.effects])


# ---- GCN -------------------------------------------------------------------------------------------------------------
LINEAR_2D: Final = (0x0001_0000, 0x0220_0000, 0x0000_C00F, 0x9080_0FAC, 0x001E_0000, 0, 0, 0)
"""A T#: 16 by 4 texels of four bytes (GFX7, GFX8: tiling index 8)."""
SAMPLER: Final = (0x0000_0092, 0x00FF_F000, 0x0050_0000, 0)
BUFFER: Final = (0x0001_0000, 0x0010_0000, 0x40, 0x0002_7FAC)
"""A V#: 64 records of 16 bytes, whose words say 8_8_8_8, unorm on all levels."""


class Known(LaneIntegers, LaneFloats):
    """An algebra for meanings that look at values: registers hold known numbers. Effects are written down."""

    def __init__(self, insn: Insn, mode: Mode, seed: int) -> None:
        super().__init__()
        self.mode = mode
        self.lines: list[str] = []
        self.effects: list[str] = []
        rng = np.random.default_rng(seed)
        self._s = [int(n) for n in rng.integers(0, 1 << 32, 128)]
        self._v = rng.integers(0, 1 << 32, (256, 64)).astype(np.uint32)
        self._v[:12] = rng.integers(0, 16, (12, 64))
        self._set(insn.get("srsrc"), LINEAR_2D if insn.form == "MIMG" else BUFFER)
        if insn.form == "MIMG":
            if insn.target.level == 9:
                self._s[insn["srsrc"] + 3] &= ~(31 << 20)
            if insn.get("ssamp") and insn.op.operands.find("ssamp") >= 0:
                self._v[:12] = rng.random((12, 64)).astype(np.float32).view(np.uint32)
            self._set(insn["ssamp"], SAMPLER)

    def _set(self, n: int, words: tuple[int, ...]) -> None:
        self._s[n : n + len(words)] = words

    def s(self, n: int) -> int:
        return self._s[n]

    def s64(self, n: int) -> int:
        return self._s[n] | self._s[n + 1] << 32

    def v(self, n: int) -> Any:
        return self._v[n].copy()

    def lane_id(self) -> Any:
        return np.arange(64, dtype=np.uint32)

    def load(self, space: str, bits: int, address: Any, where: Any = None) -> list[Any]:
        self._note("load", space, bits, address, where)
        rng = np.random.default_rng(bits)
        return [rng.integers(0, 1 << min(bits, 32), 64).astype(np.uint32) for _ in range(max(bits // 32, 1))]

    def atomic(self, space: str, kind: str, bits: int, *operands: Any) -> Any:
        self._note("atomic", space, kind, bits, *operands)
        return np.arange(64, dtype=np.uint32 if bits == 32 else np.uint64)

    def hwreg(self, number: int) -> int:
        return 0x2000_0000

    def aperture(self, which: str) -> int:
        return 1 << 48 if "shared" in which else 2 << 48

    def scc(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: self._note(name, *arguments, *named.items())

    def _note(self, name: str, *arguments: Any) -> None:
        shown = [_shown(np.broadcast_to(each, 64) if isinstance(each, np.ndarray) else each) for each in arguments]
        while shown and shown[-1] == "None":
            shown.pop()
        self.effects.append(f"{name}({', '.join(shown)})")


def instructions(op: Op) -> Iterator[tuple[str, Insn, Mode]]:
    """Instructions of an operation: every processor and form, a few draws of the fields, under several MODEs."""
    for name in PROCESSORS:
        target = TARGETS[name]
        if not op.on(target):
            continue
        for form in forms(op, target):
            seed = zlib.crc32(f"{op.family} {op.name} {name} {form}".encode())
            maker = Maker(np.random.default_rng(seed), target)
            for k in range(SAMPLES):
                bits = MODES[(seed + k) % len(MODES)]
                if k == SAMPLES - 1 and target.level > 7 and "DPP" not in form:
                    bits |= GPR_IDX
                insn = maker.make(op, form, 0x1000)[1]
                yield (
                    f"{name} {form} {bits:#x} {' '.join(f'{word:08x}' for word in insn.words)}",
                    insn,
                    Mode.decode(bits),
                )


def gcn_lists(op: Op) -> Iterator[str]:
    """The operation lists of an operation, each below a line that says of what."""
    for title, insn, mode in instructions(op):
        recorder = Known(insn, mode, zlib.crc32(title.encode())) if op.concrete or op.selectors else Recorder(mode=mode)
        with np.errstate(all="ignore"):
            text = listing(cast(Recorder, recorder), lambda o=recorder, i=insn: execute(o, i))  # type: ignore[misc]
        yield f"{title}\n{text}\n"


# ---- RISC-V ----------------------------------------------------------------------------------------------------------
JUNK: Final = (0, 0xFFFF_FFFF, 0x5555_5555, 0xAAAA_AAAA, 0x0841_0842)


def riscv_lists(name: str) -> Iterator[str]:
    """The operation lists of an instruction under several fields."""
    pattern = BASE[name].pattern
    for word in dict.fromkeys(pattern.match | junk & ~pattern.mask for junk in JUNK):
        if pattern.matches(word):
            o = Recorder(pc=0x1000, next_pc=0x1004, hart=SimpleNamespace(privilege=3, csr={}))
            text = listing(o, lambda o=o, word=word: SPECS[name].semantics(o, decode(word)))  # type: ignore[misc]
            yield f"{word:08x}\n{text}\n"


def digest(lists: Iterator[str]) -> str:
    """One short word for all of them."""
    whole = hashlib.sha256()
    for text in lists:
        whole.update(text.encode())
    return whole.hexdigest()[:12]


def gcn() -> Iterator[tuple[str, Iterator[str]]]:
    """Every operation of GCN: family and name, and its lists."""
    for op in OPS:
        yield f"{op.family} {op.name}", gcn_lists(op)


def riscv() -> Iterator[tuple[str, Iterator[str]]]:
    """Every instruction of RISC-V."""
    for name in SPECS:
        yield name, riscv_lists(name)


def recorded(name: str) -> dict[str, str]:
    """The digests in a vector file."""
    lines = (VECTORS / f"{name}.txt").read_text("ascii").splitlines()
    return {key: found for key, _, found in (line.rpartition(" ") for line in lines)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Record the digests anew, or write the texts themselves.")
    parser.add_argument("folder", type=Path, nargs="?", help="where to write the texts, a file each")
    target = parser.parse_args().folder
    for which, source in (("gcn", gcn), ("riscv", riscv)):
        if target is not None:
            folder = target / which
            folder.mkdir(parents=True, exist_ok=True)
            for key, found in source():
                (folder / key.replace(" ", "_")).write_text("\n".join(found))
        else:
            lines = [f"{key} {digest(found)}\n" for key, found in source()]
            (VECTORS / f"{which}.txt").write_text("".join(lines), "ascii")
