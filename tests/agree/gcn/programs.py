"""Random programs: straight code, skips, loops with bounded trip counts, calls; and the states they start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from softcard.core.errors import SoftcardError
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.asm.printer import text
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.encode import encode
from softcard.isa.gcn.encoding.shape import slots
from softcard.isa.gcn.insn import Op
from softcard.isa.gcn.state import PTR32
from softcard.isa.gcn.target import Target
from tests.agree.gcn import values
from tests.agree.gcn.bench import (
    CODE,
    DATA,
    DATA_BYTES,
    DEVICE,
    EDGE,
    LANE_BYTES,
    ODD,
    ODD_BYTES,
    READ_ONLY,
    ROWS,
    Start,
)
from tests.agree.gcn.insns import (
    ANCHOR,
    ANYWHERE,
    BASE,
    FAR,
    JUMPS,
    KEPT,
    LOCAL,
    NEAR,
    OFFSETS,
    RESOURCES,
    SKIPPED,
    SMALL,
    WILD,
    Maker,
    Rng,
    every,
)  # fmt: skip

SHARED: Final = 0x0001_0000_0000_0000
PRIVATE: Final = 0x0002_0000_0000_0000
Addresses = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of a program. `target` is the index of the item that it refers to: a branch's, or in a literal."""

    code: bytes
    target: int = -1
    literal: bool = False

    def at(self, pc: int, where: Callable[[int], int]) -> bytes:
        """The code as it stands at `pc`."""
        if self.target < 0:
            return self.code
        if self.literal:  # the distance from this item
            return self.code[:-4] + (where(self.target) - pc & 0xFFFF_FFFF).to_bytes(4, "little")
        word = int.from_bytes(self.code[:4], "little") & 0xFFFF_0000
        return (word | (where(self.target) - pc - 4 >> 2) & 0xFFFF).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Program:
    """Items, of which some may be gone."""

    target: Target
    items: tuple[Item | None, ...]

    def code(self) -> bytes:
        """Machine code, to be put at `CODE`."""
        at, starts = CODE, []
        for item in self.items:
            starts.append(at)
            at += len(item.code) if item else 0
        starts.append(at)
        end = end_of(self.target)
        pieces = [item.at(pc, lambda n: starts[n]) for item, pc in zip(self.items, starts, strict=False) if item]
        return b"".join(pieces) + 4 * end

    def without(self, indices: Sequence[int]) -> Program:
        """The program with some items gone; branches to them go to what follows."""
        gone = set(indices)
        return Program(self.target, tuple(None if n in gone else item for n, item in enumerate(self.items)))

    def index_at(self, pc: int) -> int:
        """The item that stands at an address."""
        at = CODE
        for n, item in enumerate(self.items):
            at += len(item.code) if item else 0
            if pc < at:
                return n
        return len(self.items) - 1

    @property
    def present(self) -> list[int]:
        """Indices of items that are there."""
        return [n for n, item in enumerate(self.items) if item]


def end_of(target: Target) -> bytes:
    """s_endpgm."""
    return (0xBF81_0000).to_bytes(4, "little")


def listing(target: Target, code: bytes, start: int = CODE) -> str:
    """Assembly text of machine code, as far as it decodes."""
    lines, at = [], 0
    while at < len(code):
        try:
            insn = decode(target, code[at:], start + at)
        except SoftcardError as error:
            lines.append(f"{start + at:#x}: {code[at : at + 4][::-1].hex()}  {error}")
            at += 4
            continue
        lines.append(f"{start + at:#x}: {' '.join(f'{w:08x}' for w in insn.words):26s} {text(insn)}")
        at += insn.size
        if insn.name == "s_endpgm":
            break
    return "\n".join(lines)


@dataclass
class Builder:
    """Makes one program."""

    rng: Rng
    target: Target
    maker: Maker = field(init=False)
    items: list[Item] = field(default_factory=list)
    loops: int = 0

    def __post_init__(self) -> None:
        self.maker = Maker(self.rng, self.target)

    def program(self, length: int, choices: Sequence[tuple[Op, str]]) -> Program:
        """About `length` instructions of `choices`, with control flow."""
        self.prologue()
        while length > 0:
            kind, count = self.rng.random(), 1 + int(self.rng.integers(8))
            if kind < 0.12:
                self.skip(count, choices)
            elif kind < 0.2 and self.loops < 3:
                self.loop(count, choices)
            elif kind < 0.23:
                self.call(count, choices)
            elif kind < 0.27:
                self.mode()
                count = 1
            else:
                self.straight(count, choices)
            length -= count
        return Program(self.target, tuple(self.items))

    def prologue(self) -> None:
        """VCC and SCC, which a dispatch does not set."""
        rng = self.rng
        mask = values.mask(rng)
        self.text(f"s_mov_b32 vcc_lo, {mask & 0xFFFF_FFFF:#x}", f"s_mov_b32 vcc_hi, {mask >> 32:#x}")
        self.text(f"s_cmp_eq_u32 s{BASE}, {'0' if rng.random() < 0.5 else f's{BASE}'}")

    def text(self, *lines: str) -> None:
        """Instructions by their text."""
        for line in lines:
            self.items.append(Item(assemble(self.target, line + "\n")))

    def straight(self, count: int, choices: Sequence[tuple[Op, str]]) -> None:
        """Random instructions."""
        for _ in range(count):
            self.one(*choices[int(self.rng.integers(len(choices)))])

    def one(self, op: Op, form: str) -> None:
        """A random instruction; a branch goes over the next one at most."""
        code, _ = self.maker.make(op, form)
        if op.name in JUMPS and op.name not in ("s_call_b64", "s_cbranch_i_fork"):
            self.jump(op, form)
        elif any(slot.kind == "target" for slot in slots(op, form)):
            self.items.append(Item(code, len(self.items) + 1 + int(self.rng.integers(2))))
            self.text("s_nop 0")
        else:
            self.items.append(Item(code))
            if op.name in ("s_setvskip", "s_set_gpr_idx_on"):
                self.straight_after(op)

    def straight_after(self, op: Op) -> None:
        """End a special mode soon."""
        more = [pair for pair in plain(self.target) if pair[0].family in ("vop1", "vop2")]
        self.straight(int(self.rng.integers(3)), more)
        self.text("s_setvskip 0, 0" if op.name == "s_setvskip" else "s_set_gpr_idx_off")

    def jump(self, op: Op, form: str) -> None:
        """A computed jump to the next item or the one behind it."""
        low, rng = KEPT + 12, self.rng
        target = len(self.items) + 4 + int(rng.integers(2))
        self.text(f"s_getpc_b64 s[{low}:{low + 1}]")
        self.items.append(Item(assemble(self.target, f"s_add_u32 s{low}, s{low}, 0x12345678\n"), target, literal=True))
        self.text(f"s_addc_u32 s{low + 1}, s{low + 1}, 0")
        fields, _ = self.maker.fields(op, form)
        fields["ssrc1" if op.name == "s_cbranch_g_fork" else "ssrc0"] = low
        self.items.append(Item(encode(self.target, op, form, fields)))
        self.text("s_nop 0")

    def skip(self, count: int, choices: Sequence[tuple[Op, str]]) -> None:
        """A branch over some instructions."""
        names = ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")
        at = len(self.items)
        self.text(f"s_cbranch_{values.pick(self.rng, names)} 0" if self.rng.random() < 0.9 else "s_branch 0")
        self.straight(count, choices)
        behind = len(self.items) if self.rng.random() < 0.8 else at + 1 + int(self.rng.integers(count))
        self.items[at] = Item(self.items[at].code, min(behind, len(self.items)))

    def loop(self, count: int, choices: Sequence[tuple[Op, str]]) -> None:
        """A loop; sometimes entered in its middle, sometimes left early."""
        counter, rng = KEPT + self.loops, self.rng
        self.loops += 1
        self.text(f"s_mov_b32 s{counter}, {int(rng.integers(1, 6))}")
        enters = rng.random() < 0.2
        if enters:
            self.text("s_cbranch_scc1 0")
        start = len(self.items)
        self.straight(count, choices)
        if enters:
            self.items[start - 1] = Item(
                self.items[start - 1].code, start + int(rng.integers(1 + len(self.items) - start))
            )
        if rng.random() < 0.3:
            self.skip(1 + count // 2, choices)
        self.text(f"s_sub_u32 s{counter}, s{counter}, 1", f"s_cmp_gt_i32 s{counter}, 0", "s_cbranch_scc1 0")
        self.items[-1] = Item(self.items[-1].code, start)
        self.loops -= rng.random() < 0.5

    def call(self, count: int, choices: Sequence[tuple[Op, str]]) -> None:
        """A function behind a jump over it, called by its computed address."""
        low, back = KEPT + 12, KEPT + 14
        over = len(self.items)
        self.text("s_branch 0")
        entry = len(self.items)
        self.straight(count, choices)
        self.text(f"s_setpc_b64 s[{back}:{back + 1}]")
        self.items[over] = Item(self.items[over].code, len(self.items))
        self.text(f"s_getpc_b64 s[{low}:{low + 1}]")
        item = Item(assemble(self.target, f"s_add_u32 s{low}, s{low}, 0x12345678\n"), entry, literal=True)
        self.items.append(item)
        self.text(f"s_mov_b32 s{low + 1}, 0")
        self.text(f"s_swappc_b64 s[{back}:{back + 1}], s[{low}:{low + 1}]")

    def mode(self) -> None:
        """Change MODE: rounding, denormals or all of it, from a constant or a register."""
        at, size = values.pick(self.rng, ((0, 4), (4, 4), (0, 8), (6, 2), (4, 2), (2, 2), (0, 2), (8, 2)))
        value = int(self.rng.integers(1 << size))
        if self.rng.random() < 0.7:
            self.text(f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, {at}, {size}), {value:#x}")
        else:
            self.text(f"s_setreg_b32 hwreg(HW_REG_MODE, {at}, {size}), s{OFFSETS[1]}")


def plain(target: Target) -> list[tuple[Op, str]]:
    """What programs are made of: everything but what ends them at once or belongs to graphics."""
    return [
        (op, form)
        for op, form in every(target)
        if op.name not in SKIPPED | JUMPS
        and op.family not in ("mimg", "exp", "vintrp")
        and not (target.matrix and op.accuracy.kind == "absent")
        and not op.name.startswith(("v_interp", "ds_gws", "s_rfe", "s_cbranch_cdbg", "s_setvskip", "s_set_gpr_idx_on"))
    ]


def weighted(rng: Rng, target: Target) -> list[tuple[Op, str]]:
    """A choice of operations, families in random proportions, so that programs differ in kind."""
    groups: dict[str, list[tuple[Op, str]]] = {}
    for op, form in plain(target):
        groups.setdefault(op.family, []).append((op, form))
    chosen: list[tuple[Op, str]] = []
    for family, pairs in groups.items():
        weight = int(rng.integers(0, 12)) * (3 if family.startswith(("v", "sop")) else 1)
        if family in ("mtbuf", "sopp", "sopk"):
            weight //= 3
        chosen += [values.pick(rng, pairs) for _ in range(weight)]
    return chosen or plain(target)


# ---- states ----------------------------------------------------------------------------------------------------------
def start(rng: Rng, *, mode: int | None = None, bad: float = 0.1, tame: bool = False) -> Start:
    """A state; `bad` is how likely some addresses are not valid. `tame`: all are, and aligned to 8 bytes."""
    mode = values.mode(rng) if mode is None else mode
    sgprs = values.words(rng, 104) if rng.random() < 0.5 else values.mixed(rng, 104)
    vgprs = values.rows(rng, ROWS)
    lane = np.arange(64, dtype=np.int64)
    stride = int(values.pick(rng, (4, 4, 8, 8, 0, 8, 16, -8, 12)))
    near = DATA + 0x4000 + int(rng.integers(0, 64)) * values.pick(rng, (8, 8, 8, 4, 1)) + stride * lane
    far = DATA + 0x2000 + rng.integers(0, DATA_BYTES // 8 - 0x800, size=64) * 8
    if rng.random() < 0.1:
        far += rng.integers(0, 4, size=64)
    if tame:
        near, far = DATA + 0x4000 + 8 * lane, DATA + 0x2000 + rng.integers(0, DATA_BYTES // 8 - 0x800, size=64) * 8
    elif rng.random() < 0.1:
        near = EDGE + 0x1000 - 128 + 4 * lane
    elif rng.random() < 0.06:
        near = ODD + int(rng.integers(0, 64)) * 4 + 4 * lane
    _pair(vgprs, NEAR, near)
    _pair(vgprs, FAR, far)
    _pair(vgprs, ANYWHERE, _pointers(mode, _anywhere(rng, far)))
    vgprs[LOCAL] = (int(rng.integers(0, 64)) * 4 + values.pick(rng, (4, 4, 8, 0)) * lane).astype(np.uint32)
    vgprs[LOCAL + 1] = rng.integers(0, 0x900, size=64, dtype=np.uint32) & np.uint32(
        values.pick(rng, (0xFFF, 0xFFFC, 0xFFF8, 0xFFF0))
    )
    vgprs[SMALL] = (
        (4 * lane).astype(np.uint32) if rng.random() < 0.6 else rng.integers(0, 0x100, size=64, dtype=np.uint32) * 4
    )
    vgprs[SMALL + 1] = rng.integers(0, 48, size=64, dtype=np.uint32) & np.uint32(values.pick(rng, (0x3C, 0x38, 0x3F)))
    if tame:
        vgprs[SMALL], vgprs[SMALL + 1] = 8 * lane, 8 * (lane & 1)
    elif rng.random() < 0.25:
        vgprs[SMALL + 1] = lane.astype(np.uint32)
    _pair(vgprs, WILD, _pointers(mode, _wild(rng, near if rng.random() < 0.5 else far)))
    if rng.random() < bad:
        _pair(vgprs, int(values.pick(rng, (NEAR, FAR, ANYWHERE))), _pointers(mode, _wild(rng, far)))
    _scalars(rng, sgprs)
    if tame:
        sgprs[list(OFFSETS)] = 8, 16, 0
    m0 = int(
        values.pick(
            rng, (0xFFFF_FFFF, 0xFFFF_FFFF, 0x0001_0800, 0x0010_0200, 0x400, 0, 3, 20, int(rng.integers(1 << 32)))
        )
    )
    data = rng.integers(0, 256, size=4096, dtype=np.uint8)
    if rng.random() < 0.5:
        data = values.mixed(rng, 1024).view(np.uint8)
    lds = int(values.pick(rng, (2048, 2048, 2048, 1000, 0, 64)))
    return Start(sgprs, vgprs, data, values.mask(rng), mode, m0, lds)


def _pair(vgprs: values.Words, n: int, addresses: Addresses) -> None:
    wide = addresses.astype(np.uint64)
    vgprs[n], vgprs[n + 1] = wide.astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)


def _pointers(mode: int, addresses: Addresses) -> Addresses:
    """Addresses as programs have them: with PTR32 those in an aperture lie in its window."""
    upper = addresses >> 32
    is_in_window = (mode & PTR32 != 0) & ((upper == SHARED >> 32) | (upper == PRIVATE >> 32))
    pointers: Addresses = np.where(is_in_window, upper + (addresses & 0xFFFF_FFFF), addresses)
    return pointers


def _anywhere(rng: Rng, far: Addresses) -> Addresses:
    kinds = np.stack(
        [far, SHARED + rng.integers(0, 256, size=64) * 8, PRIVATE + rng.integers(0, LANE_BYTES // 4 - 3, size=64) * 4]
    )
    which = rng.integers(3, size=1 if rng.random() < 0.5 else 64)
    chosen: Addresses = kinds[which, np.arange(64)]
    return chosen


def _wild(rng: Rng, good: Addresses) -> Addresses:
    bad = rng.choice(
        np.array(
            [0, 0xFFC, READ_ONLY + 8, READ_ONLY + 0xFFC, DEVICE + 16, DEVICE + 0xFFC, ODD, ODD + 0x3F0,
            ODD + ODD_BYTES - 4, ODD + ODD_BYTES - 2,
             DATA - 4, DATA + DATA_BYTES - 4, DATA + DATA_BYTES - 2, EDGE - 4, EDGE + 0xFFE, EDGE + 0x2FFC, 1 << 48,
             (1 << 63) - 4, -4,
             SHARED + 0x7FE, SHARED + 0x800, PRIVATE + LANE_BYTES - 4, PRIVATE + LANE_BYTES - 2, PRIVATE + LANE_BYTES,
             CODE + 0x8000],
            np.int64,
        ),
        64,
    )  # fmt: skip
    where = rng.random(64) < values.pick(rng, (0.02, 0.1, 1.0))
    chosen: Addresses = np.where(where, bad if rng.random() < 0.5 else bad[0], good)
    return chosen


def _scalars(rng: Rng, sgprs: values.Words) -> None:
    base = DATA + 0x4000
    sgprs[BASE : BASE + 2] = base & 0xFFFF_FFFF, base >> 32
    sgprs[list(OFFSETS)] = 4 * int(rng.integers(0, 12)), int(rng.integers(0, 40)), 4 * int(rng.integers(0, 5))
    raw, structured, swizzled = RESOURCES
    sgprs[raw : raw + 4] = base, 0, int(values.pick(rng, (0x8000, 0x8000, 0x100, 0x102, 0, 0xFFFF_FFFF))), 0x0002_7FAC
    stride = int(values.pick(rng, (4, 8, 16, 12, 64)))
    sgprs[structured : structured + 4] = base, stride << 16, int(values.pick(rng, (64, 30, 0x400))), _word3(rng)
    high = stride << 16 | 1 << 31
    sgprs[swizzled : swizzled + 4] = base, high, int(values.pick(rng, (64, 30, 0x400))), _word3(rng)
    sgprs[ANCHOR : ANCHOR + 2] = CODE, 0


def _word3(rng: Rng) -> int:
    formats = int(rng.integers(1, 15)) << 15 | int(values.pick(rng, (0, 1, 2, 3, 4, 5, 7))) << 12
    return 0xFAC | formats | int(rng.integers(4)) << 19 | int(rng.integers(4)) << 21 | int(rng.random() < 0.2) << 23
