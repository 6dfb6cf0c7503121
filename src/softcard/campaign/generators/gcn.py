"""Random kernels in GCN assembly that use only instructions common to GFX7 to GFX9.

The JIT engine and the reference engine must give the same results for them. A kernel has 256 work-items in
groups of 128. v1 is the work-item's number. Computations use v8 to v15 and s16 to s23, which are initialised
with loaded numbers. At the end, the kernel hashes all these registers into two numbers and stores them. All
generations accept the same instruction names, but a few programs have a different result on GFX9."""

from __future__ import annotations

from typing import Final

from softcard.campaign.generators.tree import Choices, Node, chance, leaf, lines, pick

GROUP: Final = 128
DEEPEST: Final = 3
VECTORS: Final = tuple(f"v{n}" for n in range(8, 16))
SCALARS: Final = tuple(f"s{n}" for n in range(16, 24))
SAVED: Final = 24
"""The first SGPR that saves EXEC masks, two SGPRs for each nesting level; loop counters follow them."""
COUNTERS: Final = 36
UNARY: Final = (
    "v_mov_b32", "v_not_b32", "v_bfrev_b32", "v_ffbh_u32", "v_ffbl_b32", "v_ffbh_i32", "v_cvt_f32_i32",
    "v_cvt_f32_u32", "v_cvt_u32_f32", "v_cvt_i32_f32", "v_cvt_f32_ubyte0", "v_cvt_f32_ubyte3", "v_trunc_f32",
    "v_rndne_f32", "v_ceil_f32", "v_floor_f32",
)  # fmt: skip
BINARY: Final = (
    "v_and_b32", "v_or_b32", "v_xor_b32", "v_lshlrev_b32", "v_lshrrev_b32", "v_ashrrev_i32", "v_min_u32", "v_max_u32",
    "v_min_i32", "v_max_i32", "v_mul_u32_u24", "v_mul_i32_i24", "v_mul_hi_u32_u24", "v_mul_hi_i32_i24", "v_add_f32",
    "v_sub_f32", "v_subrev_f32", "v_mul_f32", "v_min_f32", "v_max_f32",
)  # fmt: skip
BINARY3: Final = (
    "v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_bfm_b32", "v_bcnt_u32_b32", "v_mbcnt_lo_u32_b32",
    "v_mbcnt_hi_u32_b32", "v_ldexp_f32",
)  # fmt: skip
TERNARY: Final = (
    "v_mad_u32_u24", "v_mad_i32_i24", "v_bfe_u32", "v_bfe_i32", "v_bfi_b32", "v_fma_f32", "v_alignbit_b32",
    "v_alignbyte_b32", "v_min3_i32", "v_max3_u32", "v_med3_i32", "v_med3_u32", "v_sad_u8", "v_sad_u32", "v_lerp_u8",
)  # fmt: skip
COMPARISONS: Final = tuple(
    f"v_cmp_{how}_{kind}" for how in ("lt", "eq", "le", "gt", "ge") for kind in ("u32", "i32", "f32")
)
SCALAR1: Final = (
    "s_mov_b32", "s_not_b32", "s_brev_b32", "s_bcnt0_i32_b32", "s_bcnt1_i32_b32", "s_ff0_i32_b32", "s_ff1_i32_b32",
    "s_flbit_i32_b32", "s_sext_i32_i8", "s_sext_i32_i16", "s_abs_i32", "s_wqm_b32",
)  # fmt: skip
SCALAR2: Final = (
    "s_and_b32", "s_or_b32", "s_xor_b32", "s_andn2_b32", "s_orn2_b32", "s_nand_b32", "s_nor_b32", "s_xnor_b32",
    "s_lshl_b32", "s_lshr_b32", "s_ashr_i32", "s_add_u32", "s_sub_u32", "s_add_i32", "s_sub_i32", "s_addc_u32",
    "s_subb_u32", "s_min_i32", "s_max_u32", "s_mul_i32", "s_bfm_b32", "s_bfe_u32", "s_bfe_i32", "s_cselect_b32",
    "s_absdiff_i32",
)  # fmt: skip
SCALAR_COMPARISONS: Final = tuple(f"s_cmp_{how}_{kind}" for how in ("eq", "lg", "lt", "ge") for kind in ("u32", "i32"))
FLOATS: Final = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-4.0")
_HEAD: Final = f"""s_load_dwordx4 s[4:7], s[0:1], 0x0
s_mov_b32 m0, -1
s_lshl_b32 s10, s2, {GROUP.bit_length() - 1}
v_or_b32 v1, s10, v0
v_lshlrev_b32 v2, 2, v0
s_waitcnt lgkmcnt(0)
v_mad_u64_u32 v[4:5], vcc, v1, 4, s[6:7]
flat_load_dword v8, v[4:5]
s_waitcnt vmcnt(0) lgkmcnt(0)
v_mov_b32 v9, v1
v_not_b32 v10, v8
v_lshlrev_b32 v11, 7, v8
v_cvt_f32_u32 v12, v8
v_cvt_f32_i32 v13, v10
v_mov_b32 v14, s2
v_mul_lo_u32 v15, v8, v8
s_mov_b32 s16, s2
s_mov_b32 s17, 0x12345678
s_mov_b32 s18, 7
s_mov_b32 s19, -3
s_mov_b32 s20, 0x80000000
s_mov_b32 s21, 0x3f9d70a4
s_mov_b32 s22, 31
s_mov_b32 s23, 0
s_mov_b64 vcc, s[16:17]"""
_TAIL: Final = """v_mad_u64_u32 v[4:5], vcc, v1, 8, s[4:5]
flat_store_dwordx2 v[4:5], v[6:7]
s_endpgm
"""
PRIME: Final = "0x9e3779b1"


def make(choices: Choices) -> Node:
    """Draw the code of a random kernel."""
    return _Kernel(choices).node()


class _Kernel:
    """The random generator of one kernel in GCN assembly."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.labels = 0

    def node(self) -> Node:
        body = lines(*(self._statement(0) for _ in range(self.choices.integer(4, 16))))
        return lines(leaf(_HEAD), body, leaf("v_mov_b32 v6, 0\nv_mov_b32 v7, 0"), self._hashed(), leaf(_TAIL))

    @staticmethod
    def _hashed() -> Node:
        """Return code that hashes all computed registers, with one bit pattern for all NaNs.

        The patterns of NaNs differ between GPU generations.
        """
        made = []
        for number, name in enumerate((*VECTORS, *SCALARS)):
            half = f"v{6 + number % 2}"
            text = [f"v_mov_b32 v3, {name}", "v_cmp_u_f32 vcc, v3, v3", "v_mov_b32 v4, 0x7fc00000"]
            text += ["v_cndmask_b32 v3, v3, v4, vcc", f"v_xor_b32 {half}, {half}, v3", f"v_mov_b32 v3, {PRIME}"]
            text += [f"v_mul_lo_u32 {half}, {half}, v3"]
            made.append(Node("\n".join(text), may_go=True))
        return lines(*made)

    def _statement(self, depth: int) -> Node:
        how = self.choices.integer(0, 19)
        if how == 0 and depth == 0:
            made = self._exchange()
        elif how == 1 and depth < DEEPEST:
            made = self._masked(depth)
        elif how == 2 and depth < DEEPEST:
            made = self._loop(depth)
        elif how == 3 and depth < DEEPEST:
            made = self._skipped(depth)
        elif how <= 12:
            made = leaf(self._vector())
        else:
            made = leaf(self._scalar())
        made.may_go = True
        return made

    def _block(self, depth: int) -> Node:
        return lines(*(self._statement(depth + 1) for _ in range(self.choices.integer(1, 5))))

    def _label(self) -> str:
        self.labels += 1
        return f"label_{self.labels}"

    # ---- control -----------------------------------------------------------------------------------------------------

    def _masked(self, depth: int) -> Node:
        """Draw random code for the lanes that a comparison selects, and possibly code for the other lanes."""
        saved = f"s[{SAVED + 2 * depth}:{SAVED + 2 * depth + 1}]"
        compared, skip = self._comparison(), ""
        if chance(self.choices, 50):
            label = self._label()
            skip = f"s_cbranch_execz {label}\n"
            ending = f"{label}:\ns_mov_b64 exec, {saved}"
        else:
            ending = f"s_mov_b64 exec, {saved}"
        head = f"{compared}\ns_and_saveexec_b64 {saved}, vcc\n{skip}"
        if chance(self.choices, 50):
            return Node(f"{head}{{}}\n{ending}", [self._block(depth)])
        turned = f"s_andn2_b64 exec, {saved}, exec"
        other = f"{ending.removesuffix(f's_mov_b64 exec, {saved}')}{turned}\n{{}}\ns_mov_b64 exec, {saved}"
        return Node(f"{head}{{}}\n{other}", [self._block(depth), self._block(depth)])

    def _loop(self, depth: int) -> Node:
        """Draw a loop with a small count that is the same for all lanes."""
        counter, label = f"s{COUNTERS + depth}", self._label()
        head = f"s_mov_b32 {counter}, {self.choices.integer(1, 5)}\n{label}:"
        ending = f"s_sub_u32 {counter}, {counter}, 1\ns_cmp_lg_u32 {counter}, 0\ns_cbranch_scc1 {label}"
        return Node(f"{head}\n{{}}\n{ending}", [self._block(depth)])

    def _skipped(self, depth: int) -> Node:
        """Draw random instructions that a scalar branch may skip."""
        label = self._label()
        name = pick(self.choices, SCALAR_COMPARISONS)
        head = f"{name} {self._register()}, {self._source(scalar=True)}"
        branch = pick(self.choices, ("s_cbranch_scc0", "s_cbranch_scc1"))
        return Node(f"{head}\n{branch} {label}\n{{}}\n{label}:", [self._block(depth)])

    def _exchange(self) -> Node:
        """Draw an exchange through LDS: each work-item reads values that others of its work-group wrote."""
        value, index, target = (pick(self.choices, VECTORS) for _ in range(3))
        text = [f"ds_write_b32 v2, {value}", "s_waitcnt lgkmcnt(0)", "s_barrier"]
        text += [f"v_and_b32 v3, {GROUP - 1}, {index}" if GROUP <= 64 else f"v_bfe_u32 v3, {index}, 0, 7"]
        text += ["v_lshlrev_b32 v3, 2, v3", f"ds_read_b32 {target}, v3", "s_waitcnt lgkmcnt(0)", "s_barrier"]
        return leaf("\n".join(text))

    # ---- instructions ------------------------------------------------------------------------------------------------

    def _vector(self) -> str:
        how = self.choices.integer(0, 9)
        target = pick(self.choices, VECTORS)
        if how <= 1:
            return f"{pick(self.choices, UNARY)} {target}, {self._source()}"
        if how <= 5:
            return f"{pick(self.choices, BINARY)} {target}, {self._source()}, {pick(self.choices, VECTORS)}"
        if how == 6:
            return f"{pick(self.choices, BINARY3)} {target}, {self._inline()}, {pick(self.choices, VECTORS)}"
        if how == 7:
            one, other = pick(self.choices, VECTORS), pick(self.choices, VECTORS)
            return f"{pick(self.choices, TERNARY)} {target}, {one}, {other}, {self._inline()}"
        if how == 8:
            return self._comparison()
        return f"v_cndmask_b32 {target}, {pick(self.choices, VECTORS)}, {pick(self.choices, VECTORS)}, vcc"

    def _comparison(self) -> str:
        return f"{pick(self.choices, COMPARISONS)} vcc, {self._source()}, {pick(self.choices, VECTORS)}"

    def _scalar(self) -> str:
        how = self.choices.integer(0, 5)
        target = self._register()
        if how == 0:
            return f"{pick(self.choices, SCALAR1)} {target}, {self._source(scalar=True)}"
        if how == 1:
            name = pick(self.choices, SCALAR_COMPARISONS)
            return f"{name} {self._register()}, {self._source(scalar=True)}"
        if how == 2:
            return f"s_mov_b32 {target}, {pick(self.choices, ('vcc_lo', 'vcc_hi', 'exec_lo', 'exec_hi'))}"
        return f"{pick(self.choices, SCALAR2)} {target}, {self._register()}, {self._source(scalar=True)}"

    def _register(self) -> str:
        return pick(self.choices, SCALARS)

    def _inline(self) -> str:
        """Draw a random operand of an instruction: a vector register, a scalar register, or an inline constant."""
        how = self.choices.integer(0, 3)
        if how <= 1:
            return pick(self.choices, VECTORS)
        return self._register() if how == 2 else self._constant()

    def _constant(self) -> str:
        return pick(self.choices, FLOATS) if chance(self.choices, 30) else str(self.choices.integer(-16, 64))

    def _source(self, scalar: bool = False) -> str:
        how = self.choices.integer(0, 4)
        if how == 0:
            return f"{self.choices.integer(65, (1 << 32) - 1):#x}"
        if how == 1:
            return self._constant()
        return pick(self.choices, SCALARS if scalar or how == 2 else VECTORS)
