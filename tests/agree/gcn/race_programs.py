"""Random programs of waves that share memory, in assembly text: accesses of all kinds and what brings them into order.

All that is gone through up to three times. In the end each work-item stores what it has loaded, and a dword of LDS,
where no other does.
"""

from __future__ import annotations

from typing import Final

import numpy as np

SIZES: Final = {"byte": 0, "short": 1, "dword": 2, "dwordx2": 3, "dwordx4": 4}
"""How many low bits of an address are 0."""
STARTS: Final = ("s_mov_b32 m0, -1", "s_mov_b32 s4, 0x200000", "v_readfirstlane_b32 s8, v0", "v_mov_b32 v5, 0")
MASKS: Final = (("exec", 1), ("exec_lo", 0xFF00FF), ("exec_hi", 0), ("exec", 0), ("exec_lo", 0))
OWN_LOADS: Final = 0x1000
OWN_LDS: Final = 0x4000
END: Final = 0x5000
"""Offsets of what is stored in the end."""
DATA: Final = 0x20_0000
SHARED: Final = 0x1000
"""Bytes that programs with groups apart only load."""


class Maker:
    """Writes one program for a target that has `v_add_u32` with or without a carry: `fewest` to `most` accesses."""

    fewest, most = 3, 15

    def __init__(self, rng: np.random.Generator, name: str) -> None:
        self.rng = rng
        self.carry = "vcc, " if name == "gfx803" else ""
        self.lines = list(STARTS)

    def text(self) -> str:
        """The program, without its last instruction."""
        rounds = int(self.rng.integers(1, 4))
        self._put(f"s_mov_b32 s20, {rounds}", "again:")
        for number in range(int(self.rng.integers(self.fewest, self.most + 1))):
            self._access()
            if self._chance(0.2):
                self._burst()
            self._order()
            if self._chance(0.07):
                self._branch(number)
        self._put("s_sub_u32 s20, s20, 1", "s_cmp_lg_u32 s20, 0", "s_cbranch_scc1 again")
        self._end()
        return "|".join(self.lines)

    def _chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def _pick(self, *found: str) -> str:
        return found[int(self.rng.integers(len(found)))]

    def _put(self, *lines: str) -> None:
        self.lines += lines

    def _add(self, to: str, a: str, b: str) -> None:
        self._put(f"v_add_u32 {to}, {self.carry}{a}, {b}")

    def _address(self, align: int) -> None:
        """v3: an offset, v4: the address of it in data."""
        number, shift = (int(self.rng.integers(n)) for n in (64, 5))
        ways = (
            (f"v_lshlrev_b32 v3, {shift}, v0",),
            (f"v_mov_b32 v3, {number & 15 << 2}",),
            ("v_and_b32 v3, 63, v0", f"v_lshlrev_b32 v3, {shift}, v3"),
            (f"v_xor_b32 v3, {number}, v0", "v_lshlrev_b32 v3, 2, v3"),
            (f"v_mul_u32_u24 v3, {number | 1}, v0", "v_and_b32 v3, 0xfc, v3"),
            ("v_mov_b32 v3, s8", f"v_lshrrev_b32 v3, {shift}, v3"),
            ("v_lshlrev_b32 v3, 2, v0", "v_and_b32 v3, 0x7c, v3"),
            ("v_lshrrev_b32 v3, 4, v0", "v_lshlrev_b32 v3, 6, v3"),
            ("v_mov_b32 v3, 0",),
        )
        self._put(*ways[int(self.rng.integers(len(ways)))])
        if self._chance(0.3):
            self._add("v3", str(4 * int(self.rng.integers(40))), "v3")
        self._put(f"v_lshrrev_b32 v3, {align}, v3", f"v_lshlrev_b32 v3, {align}, v3")
        self._add("v4", "s4", "v3")

    def _access(self) -> None:
        size = str(self.rng.choice(list(SIZES), p=(0.1, 0.1, 0.5, 0.15, 0.15)))
        self._address(SIZES[size])
        if self._chance(0.4):
            self._put(f"v_mov_b32 v8, {self._pick('v0', 's8', '7', 's0')}")
        if self._chance(0.25):
            which, mask = MASKS[int(self.rng.integers(len(MASKS)))]
            self._put(f"s_mov_b{64 if which == 'exec' else 32} {which}, {mask:#x}")
        wide = {"dwordx2": "{}:{}", "dwordx4": "{}:{}"}
        last = {"dwordx2": 1, "dwordx4": 3}.get(size, 0)
        from_, to = (f"v[{wide[size].format(n, n + last)}]" if last else f"v{n}" for n in (8, 12))
        local = {"byte": "u8", "short": "u16", "dwordx2": "b64"}.get(size, "b32")
        store = {"byte": "b8", "short": "b16"}.get(size, local)
        pair, single = ("v[8:9]", "v[12:13]") if local == "b64" else ("v8", "v12"), int(self.rng.integers(1, 40))
        glc = " glc" if self._chance(0.2) else ""
        load = {"byte": "ubyte", "short": "ushort"}.get(size, size)
        self._put(
            self._pick(
                *(f"flat_store_{size} v[4:5], {from_}",) * 2,
                *(f"flat_load_{load} {to}, v[4:5]{glc}",) * 2,
                f"ds_write_{store} v3, {pair[0]}",
                f"ds_read_{local} {pair[1]}, v3",
                f"ds_write2_b32 v3, v8, v9 offset1:{single}" if SIZES[size] >= 2 else "ds_add_u32 v3, v8",
                f"ds_read2_b32 v[12:13], v3 offset1:{single}" if SIZES[size] >= 2 else "ds_read_u8 v12, v3",
                self._pick("ds_add_u32 v3, v8", "ds_add_rtn_u32 v12, v3, v8") if SIZES[size] >= 2 else "s_nop 0",
                self._pick("flat_atomic_add v[4:5], v8", "flat_atomic_or v12, v[4:5], v8 glc")
                if SIZES[size] >= 2
                else "s_nop 1",
                f"s_load_dword s12, s[4:5], {4 * int(self.rng.integers(16)):#x}",
            ),
            "s_mov_b64 exec, -1",
        )

    def _burst(self) -> None:
        """Loads that wait for nothing: at three bases and constants, in any order."""
        self._address(2)
        self._put(f"v_mov_b32 v6, {self._pick('0', 's8', '64')}", "v_lshlrev_b32 v7, 2, v0")
        if self._chance(0.2):
            self._put(f"s_mov_b32 exec_lo, {self._pick('0xffff', '0xff', '0x10001', '-1')}")
        for _ in range(int(self.rng.integers(2, 9))):
            base, a, b = self._pick("v3", "v6", "v7"), *(int(n) for n in self.rng.integers(0, 40, 2))
            self._put(
                self._pick(
                    *(f"ds_read2_b32 v[12:13], {base} offset0:{a} offset1:{b}",) * 3,
                    *(f"ds_read_b32 v12, {base} offset:{4 * a}",) * 2,
                    f"ds_read_u8 v14, {base} offset:{a}",
                    "flat_load_dword v15, v[4:5]",
                )
            )
        self._put("s_mov_b64 exec, -1")

    def _order(self) -> None:
        if self._chance(0.33):
            self._put(self._pick("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt lgkmcnt(0)"))
        if self._chance(0.2):
            self._put("s_barrier")
        if self._chance(0.1):
            self._put("buffer_wbinvl1_vol")

    def _branch(self, number: int) -> None:
        self._put(f"s_cmp_eq_u32 s8, {64 * int(self.rng.integers(3))}", f"s_cbranch_scc1 on{number}")
        self._put(self._pick("s_endpgm", "s_nop 0"), f"on{number}:")

    def _end(self) -> None:
        self._put("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_barrier")
        self._own(4, OWN_LOADS)
        self._put("flat_store_dwordx4 v[4:5], v[12:15]", "v_lshlrev_b32 v3, 2, v0", "ds_read_b32 v12, v3")
        self._put("s_waitcnt lgkmcnt(0)")
        self._own(2, OWN_LDS)
        self._put("flat_store_dword v[4:5], v12")

    def _own(self, shift: int, offset: int) -> None:
        """v4: a place of the work-item's own."""
        self._put(f"s_mul_i32 s13, s0, {192 << shift}", f"v_lshlrev_b32 v4, {shift}, v0")
        self._add("v4", "s13", "v4")
        self._put(f"s_add_u32 s14, s4, {offset:#x}")
        self._add("v4", "s14", "v4")


class Users(Maker):
    """Programs that compute with what they load; some waves or lanes do not store it in the end."""

    def _access(self) -> None:
        super()._access()
        if self._chance(0.3):
            ways = (
                ("v_mov_b32 v8, v12",), (f"v_add_u32 v8, {self.carry}v12, v13",), ("v_mov_b32 v12, 0",),
                ("v_readlane_b32 s21, v12, 5", "v_mov_b32 v8, s21"), ("ds_bpermute_b32 v8, v3, v12",),
                ("v_cmp_eq_u32 vcc, 7, v12", "v_cndmask_b32 v8, v8, v0, vcc"),
            )  # fmt: skip
            self._put(*ways[int(self.rng.integers(len(ways)))])

    def _end(self) -> None:
        ways = (("s_cmp_eq_u32 s8, 64", "s_cbranch_scc1 last"), ("s_mov_b64 exec, 0xff00",), ("s_mov_b64 exec, 0",), ())
        self._put(*ways[int(self.rng.integers(len(ways)))])
        super()._end()
        self._put("last:")


class Apart(Maker):
    """Programs whose groups store each to bytes of its own, beside each other, and load what they share.

    There are barriers between what work-items do with each other's bytes. Now and then a mistake.
    """

    mistakes = 0.01

    def __init__(self, rng: np.random.Generator, name: str, items: int) -> None:
        super().__init__(rng, name)
        self.items = items
        gap = int(rng.choice([0, 0, 4, 64, 1]))
        self.sizes = ["byte"] if gap & 1 else list(SIZES)
        self._put(f"s_mul_i32 s16, s0, {16 * items + gap}", f"s_add_u32 s16, s16, {DATA + SHARED:#x}")
        self._put(f"s_mov_b32 s17, {DATA:#x}", "v_lshlrev_b32 v6, 4, v0")

    def text(self) -> str:
        """The program, without its last instruction."""
        self._put(f"s_mov_b32 s20, {int(self.rng.integers(1, 4))}", "again:")
        for _ in range(int(self.rng.integers(self.fewest, self.most + 1))):
            if self._chance(self.mistakes):
                self._access()
            elif self._chance(0.3):
                self._shared()
            else:
                self._own_bytes()
        self._put("s_sub_u32 s20, s20, 1", "s_cmp_lg_u32 s20, 0", "s_cbranch_scc1 again")
        self._put("s_waitcnt vmcnt(0) lgkmcnt(0)")
        self._at("s16", "v6")
        self._put(f"flat_store_{self._pick(*self.sizes[:1])} v[4:5], v12")
        return "|".join(self.lines)

    def _at(self, base: str, offset: str) -> None:
        self._add("v4", base, offset)

    def _some(self) -> None:
        if self._chance(0.3):
            which, mask = MASKS[int(self.rng.integers(len(MASKS)))]
            self._put(f"s_mov_b{64 if which == 'exec' else 32} {which}, {mask:#x}")

    def _shared(self) -> None:
        """Load what all groups share."""
        size = self._pick(*SIZES)
        self._address(SIZES[size])
        self._at("s17", "v3")
        self._some()
        load = {"byte": "ubyte", "short": "ushort"}.get(size, size)
        to = {"dwordx2": "v[12:13]", "dwordx4": "v[12:15]"}.get(size, "v12")
        scalar = f"s_load_dword s12, s[18:19], {4 * int(self.rng.integers(16)):#x}"
        self._put("s_mov_b32 s18, s17", "s_mov_b32 s19, 0")
        self._put(self._pick(*(f"flat_load_{load} {to}, v[4:5]",) * 4, scalar), "s_mov_b64 exec, -1")

    def _own_bytes(self) -> None:
        """Load or store bytes of the work-item's own, or load another's between barriers."""
        size = self._pick(*self.sizes)
        from_, to = ({"dwordx2": f"v[{n}:{n + 1}]", "dwordx4": f"v[{n}:{n + 3}]"}.get(size, f"v{n}") for n in (8, 12))
        load = {"byte": "ubyte", "short": "ushort"}.get(size, size)
        local = {"byte": "u8", "short": "u16"}.get(size, "b32"), {"byte": "b8", "short": "b16"}.get(size, "b32")
        between = self._chance(0.3)
        if between:
            self._put("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_barrier")
            self._put(f"v_xor_b32 v3, {int(self.rng.integers(64))}, v0", "v_lshlrev_b32 v3, 4, v3")
            self._at("s16", "v3")
        else:
            self._put("v_mov_b32 v3, v6")
            self._at("s16", "v6")
        if not between:
            self._some()
        loads = f"flat_load_{load} {to}, v[4:5]", f"ds_read_{local[0]} v12, v3"
        stores = f"flat_store_{size} v[4:5], {from_}", f"ds_write_{local[1]} v3, v8"
        self._put(self._pick(*loads, *(() if between else stores * 2)), "s_mov_b64 exec, -1")
        if between:
            self._put("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_barrier")
