"""The memory model's tables against the document, and the checker of kernels."""

from __future__ import annotations

import pytest

from softcard.check.memory_model import atomics, gaps
from softcard.core.errors import WireError
from softcard.device.hsa.memory.memory_model import Order, lower
from softcard.isa.gcn.asm.assembler import assemble
from softcard.isa.gcn.encoding.decode import decode
from softcard.isa.gcn.encoding.formats import LONGEST
from softcard.isa.gcn.target import target

# The tables as the document prints them: segment | operation | orders | scopes | machine code sequence.
DOCUMENT = """
global | load         | none                  | all    | load
global | atomic load  | rlx,scacq             | wg-    | load
global | atomic load  | rlx                   | agent+ | load glc
global | atomic load  | scacq                 | agent+ | load glc; WAIT; buffer_wbinvl1_vol
global | store        | none                  | all    | store
global | atomic store | rlx,screl             | wg-    | store
global | atomic store | rlx                   | agent+ | store
global | atomic store | screl                 | agent+ | WAIT; store; WAIT
global | atomic rmw   | rlx,scacq,screl,scar  | wg-    | atomic
global | atomic rmw   | rlx                   | agent+ | atomic
global | atomic rmw   | scacq                 | agent+ | atomic; WAIT; buffer_wbinvl1_vol
global | atomic rmw   | screl                 | agent+ | WAIT; atomic
global | atomic rmw   | scar                  | agent+ | WAIT; atomic; WAIT; buffer_wbinvl1_vol
group  | load         | none                  | all    | load
group  | atomic load  | rlx                   | wg-    | load
group  | atomic load  | scacq                 | wg-    | WAIT; load; buffer_wbinvl1_vol
group  | store        | none                  | all    | store
group  | atomic store | rlx                   | wg-    | store
group  | atomic store | screl                 | wg-    | WAIT; store
group  | atomic rmw   | scacq,scar            | wg-    | WAIT; atomic; buffer_wbinvl1_vol
group  | atomic rmw   | screl                 | wg-    | WAIT; atomic
flat   | atomic load  | scacq                 | wg-    | WAIT; load; buffer_wbinvl1_vol
flat   | atomic load  | scacq                 | agent+ | WAIT; load glc; WAIT; buffer_wbinvl1_vol
flat   | atomic rmw   | rlx                   | agent+ | atomic
global | fence        | scacq,screl,scar      | wg-    |
global | fence        | scacq                 | agent+ | s_waitcnt 0; buffer_wbinvl1_vol
global | fence        | screl                 | agent+ | s_waitcnt 0
global | fence        | scar                  | agent+ | s_waitcnt 0; buffer_wbinvl1_vol
"""
SCOPES = {"wg-": ("wi", "wave", "wg"), "agent+": ("agent", "system"), "all": ("wi", "wave", "wg", "agent", "system")}
WORDS = {
    ("gfx803", "global"): ("flat_load_dword", "flat_store_dword", "flat_atomic_add"),
    ("gfx900", "global"): ("global_load_dword", "global_store_dword", "global_atomic_add"),
    ("gfx803", "flat"): ("flat_load_dword", "flat_store_dword", "flat_atomic_add"),
    ("gfx900", "flat"): ("flat_load_dword", "flat_store_dword", "flat_atomic_add"),
    ("gfx803", "group"): ("ds_read_b32", "ds_write_b32", "ds_add_u32"),
    ("gfx900", "group"): ("ds_read_b32", "ds_write_b32", "ds_add_u32"),
}


def rows() -> list[tuple[str, str, str, str, str]]:
    found = []
    for line in DOCUMENT.strip().splitlines():
        segment, operation, orders, scopes, code = (part.strip() for part in line.split("|"))
        found += [(segment, operation, order, scope, code) for order in orders.split(",") for scope in SCOPES[scopes]]
    return found


@pytest.mark.parametrize("processor", ["gfx700", "gfx803", "gfx900"])
@pytest.mark.parametrize(("segment", "operation", "order", "scope", "code"), rows())
def test_memory_model_tables(processor: str, segment: str, operation: str, order: str, scope: str, code: str) -> None:
    load, store, atomic = WORDS["gfx900" if processor == "gfx900" else "gfx803", segment]
    expected = code.replace("WAIT", "s_waitcnt vmcnt(0)").replace(
        "s_waitcnt 0", "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)"
    )
    expected = expected.replace("atomic", atomic).replace("load", load).replace("store", store)
    assert lower(operation, order, scope, segment, target(processor)) == tuple(filter(None, expected.split("; ")))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("atomic load", "screl", "agent", "global"), "no atomic load screl at scope agent for the global segment"),
        (("atomic load", "rlx", "agent", "group"), "no atomic load rlx at scope agent for the group segment"),
        (("jump", "rlx", "agent", "group"), "memory model: 'jump' is not a valid Operation"),
        (("fence", "rlx", "agent", "global"), "no fence rlx"),
    ],
)
def test_combinations_that_are_not_there(words: tuple[str, str, str, str], message: str) -> None:
    with pytest.raises(WireError, match=message):
        lower(*words, target("gfx900"))


# ---- memory behind PCIe

LOOP = ("{f}_load_dword glc", "s_waitcnt vmcnt(0)", "again:")
EXCHANGE = ("{f}_atomic_cmpswap glc", "s_waitcnt vmcnt(0)", "v_cmp_ne_u32", "s_cbranch_vccnz again")
OVER_PCIE = {
    "add": ("{f}_atomic_add",),
    "sub": ("v_sub_u32", "{f}_atomic_add"),
    "swap": ("{f}_atomic_swap",),
    "exch": ("{f}_atomic_swap",),
    "cas": ("{f}_atomic_cmpswap",),
    "max": (*LOOP, "v_max_u32", *EXCHANGE),
    "min": (*LOOP, "v_min_u32", *EXCHANGE),
    "and": (*LOOP, "v_and_b32", *EXCHANGE),
    "or": (*LOOP, "v_or_b32", *EXCHANGE),
    "xor": (*LOOP, "v_xor_b32", *EXCHANGE),
    "wrapinc": (*LOOP, "v_add_u32", "v_cmp_lt_u32", "v_cndmask_b32", *EXCHANGE),
    "wrapdec": (*LOOP, "v_sub_u32", "v_min_u32", *EXCHANGE),
}


@pytest.mark.parametrize("processor", ["gfx803", "gfx900"])
@pytest.mark.parametrize("rmw", OVER_PCIE)
def test_read_modify_writes_over_pcie(processor: str, rmw: str) -> None:
    family = "global" if processor == "gfx900" else "flat"
    expected = tuple(name.format(f=family) for name in OVER_PCIE[rmw])
    wait, drop = "s_waitcnt vmcnt(0)", "buffer_wbinvl1_vol"
    gfx = target(processor)
    assert lower("atomic rmw", "rlx", "system", "global", gfx, rmw=rmw, pcie=True) == expected
    ordered = lower("atomic rmw", "scar", "system", "global", gfx, rmw=rmw, pcie=True)
    assert ordered == (wait, *expected, wait, drop)


def test_without_pcie_each_has_its_instruction() -> None:
    gfx = target("gfx700")
    assert lower("atomic rmw", "rlx", "system", "flat", gfx, rmw="wrapinc") == ("flat_atomic_inc",)
    assert lower("atomic rmw", "rlx", "wg", "group", gfx, rmw="cas") == ("ds_cmpst_b32",)
    assert lower("atomic rmw", "rlx", "system", "flat", gfx, rmw="sub", pcie=True) == ("v_sub_i32", "flat_atomic_add")
    assert lower("atomic load", "rlx", "system", "flat", gfx, pcie=True) == ("flat_load_dword glc",)
    with pytest.raises(WireError, match="'nand' is not a read-modify-write, expected one of add, sub, max"):
        lower("atomic rmw", "rlx", "system", "flat", gfx, rmw="nand")
    with pytest.raises(
        WireError, match="--pcie cannot be used with the group segment: group memory is not accessed over PCIe"
    ):
        lower("atomic rmw", "rlx", "wg", "group", gfx, pcie=True)


# ---- the checker

CODE = 0x1000


def orders(source: str, processor: str = "gfx803") -> list[Order]:
    return [each.order for each in found(source, processor)]


def found(source: str, processor: str = "gfx803", private_buffer: bool = False):
    gfx = target(processor)
    code = assemble(gfx, source.replace("|", "\n"), CODE)
    return atomics(CODE, lambda pc: decode(gfx, code[pc - CODE : pc - CODE + LONGEST], pc), private_buffer)


MINE = "buffer_load_dword v3, v2, s[{n}:{m}], 0 offen glc"


@pytest.mark.parametrize(
    ("lines", "is_private"),
    [
        (("{0}",), True),
        (("s_add_u32 s0, s0, s11", "s_addc_u32 s1, s1, 0", "{0}"), True),
        (("s_mov_b64 s[20:21], s[0:1]", "s_mov_b64 s[22:23], s[2:3]", "s_mov_b64 s[0:1], s[6:7]", "{20}"), True),
        (("s_mov_b32 s4, s0", "s_mov_b32 s5, s1", "s_mov_b32 s6, s2", "s_mov_b32 s7, s3", "{4}"), True),
        (("s_cbranch_scc1 on", "s_add_u32 s0, s11, s0", "s_addc_u32 s1, 0, s1", "on:", "{0}"), True),
        (("{4}",), False),
        (("s_mov_b32 s2, -1", "{0}"), False),
        (("s_load_dwordx4 s[0:3], s[6:7], 0x0", "{0}"), False),
        (("s_cbranch_scc1 on", "s_mov_b64 s[0:1], s[6:7]", "on:", "{0}"), False),  # on one way only
        (("again:", "{0}", "s_mov_b32 s3, s9", "s_branch again"), False),
        (("v_cmp_eq_u32 s[2:3], v0, v1", "{0}"), False),
        (("s_mov_b64 s[2:3], s[0:1]", "{0}"), False),
    ],
)
def test_private_memory_has_no_atomics(lines: tuple[str, ...], is_private: bool) -> None:
    """Volatile private loads have GLC too; the buffer that they go by is followed on all ways."""
    made = {f"{{{n}}}": MINE.format(n=n, m=n + 3) for n in (0, 4, 20)}
    text = "|".join([*(made.get(line, line) for line in lines), "s_endpgm"])
    assert found(text, private_buffer=False)
    assert bool(found(text, private_buffer=True)) is not is_private


def test_private_accesses_spoil_nothing() -> None:
    store = "buffer_store_dword v3, v2, s[0:3], 0 offen"
    text = "|".join((store, "flat_atomic_add v[2:3], v4", MINE.format(n=0, m=3), "s_endpgm"))
    assert [each.order for each in found(text, private_buffer=True)] == [Order.ACQUIRE_RELEASE]
    assert [each.order for each in found(text)] == [Order.RELAXED, Order.ACQUIRE]
    assert not found("scratch_load_dword v0, v1, off glc|s_endpgm", "gfx900")


ADD = "flat_atomic_add v[2:3], v4"
WAIT = "s_waitcnt vmcnt(0)"
DROP = "buffer_wbinvl1_vol"
LOAD = "flat_load_dword v5, v[2:3]"
STORE = "flat_store_dword v[2:3], v5"


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        ((ADD,), Order.ACQUIRE_RELEASE),  # nothing before it, nothing after it
        ((STORE, ADD), Order.ACQUIRE),
        ((STORE, WAIT, ADD), Order.ACQUIRE_RELEASE),
        ((STORE, WAIT, ADD, LOAD), Order.RELEASE),
        ((STORE, ADD, WAIT, LOAD), Order.RELAXED),
        ((ADD, WAIT, DROP, LOAD), Order.ACQUIRE_RELEASE),
        ((ADD, DROP, WAIT, LOAD), Order.RELEASE),
        ((ADD, WAIT, LOAD), Order.RELEASE),
        ((STORE, "s_waitcnt lgkmcnt(0)", ADD), Order.ACQUIRE),
        ((STORE, "s_cbranch_scc0 on", WAIT, "on:", ADD), Order.ACQUIRE),
        ((STORE, "s_cbranch_scc0 on", WAIT, "s_branch go", "on:", WAIT, "go:", ADD), Order.ACQUIRE_RELEASE),
        (("again:", ADD, WAIT, DROP, LOAD, WAIT, "s_cbranch_scc0 again"), Order.ACQUIRE_RELEASE),
        (("again:", ADD, WAIT, DROP, LOAD, "s_cbranch_scc0 again"), Order.ACQUIRE),
        ((f"{LOAD} glc", WAIT, DROP, LOAD), Order.ACQUIRE_RELEASE),
    ],
)
@pytest.mark.parametrize("processor", ["gfx700", "gfx803", "gfx900"])
def test_what_the_code_around_an_atomic_gives_it(lines: tuple[str, ...], order: Order, processor: str) -> None:
    assert orders("|".join([*lines, "s_endpgm"]), processor) == [order]


def test_gaps_name_both_places() -> None:
    seen = found("|".join([STORE, ADD, WAIT, LOAD, "s_endpgm"]))
    assert [str(gap) for gap in gaps(seen, Order.ACQUIRE_RELEASE)] == [
        "pc 0x1008 (flat_atomic_add v[2:3], v4): s_waitcnt vmcnt(0) is missing between this release atomic and an "
        "access before it, "
        "see pc 0x1000",
        "pc 0x1008 (flat_atomic_add v[2:3], v4): s_waitcnt vmcnt(0) and buffer_wbinvl1_vol are missing between "
        "this acquire atomic and an access after it, see pc 0x1014",
    ]
    assert gaps(seen, Order.RELAXED) == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("flat_atomic_add v[2:3], v4", ""),
        ("flat_atomic_swap_x2 v[2:3], v[4:5]", ""),
        ("flat_atomic_cmpswap v[2:3], v[4:5]", ""),
        ("flat_load_dword v5, v[2:3] glc", ""),
        ("flat_atomic_umax v[2:3], v4", "max needs a compare-and-swap loop [hsa/pcie-loops"),
        ("flat_atomic_inc_x2 v[2:3], v[4:5]", "wrapinc needs a compare-and-swap loop [hsa/pcie-loops"),
        ("buffer_atomic_and v2, off, s[4:7], 0", "and needs a compare-and-swap loop [hsa/pcie-loops"),
        ("flat_atomic_sub v[2:3], v4", "sub has to be written as an addition of the negated value [hsa/pcie-sequences"),
    ],
)
def test_gaps_over_pcie(line: str, missing: str) -> None:
    seen = found(f"{line}|s_endpgm")
    assert gaps(seen, Order.RELAXED) == []
    said = [str(gap) for gap in gaps(seen, Order.RELAXED, pcie=True)]
    if missing:
        text = f"pc 0x1000 ({line}): PCIe does not support this atomic: {missing}: PCIe Gen3 Atomic Operations]"
        assert said == [text]
    else:
        assert said == []


def test_float_atomics_do_not_cross_pcie() -> None:
    [gap] = gaps(found("flat_atomic_fmax v[2:3], v4|s_endpgm", "gfx700"), Order.RELAXED, pcie=True)
    assert "fmax needs a compare-and-swap loop" in gap.missing


@pytest.mark.parametrize("processor", ["gfx803", "gfx900"])
@pytest.mark.parametrize("order", ["scacq", "screl", "scar"])
def test_what_the_tables_lower_to_passes_the_checker(processor: str, order: str) -> None:
    names = lower("atomic rmw", order, "agent", "flat", target(processor))
    lines = [ADD if name.startswith("flat_atomic") else name for name in names]
    [each] = found("|".join([STORE, *lines, LOAD, "s_endpgm"]), processor)
    assert each.order in (order, Order.ACQUIRE_RELEASE)


ACQUIRE_942 = (
    "global_load_dword v2, v[0:1], off sc1\ns_waitcnt vmcnt(0)\nbuffer_inv sc1\nglobal_load_dword v3, v[4:5], off"
)
RELEASE_942 = (
    "global_store_dword v[4:5], v3, off\nbuffer_wbl2 sc1\ns_waitcnt vmcnt(0)\nglobal_atomic_add v[0:1], v2, off"
)


def orders_942(text: str) -> list[Order]:
    code = assemble(target("gfx942"), f"{text}\ns_endpgm")
    return [each.order for each in atomics(0, lambda pc: decode(target("gfx942"), code[pc:], pc))]


def test_acquire_and_release_of_gfx942() -> None:
    """An invalidation with sc1, and for stores a write-back with sc1 before the wait."""
    assert orders_942(ACQUIRE_942) == [Order.ACQUIRE_RELEASE]
    assert orders_942(ACQUIRE_942.replace("buffer_inv sc1", "buffer_inv sc0")) == [Order.RELEASE]
    assert orders_942(ACQUIRE_942.replace("off sc1", "off sc0")) == []
    assert orders_942(RELEASE_942) == [Order.ACQUIRE_RELEASE]
    assert orders_942(RELEASE_942.replace("buffer_wbl2 sc1\n", "")) == [Order.ACQUIRE]
    assert orders_942(RELEASE_942.replace("buffer_wbl2 sc1", "buffer_wbl2 sc0")) == [Order.ACQUIRE]
    assert orders_942(RELEASE_942.replace("s_waitcnt vmcnt(0)\n", "")) == [Order.ACQUIRE]
    code = assemble(target("gfx942"), RELEASE_942.replace("buffer_wbl2 sc1\n", "") + "\ns_endpgm")
    found = gaps(atomics(0, lambda pc: decode(target("gfx942"), code[pc:], pc)), Order.RELEASE)
    missing = "buffer_wbl2 sc1 and s_waitcnt vmcnt(0) are missing between this release atomic and an access before it"
    assert missing in str(found[0])
