"""The memory model's tables against the document, and the checker of kernels."""

from __future__ import annotations

import pytest

from understudy.check.memory_model import atomics, gaps
from understudy.core.errors import WireError
from understudy.device.hsa.memory_model import Order, lower
from understudy.isa.gcn.assembler import assemble
from understudy.isa.gcn.decode import decode
from understudy.isa.gcn.target import target

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


# ---- the checker

CODE = 0x1000


def orders(source: str, processor: str = "gfx803") -> list[Order]:
    return [each.order for each in found(source, processor)]


def found(source: str, processor: str = "gfx803"):
    gfx = target(processor)
    code = assemble(gfx, source.replace("|", "\n"), CODE)
    return atomics(CODE, lambda pc: decode(gfx, code[pc - CODE : pc - CODE + 12], pc))


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
        "pc 0x1008 (flat_atomic_add v[2:3], v4): no s_waitcnt vmcnt(0) between it and an access before it (release), "
        "see pc 0x1000",
        "pc 0x1008 (flat_atomic_add v[2:3], v4): no s_waitcnt vmcnt(0) and buffer_wbinvl1_vol before an access "
        "behind it (acquire), see pc 0x1014",
    ]
    assert gaps(seen, Order.RELAXED) == []


@pytest.mark.parametrize("processor", ["gfx803", "gfx900"])
@pytest.mark.parametrize("order", ["scacq", "screl", "scar"])
def test_what_the_tables_lower_to_passes_the_checker(processor: str, order: str) -> None:
    names = lower("atomic rmw", order, "agent", "flat", target(processor))
    lines = [ADD if name.startswith("flat_atomic") else name for name in names]
    [each] = found("|".join([STORE, *lines, LOAD, "s_endpgm"]), processor)
    assert each.order in (order, Order.ACQUIRE_RELEASE)
