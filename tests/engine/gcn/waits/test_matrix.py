"""Wait states of matrix instructions, dot products and swaps: the least that is enough, and one less."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from softcard.check.waits import code_object_waits
from softcard.engine.gcn.waits.board import AFTER_F64, LONGEST_MATRIX, PAIRS, Missed
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.hazards import hazard, load_hazards
from softcard.isa.gcn.semantics.matrix.table import matrices
from softcard.isa.gcn.target import target
from tests.engine.gcn.rig import CODE
from tests.engine.gcn.waits.planted import look

MEASURED = Path(__file__).parents[3] / "vectors" / "gcn" / "hazards_measured.tsv"
"""What LLVM 22 left between two instructions: processor, shape, use of the result, wait states."""


@dataclass(frozen=True)
class Two:
    """Two instructions with a hazard on a processor, and the wait states that it needs. `between` lies between them."""

    hazard: str
    processor: str
    before: str
    after: str
    need: int
    between: str = ""

    def found(self, states: int) -> list[Missed]:
        """What is missed with so many wait states between the two."""
        lines = [self.before, self.between, *nops(states), self.after, "s_endpgm"]
        return look("|".join(filter(None, lines)), self.processor)


def nops(states: int) -> list[str]:
    """The s_nop of so many wait states."""
    return [f"s_nop {min(states - at, 16) - 1}" for at in range(0, states, 16)]


F16 = {
    "gfx908": "v_mfma_f32_{}f16 a[0:{}], v[40:41], v[42:43], {}",
    "gfx90a": "v_mfma_f32_{}f16 v[0:{}], v[40:41], v[42:43], {}",
    "gfx942": "v_mfma_f32_{}_f16 v[0:{}], v[40:41], v[42:43], {}",
    "gfx950": "v_mfma_f32_{}_f16 v[0:{}], v[40:41], v[42:43], {}",
}
SHAPES = {"4x4x4": 3, "16x16x16": 3, "32x32x8": 15}
"""The last register of D."""


def f16(processor: str, shape: str, addend: str = "0") -> str:
    """A matrix instruction of halves whose result is from a0 or v0 on."""
    name = "4x4x4_16b" if shape == "4x4x4" and processor >= "gfx942" else shape
    return F16[processor].format(name, SHAPES[shape], addend)


F32 = "v_mfma_f32_16x16x4_f32 v[0:3], v40, v42, 0"
SMALL_F64 = {"gfx90a": "v_mfma_f64_4x4x4f64", "gfx942": "v_mfma_f64_4x4x4_4b_f64", "gfx950": "v_mfma_f64_4x4x4_4b_f64"}
LARGE_F64 = {"gfx90a": "v_mfma_f64_16x16x4f64", "gfx942": "v_mfma_f64_16x16x4_f64", "gfx950": "v_mfma_f64_16x16x4_f64"}


def small(processor: str, d: str = "v[0:1]", c: str = "0") -> str:
    """The small matrix instruction of doubles."""
    return f"{SMALL_F64[processor]} {d}, v[40:41], v[42:43], {c}"


def large(processor: str, d: str = "v[0:7]", c: str = "0") -> str:
    """The large matrix instruction of doubles."""
    return f"{LARGE_F64[processor]} {d}, v[40:41], v[42:43], {c}"


def scaled(cbsz: int, blgp: int, shape: str = "16x16x128", d: int = 0, scale: int = 60) -> str:
    """A matrix instruction with scales, with factors of these formats; v60 and v61 are the scales."""
    last, sizes = (3 if shape == "16x16x128" else 15), (8, 8, 6, 6, 4)
    factors = f"v[40:{39 + sizes[cbsz]}], v[48:{47 + sizes[blgp]}]"
    return f"v_mfma_scale_f32_{shape}_f8f6f4 v[{d}:{d + last}], {factors}, 0, v{scale}, v61 cbsz:{cbsz} blgp:{blgp}"


READ, STORE, WRITE = "v_mov_b32_e32 v30, v0", "global_store_dword v[50:51], v0, off", "v_mov_b32_e32 v0, v31"
SPARSE = "v_smfmac_f32_16x16x32_f16 v[0:3], v[40:41], v[44:47], v7"
DOT = "v_dot2_f32_f16 v0, v40, v41, v42"
CASES = (
    *(Two("matrix-exec", p, "v_cmpx_eq_u32_e32 vcc, v40, v41", f16(p, "4x4x4"), 4) for p in F16),
    Two("matrix-exec", "gfx908", "v_cmpx_eq_u32_e32 vcc, v40, v41", "v_accvgpr_write_b32 a0, v3", 4),
    *(Two("matrix-source", p, "v_mov_b32_e32 v41, 0", f16(p, "16x16x16"), 2) for p in F16),
    Two("matrix-source", "gfx908", "v_mov_b32_e32 v41, 0", "v_accvgpr_write_b32 a0, v41", 2),
    Two("matrix-source", "gfx942", "v_mov_b32_e32 v7, 0", SPARSE, 2),
    Two("matrix-result-source", "gfx908", f16("gfx908", "32x32x8"), "v_mfma_f32_4x4x1f32 a[20:23], a3, v1, 0", 4),
    *(
        Two("matrix-result-source", p, before, "v_mfma_f32_4x4x1f32 v[20:23], v1, v50, 0", need)
        for p, before, need in (
            ("gfx90a", f16("gfx90a", "32x32x8"), 19),
            ("gfx90a", small("gfx90a"), 6),
            ("gfx90a", large("gfx90a"), 11),
            ("gfx942", F32, 10),
            ("gfx942", large("gfx942"), 11),
            ("gfx950", F32, 10),
            ("gfx950", f16("gfx950", "4x4x4"), 5),
            ("gfx950", f16("gfx950", "16x16x16"), 8),
            ("gfx950", large("gfx950"), 19),
        )
    ),
    *(
        Two("matrix-result-same-addend", p, f16(p, "4x4x4"), f16(p, "4x4x4", "v[0:3]"), 2) for p in ("gfx942", "gfx950")
    ),
    *(Two("matrix-result-same-addend", p, small(p), small(p, c="v[0:1]"), 4) for p in SMALL_F64),
    Two(
        "matrix-result-same-addend", "gfx942", f16("gfx942", "4x4x4"),
        SPARSE, 2,
    ),
    *(
        Two("matrix-result-addend", p, f16(p, "32x32x8"), after.format("v[60:63]", "v[4:7]"), need)
        for p, after, need in (
            ("gfx90a", "v_mfma_f32_16x16x16f16 {}, v[40:41], v[42:43], {}", 16),
            ("gfx942", "v_mfma_f32_16x16x16_f16 {}, v[40:41], v[42:43], {}", 9),
            ("gfx950", "v_mfma_f32_16x16x16_f16 {}, v[40:41], v[42:43], {}", 10),
        )
    ),
    Two(
        "matrix-result-addend", "gfx908", f16("gfx908", "32x32x8"),
        "v_mfma_f32_16x16x16f16 a[60:63], v[40:41], v[42:43], a[4:7]", 2,
    ),
    Two(
        "matrix-result-addend-f32", "gfx908", f16("gfx908", "32x32x8"),
        "v_mfma_f32_16x16x4f32 a[60:63], v40, v42, a[4:7]", 2,
    ),
    *(
        Two("matrix-result-addend-f32", p, before, "v_mfma_f32_16x16x4f32 v[60:63], v40, v42, v[2:5]", need)
        for p, before, need in (
            ("gfx90a", f16("gfx90a", "32x32x8"), 16),
            ("gfx942", f16("gfx942", "32x32x8"), 9),
            ("gfx942", F32, 8),
            ("gfx942", large("gfx942"), 9),
            ("gfx950", f16("gfx950", "32x32x8"), 10),
            ("gfx950", f16("gfx950", "4x4x4"), 3),
            ("gfx950", large("gfx950"), 17),
        )
    ),
    *(
        Two("matrix-result-addend-f64", p, before, large(p, "v[60:67]", "v[2:9]"), need)
        for p, before, need in (
            ("gfx90a", f16("gfx90a", "32x32x8"), 17),
            ("gfx90a", large("gfx90a"), 9),
            ("gfx942", f16("gfx942", "32x32x8"), 9),
            ("gfx942", small("gfx942", "v[2:3]"), 4),
            ("gfx950", large("gfx950"), 17),
        )
    ),
    *(
        Two(f"matrix-result-{use}", p, before, after, need)
        for p, before, read, memory, write in (
            ("gfx90a", f16("gfx90a", "4x4x4"), 5, 5, 5),
            ("gfx90a", f16("gfx90a", "32x32x8"), 19, 19, 19),
            ("gfx90a", small("gfx90a"), 6, 9, 6),
            ("gfx90a", large("gfx90a"), 11, 18, 11),
            ("gfx942", F32, 10, 10, 10),
            ("gfx942", f16("gfx942", "16x16x16"), 7, 7, 7),
            ("gfx942", "v_smfmac_f32_32x32x16_f16 v[0:15], v[40:41], v[44:47], v60", 11, 11, 11),
            ("gfx942", "v_mfma_f32_32x32x1_2b_f32 v[0:31], v40, v41, 0", 18, 18, 18),
            ("gfx950", "v_mfma_f32_32x32x4_2b_f16 v[0:31], v[40:41], v[42:43], 0", 20, 20, 20),
            ("gfx950", f16("gfx950", "4x4x4"), 5, 5, 5),
            ("gfx950", large("gfx950"), 19, 18, 11),
        )
        for use, after, need in (
            ("read", "v_add_u32_e32 v80, 1, v0", read),
            ("memory", STORE.replace("50:51", "90:91"), memory),
            ("memory", "ds_write_b32 v90, v0", memory),
            ("overwritten", "v_mov_b32_e32 v0, 1", write),
            ("overwritten", "global_load_dword v0, v[90:91], off", write),
        )
    ),
    *(
        Two("matrix-result-read", "gfx908", f16("gfx908", shape), "v_accvgpr_read_b32 v30, a1", need)
        for shape, need in (("4x4x4", 4), ("16x16x16", 10), ("32x32x8", 18))
    ),
    *(
        Two("matrix-result-overwritten", "gfx908", f16("gfx908", shape), "v_accvgpr_write_b32 a1, 0", need)
        for shape, need in (("4x4x4", 1), ("16x16x16", 7), ("32x32x8", 15))
    ),
    *(
        Two("matrix-addend-overwritten", p, f16(p, shape, addend), after, need)
        for p, shape, addend, after, need in (
            ("gfx908", "16x16x16", "a[20:23]", "v_accvgpr_write_b32 a21, 0", 5),
            ("gfx908", "32x32x8", "a[20:35]", "v_accvgpr_write_b32 a21, 0", 13),
            ("gfx90a", "4x4x4", "v[20:23]", "v_mov_b32_e32 v21, 0", 1),
            ("gfx90a", "32x32x8", "v[20:35]", "v_mov_b32_e32 v21, 0", 15),
            ("gfx942", "16x16x16", "v[20:23]", "v_mov_b32_e32 v21, 0", 3),
            ("gfx950", "32x32x8", "v[20:35]", "v_mov_b32_e32 v21, 0", 7),
        )
    ),
    *(
        Two(f"matrix-result-{use}", "gfx950", before, after, need)
        for before, need in (  # what LLVM 22 leaves
            (scaled(0, 0), 12), (scaled(4, 4), 8), (scaled(0, 4), 12), (scaled(2, 1), 12), (scaled(2, 3), 8),
            (scaled(1, 1, "32x32x64"), 20), (scaled(3, 0, "32x32x64"), 20), (scaled(2, 4, "32x32x64"), 12),
            ("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[40:47], v[48:55], 0", 12),
            ("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[40:43], v[48:53], 0 cbsz:4 blgp:2", 8),
        )
        for use, after in (
            ("read", READ), ("memory", STORE.replace("50:51", "90:91")), ("source", scaled(4, 4, d=80, scale=2)),
        )
    ),
    Two("matrix-source", "gfx950", "v_mov_b32_e32 v61, 0", scaled(0, 0), 2),
    Two("acc-write-source", "gfx908", "v_accvgpr_write_b32 a5, 1", "v_mfma_f32_4x4x1f32 a[0:3], a5, v1, 0", 3),
    Two("acc-write-source", "gfx908", "v_accvgpr_write_b32 a5, 1", "v_accvgpr_read_b32 v3, a5", 3),
    Two("acc-write-addend", "gfx908", "v_accvgpr_write_b32 a2, 1", "v_mfma_f32_4x4x1f32 a[0:3], v2, v1, a[0:3]", 1),
    Two("acc-read-memory", "gfx908", "v_accvgpr_read_b32 v3, a5", "global_store_dword v[50:51], v3, off", 2),
    *(
        Two("dot-result", p, DOT, after, 3)
        for p in ("gfx90a", "gfx942", "gfx950")
        for after in (
            READ, WRITE, STORE, "v_dot2_f32_f16 v1, v0, v41, v42", "v_dot4_i32_i8 v1, v40, v41, v0",
        )
    ),
    *(
        Two("matrix-f64-fma", p, small(p), "v_fma_f64 v[60:61], v[62:63], v[64:65], v[66:67]", 2) for p in SMALL_F64
    ),
    Two("matrix-f64-memory", "gfx90a", "v_mov_b32_e32 v60, 0", "ds_write_b32 v61, v60", 1, small("gfx90a")),
    *(
        Two("trans-result", p, "v_rcp_f32_e32 v0, v1", after, 1)
        for p in ("gfx942", "gfx950")
        for after in (READ, "v_fma_f32 v1, v2, v3, v0")
    ),
    Two("part-result", "gfx942", "v_add_f16_sdwa v0, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE", READ, 1),
    Two("part-result", "gfx942", "v_mad_f16 v0, v1, v2, v3 op_sel:[0,0,0,1]", WRITE, 1),
    Two("part-result", "gfx950", "v_cvt_sr_fp8_f32 v0, v1, v2 op_sel:[0,0,1,0]", READ, 1),
    Two("swap-source", "gfx950", "v_mov_b32_e32 v0, 1", "v_permlane16_swap_b32 v1, v0", 2),
    Two("swap-source", "gfx950", "v_mov_b32_e32 v0, 1", "v_permlane32_swap_b32 v0, v1", 2),
    Two("swap-exec", "gfx950", "v_cmpx_eq_u32_e32 vcc, v40, v41", "v_permlane32_swap_b32 v0, v1", 4),
)  # fmt: skip


@pytest.mark.parametrize("two", CASES, ids=lambda two: f"{two.hazard}-{two.processor}-{two.need}")
def test_the_least_wait_is_enough_and_one_state_less_is_a_finding(two: Two) -> None:
    [missed] = two.found(two.need - 1)
    assert missed.hazard == hazard(two.hazard)
    assert (missed.before.pc, missed.need) == (CODE, "s_nop 0")
    assert missed.after.pc == CODE + sum(
        len(assemble(target(two.processor), text)) for text in (two.before, two.between, *nops(two.need - 1)) if text
    )
    assert two.found(two.need) == []


def test_every_hazard_with_needs_by_processor_has_a_case() -> None:
    names = {each.id.partition("/")[2] for each in load_hazards().values() if each.needs}
    assert names == {two.hazard for two in CASES}
    assert names <= PAIRS.keys()
    for each in load_hazards().values():
        if each.needs:
            assert (
                each.needs.keys() == {two.processor for two in CASES if hazard(two.hazard) == each}
                or each.id in AFTER_F64
            )


def test_no_matrix_instruction_needs_more_than_the_board_remembers() -> None:
    most = max(
        each.states_after(target(processor), name, (0, 0))
        for each in load_hazards().values()
        for processor, name in matrices()
    )
    assert most == LONGEST_MATRIX


def test_independent_instructions_are_wait_states() -> None:
    others = [f"v_mov_b32_e32 v{n}, 0" for n in range(100, 111)]
    text = "|".join([f16("gfx942", "32x32x8"), *others, READ, "s_endpgm"])
    assert look(text, "gfx942") == []
    [missed] = look(text.replace(others[0] + "|", ""), "gfx942")
    assert missed.hazard == hazard("matrix-result-read")


def test_long_waits_take_two_instructions() -> None:
    [missed] = look("|".join([f16("gfx90a", "32x32x8"), READ, "s_endpgm"]), "gfx90a")
    assert missed.need == "s_nop 15, s_nop 2"


@pytest.mark.parametrize(
    ("processor", "text"),
    [
        ("gfx908", f"{f16('gfx908', '32x32x8')}|{f16('gfx908', '32x32x8', 'a[0:15]')}"),
        ("gfx90a", f"{f16('gfx90a', '32x32x8')}|{f16('gfx90a', '32x32x8', 'v[0:15]')}"),
        ("gfx942", f"{f16('gfx942', '32x32x8')}|{f16('gfx942', '32x32x8', 'v[0:15]')}"),
        ("gfx942", f"{F32}|v_mfma_f32_16x16x16_f16 v[60:63], v[40:41], v[42:43], v[2:5]"),
        ("gfx90a", f"{large('gfx90a')}|v_mfma_f32_16x16x16f16 v[60:63], v[40:41], v[42:43], v[2:5]"),
        ("gfx90a", f"{DOT}|v_dot2_f32_f16 v0, v40, v41, v0"),
        ("gfx90a", "v_mov_b32_e32 v60, 0|ds_write_b32 v61, v60"),
        ("gfx942", "v_mov_b32_e32 v0, 1|v_mov_b32_e32 v1, v0|v_rcp_f32_e32 v2, v1|v_sqrt_f32_e32 v3, v2"),
        ("gfx906", f"{DOT}|{READ}"),
        ("gfx90a", "v_rcp_f32_e32 v0, v1|v_mov_b32_e32 v30, v0"),
    ],
)
def test_right_sequences_are_not_reported(processor: str, text: str) -> None:
    assert look(f"{text}|s_endpgm", processor) == []


def test_only_the_last_result_in_a_register_counts() -> None:
    """The first one is complete: the second one has read it."""
    text = "v_mfma_f32_16x16x4_f32 v[0:3], v40, v42, 0|v_mfma_f32_4x4x4_16b_f16 v[0:3], v[40:41], v[42:43], v[0:3]"
    assert look(f"{text}|s_nop 4|{READ}|s_endpgm", "gfx942") == []
    [missed] = look(f"{text}|s_nop 3|{READ}|s_endpgm", "gfx942")
    assert missed.before.name == "v_mfma_f32_4x4x4_16b_f16"


def test_code_for_a_generic_processor_waits_for_the_slowest() -> None:
    two = Two("matrix-result-read", "gfx9-4-generic", f16("gfx942", "16x16x16"), READ, 8)
    assert two.found(7)
    assert two.found(8) == []


# -- what LLVM leaves


def measured() -> list[Any]:
    """The lines of the table."""
    lines = [line.split("\t") for line in MEASURED.read_text(encoding="utf-8").splitlines()[1:]]
    return [pytest.param(*line[:3], int(line[3]), id="-".join(line[:3])) for line in lines]


@pytest.mark.parametrize(("processor", "shape", "use", "states"), measured())
def test_what_llvm_leaves_is_enough(processor: str, shape: str, use: str, states: int) -> None:
    """One state less is a finding, except where C is the whole result: LLVM leaves one state more than it needs."""
    last, is_first = SHAPES[shape], processor == "gfx908"
    letter = "a" if is_first else "v"
    uses = {
        "global store of D (gfx908: v_accvgpr_read)": STORE,
        "VALU read of D": READ,
        "D as SrcA of MFMA": "v_mfma_f32_4x4x1f32 v[60:63], v0, v1, 0",
        "D as same SrcC": f16(processor, shape, f"{letter}[0:{last}]"),
        "part of D as SrcC (overlap)": f16(processor, "16x16x16", f"{letter}[2:5]").replace("[0:3]", "[60:63]"),
    }
    after = uses[use]
    if is_first and "SrcC" not in use:  # the other files read the result by v_accvgpr_read alone
        after = "v_accvgpr_read_b32 v30, a0"
    two = Two("", processor, f16(processor, shape), after, states)
    assert two.found(states) == []
    is_least = use != "D as same SrcC" or (shape == "4x4x4" and processor >= "gfx942")
    if is_first and use.startswith("part"):  # LLVM copied that part by v_accvgpr_read, which needs 18
        assert two.found(1)
        after = "v_accvgpr_read_b32 v30, a2"
        two = Two("", processor, f16(processor, shape), after, states)
    if is_least and states:
        assert two.found(states - 1)


@pytest.mark.parametrize("processor", F16)
def test_a_matrix_product_of_triton_waits_and_does_not_without_its_nops(processor: str) -> None:
    """On gfx942 and gfx950 its own instructions are wait states enough."""
    data = bytearray((MEASURED.parent / "triton" / processor / "matmul.co").read_bytes())
    assert [*code_object_waits(bytes(data))] == []
    for at in range(0, len(data), 4):
        if data[at + 1 : at + 4] == b"\x00\x80\xbf" and data[at] < 16:  # s_nop
            data[at] = 0
    found = {each.rule.id for each in code_object_waits(bytes(data)) if each.rule is not None}
    assert found == ({"gcn/matrix-source"} if processor in ("gfx908", "gfx90a") else set())
