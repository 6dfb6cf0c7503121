"""Code as runs of bytes at guest addresses: what a translation was made of, and whether memory still has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.core.errors import GuestFault
from understudy.engine.gcn.jit.basics import Fetch
from understudy.engine.gcn.memory import GpuMemory

if TYPE_CHECKING:
    from understudy.isa.gcn.insn import Insn
    from understudy.isa.gcn.target import Target

Spans = list[tuple[int, bytes]]


def holds(spans: Spans, memory: GpuMemory) -> bool:
    """Whether memory has these bytes, in plain memory."""
    for address, data in spans:
        plain = memory.plain(address, len(data))
        if plain is None or plain.view[address - plain.base : address - plain.base + len(data)] != data:
            return False
    return True


def joined(code: Mapping[int, bytes]) -> Spans:
    """Instructions by address; those that lie behind each other as one."""
    spans: Spans = []
    for pc, data in sorted(code.items()):
        start, before = spans[-1] if spans else (-1, b"")
        if pc == start + len(before):
            spans[-1] = start, before + data
        else:
            spans.append((pc, data))
    return spans


def fetch_of(target: Target, spans: Spans) -> Fetch:
    """What decodes the instruction at an address of these spans; a fault elsewhere."""
    from understudy.isa.gcn.encoding.decode import decode

    def fetch(pc: int) -> Insn:
        for address, data in spans:
            if address <= pc < address + len(data):
                return decode(target, data[pc - address : pc - address + 12], pc)
        raise GuestFault("no code was looked at here").at("pc", pc)

    return fetch
