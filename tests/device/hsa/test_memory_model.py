"""The memory model against LLVM 22: for each operation and processor the instructions, without waits, of its code.

``memory_model.tsv`` has what llc 22 made of one operation each; a load, and an atomic with a result, precede the
store of the result. Waits are left out, since a compiler writes those only that something outstanding needs.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from softcard.core.errors import WireError
from softcard.device.hsa.memory.memory_model import lower
from softcard.isa.gcn.target import target

TABLE = Path(__file__).parent / "memory_model.tsv"
ROWS = list(csv.DictReader(TABLE.read_text().splitlines(), delimiter="\t"))
PROCESSORS = [name for name in ROWS[0] if name != "case"]
OPERATIONS = {
    "load": "atomic load", "store": "atomic store", "rmw_noret": "atomic rmw", "rmw_ret": "atomic rmw",
    "fence": "fence",
}  # fmt: skip
ORDERS = {"monotonic": "rlx", "acquire": "scacq", "release": "screl", "acqrel": "scar", "seqcst": "scar"}
SCOPES = {"workgroup": "wg", "agent": "agent", "system": "system"}


def made(case: str, processor: str) -> list[str]:
    name, _, split = processor.partition("+")
    agent, tg_split = target(name), bool(split)
    if case.startswith(("nontemporal", "volatile")):
        cache, operation = case.split("_")
        found = lower(operation, "none", "wi", "global", agent, cache=cache)
    else:
        operation, order, scope = case.rsplit("_", 2)
        found = lower(
            OPERATIONS[operation], ORDERS[order], SCOPES[scope], "global", agent,
            returns=operation == "rmw_ret", tg_split=tg_split,
        )  # fmt: skip
    return [each for each in found if not each.startswith("s_waitcnt")]


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_every_operation_has_the_instructions_of_llvm(row: dict[str, str], processor: str) -> None:
    case = row["case"]
    theirs = [each.strip() for each in (row[processor] or "").split(";") if each.strip()]
    theirs = [each for each in theirs if not each.startswith("s_waitcnt")]
    if case.startswith(("load", "rmw_ret")) or case.endswith("load"):
        assert theirs.pop() == "global_store_dword"
    assert made(case, processor) == theirs


def test_releases_write_back_before_they_wait() -> None:
    assert lower("atomic store", "screl", "system", "global", target("gfx90a")) == (
        "buffer_wbl2", "s_waitcnt vmcnt(0)", "global_store_dword",
    )  # fmt: skip
    assert lower("atomic rmw", "scar", "agent", "flat", target("gfx942")) == (
        "buffer_wbl2 sc1", "s_waitcnt vmcnt(0) lgkmcnt(0)", "flat_atomic_add", "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "buffer_inv sc1",
    )  # fmt: skip
    assert lower("atomic load", "scacq", "wg", "group", target("gfx942")) == (
        "ds_read_b32", "s_waitcnt vmcnt(0) lgkmcnt(0)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "more", "message"),
    [
        (("atomic load", "screl", "agent", "global"), {}, "no atomic load screl at scope agent"),
        (("atomic load", "rlx", "agent", "group"), {}, "at scope agent for the group segment"),
        (("load", "none", "wi", "global"), {"cache": "old"}, "cache is 'old', expected nontemporal or volatile"),
        (
            ("atomic load", "rlx", "wi", "global"),
            {"cache": "volatile"},
            "only for non-atomic accesses of the global segment",
        ),
    ],
)
def test_combinations_that_do_not_exist(words: tuple[str, str, str, str], more: dict[str, str], message: str) -> None:
    with pytest.raises(WireError, match=message):
        lower(*words, target("gfx942"), **more)
