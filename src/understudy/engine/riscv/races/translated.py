"""Looks at accesses in translated code, in line where nothing but cells is to be looked at (`codes.Hint`).

Elsewhere compiled functions are told of an access before it is made. Where they cannot say that it is none to tell of,
the instruction is left to the reference engine, which asks Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from understudy.engine.riscv.jit.emit_region import Algebra
from understudy.engine.riscv.jit.engine import Looking
from understudy.engine.riscv.jit.streams import STREAM_AT, STREAM_BYTES, Access
from understudy.engine.riscv.jit.strides import size_of
from understudy.engine.riscv.races.codes import (
    BYTES,
    HINT_AT,
    HINT_BYTES,
    HINTS,
    NAMES,
    ROW_AT,
    SLOT_AT,
    SPLIT,
    atomic_bit,
    slot_mask,
)
from understudy.engine.riscv.races.native_judge import DWORD, look_of, what_of
from understudy.engine.riscv.races.native_order import hint_key
from understudy.isa.riscv.insn import Insn
from understudy.isa.riscv.state import RACES

MOST_PLANES: Final = 8
"""Harts whose loads a store looks at in line."""
FAR: Final = 64
"""A step from which on each access has a line of caches of its own."""
COLUMN: Final = 64
"""Dwords that are looked at together."""
HOISTED: Final = ("code", "stores", "loads", "stride")
"""Of a hint, what accesses in loops need."""
FLOOR_NOW: Final = "%race_floor_now"
"""Codes below are over for accesses of a loop, which look at nothing but cells: 0 where that no longer holds."""
NOWHERE: Final = 1 << 62
"""Where no memory of this process is."""
LIKELY: Final = ", !prof !0"
"""Of a branch whose first arm is the unlikely one."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A hint: what is known of it already, and where it is."""

    known: dict[str, str] = field(default_factory=dict)
    place: str = ""


class RaceLooks:
    """Writes them for one region of a device with so many `harts`."""

    def __init__(self, harts: int, algebra: Algebra) -> None:
        self.harts = harts
        self.text = algebra.control.text
        self.control = algebra.control
        self.insn: Insn
        self.memory = algebra.memory
        self._hoisted: dict[int, Fields] = {}
        self._hoisted_stores: set[int] = set()
        self._hoisted_quick = self._hoisted_floor = ""
        self._is_together = False

    def begin(self, insn: Insn) -> None:
        """An instruction begins."""
        self.insn = insn

    # ---- calls ---------------------------------------------------------------------------------------------------
    def _row(self) -> str:
        """The row of the hart: its address as a number."""
        for line in (
            f"  %q_races = getelementptr i64, ptr %st, i64 {RACES}",
            "  %races = load ptr, ptr %q_races, !invariant.load !1",
            "  %race_row = ptrtoint ptr %races to i64",
            f"  %q_race_hints = getelementptr i64, ptr %races, i64 {ROW_AT['hints']}",
            "  %race_hints = load ptr, ptr %q_race_hints, !invariant.load !1",
            f"  %race_quick = getelementptr i64, ptr %races, i64 {ROW_AT['quick']}",
            f"  %race_floor = getelementptr i64, ptr %races, i64 {ROW_AT['floor']}",
            f"  %q_race_bounds = getelementptr i64, ptr %races, i64 {ROW_AT['bounds']}",
            "  %race_bounds = load ptr, ptr %q_race_bounds, !invariant.load !1",
            f"  %race_last = getelementptr i64, ptr %races, i64 {ROW_AT['last']}",
        ):
            self.text.alloca(line)
        return "%race_row"

    def _call(self, name: str, arguments: str) -> str:
        row = self._row()
        place = self.text.let(f"getelementptr i64, ptr %races, i64 {ROW_AT[name]}")
        function = self.text.let(f"load ptr, ptr {place}, !invariant.load !1")
        return self.text.let(f"call i64 {function}(i64 {row}, {arguments})")

    def _look(self, access: str, w: int, places: str, name: str = "") -> None:
        what = what_of(self.insn, access, w >> 3)
        pc = self.control.ints.const(64, self.control.pc)
        status = self._call(name or look_of(what), f"i64 {pc}, i64 {what}, {places}")
        self.control.side(self.text.let(f"icmp ne i64 {status}, 0"))
        self._look_anew()

    def many(self, access: str, w: int, pointer: str, address: str, count: str, most: int) -> None:
        """So many elements side by side are accessed next, often as many as `most`."""
        text, size = self.text, self.text.let(f"mul i64 {count}, {w >> 3}")
        host = text.let(f"ptrtoint ptr {pointer} to i64")
        places, is_load = f"i64 {host}, i64 {address}, i64 {size}", access == "read"
        if most * w % 32 or not most or (not is_load and self.harts > MOST_PLANES):
            self._look(access, w, places, "look_many")
            return
        self._row()
        closer, done = text.fresh("closer"), text.fresh("looked")
        with text.apart(closer):
            self._look(access, w, places, "look_many")
            text.put(f"br label %{done}")
        self._unless(text.let(f"icmp eq i64 {count}, {most}"), closer)
        hint = self._hint(access, 32, host, closer, most * w >> 3)
        self._columns(hint, most * w // 32, host, is_load, closer)
        text.put(f"br label %{done}")
        text.start(done)

    def fence(self) -> None:
        """A fence is next."""
        is_tso = int(self.insn.name == "fence.tso")
        self._call("fence", f"i64 {self.insn.word}, i64 {is_tso}")

    # ---- in line -------------------------------------------------------------------------------------------------
    def access(self, access: str, w: int, pointer: str, address: str) -> None:
        """Memory is accessed next."""
        if self._is_together:
            return
        text = self.text
        host = text.let(f"ptrtoint ptr {pointer} to i64")
        is_load = access == "read"
        if self.insn.spec.extension == "A" or (not is_load and self.harts > MOST_PLANES):
            self._look(access, w, f"i64 {host}, i64 {address}")
            return
        self._row()
        closer, done = text.fresh("closer"), text.fresh("looked")
        with text.apart(closer):
            self._look(access, w, f"i64 {host}, i64 {address}")
            text.put(f"br label %{done}")
        pc = self.control.pc
        is_hoisted = pc in self._hoisted and pc in self.memory.addends
        hint = self._hoisted[pc] if is_hoisted else self._hint(access, w, host, closer)
        if w < 32:
            self._part(hint, w, host, is_load, closer)
        elif is_load:
            self._load(hint, w, host, closer)
        else:
            self._store(hint, w, host, closer)
        text.put(f"br label %{done}")
        text.start(done)

    def _unless(self, condition: str, other: str) -> None:
        """Go on where a condition holds, elsewhere where not."""
        on = self.text.fresh("on")
        self.text.branch(self.text.let(f"xor i1 {condition}, true"), other, on, LIKELY)
        self.text.start(on)

    # ---- rounds of a loop, together ------------------------------------------------------------------------------
    def goes_ahead(self, insns: Sequence[Insn], accesses: Sequence[Access]) -> bool:
        """Whether rounds of such a loop may be looked at together."""
        return all(_is_near(each) for each in accesses)

    def ahead(self, accesses: Sequence[Access], table: str, rounds: str) -> str:
        """Look at so many rounds before them: whether nothing is to be looked at at each access."""
        text = self.text
        for number, access in enumerate(accesses):
            hint = text.let(f"ptrtoint ptr {self._hint_of(access.pc).place} to i64")
            at = number * STREAM_BYTES + 8 * STREAM_AT["hint"]
            place = text.let(f"inttoptr i64 {text.let(f'add i64 {table}, {at}')} to ptr")
            text.put(f"store i64 {hint}, ptr {place}")
        found = self._call("look_ahead", f"i64 {table}, i64 {len(accesses)}, i64 {rounds}")
        return text.let(f"icmp ne i64 {found}, 0")

    def together(self) -> None:
        """What is written next is one of those rounds."""
        self._is_together = True

    def one_by_one(self) -> None:
        """It is none any more."""
        self._is_together = False

    def behind(self, accesses: Sequence[Access], table: str, rounds: str, done: int) -> None:
        """Have cells know of what so many rounds have accessed, and of the first accesses of one more, so many."""
        self._call("look_behind", f"i64 {table}, i64 {len(accesses)}, i64 {rounds}, i64 {done}")

    # ---- rounds of a loop, access by access ----------------------------------------------------------------------
    def hoist(self, access: str, pcs: list[int], host: str, addend: str, end: str) -> tuple[str, str]:
        """Look at hints of a loop's accesses before it: whether all are good, and up to which address."""
        text, quick = self.text, self._quick()
        self._hoisted_quick, self._hoisted_floor = quick, self._floor()
        text.put(f"store i32 {self._hoisted_floor}, ptr {self._floor_now()}")
        fine = text.let(f"icmp eq i64 {text.let(f'and i64 {addend}, 3')}, 0")
        if access == "write":
            self._hoisted_stores.update(pcs)
        for pc in pcs:
            hint = self._hint_of(pc)
            key = text.let(f"icmp eq i64 {self._of(hint, 'key')}, {self._key(access, pc)}")
            stamp = text.let(f"icmp eq i64 {self._of(hint, 'stamp')}, {quick}")
            low, span = self._of(hint, "low"), self._of(hint, "span")
            inside = text.let(f"icmp ult i64 {text.let(f'sub i64 {host}, {low}')}, {span}")
            for each in (key, stamp, inside):
                fine = text.let(f"and i1 {fine}, {each}")
            last = text.let(f"sub i64 {text.let(f'add i64 {low}, {span}')}, {addend}")
            end = text.call("i64", "llvm.umin.i64", f"i64 {end}", f"i64 {last}")
            known = {name: self._of(hint, name) for name in HOISTED}
            known["whole"] = text.let(f"or i32 {self._short(known['code'])}, {BYTES}")
            self._hoisted[pc] = Fields(known)
            self._met(str(NOWHERE), "null", pc)
        return fine, end

    def _look_anew(self) -> None:
        """A function was called: what accesses of a loop know that are looked at with less, may not hold."""
        text, hoisted = self.text, [pc for pc in self.memory.addends if pc in self._hoisted]
        if not hoisted:
            return
        still = text.let(f"icmp eq i64 {self._quick()}, {self._hoisted_quick}")
        floor = text.let(f"select i1 {still}, i32 {self._hoisted_floor}, i32 0")
        text.put(f"store i32 {floor}, ptr {self._floor_now()}")
        for pc in hoisted:
            self._met(str(NOWHERE), "null", pc)

    def _still_quick(self, closer: str) -> None:
        """Go on where all that an access of a loop may need to look at is cells."""
        self._unless(self.text.let(f"icmp eq i64 {self._quick()}, {self._hoisted_quick}"), closer)

    def _floor_now(self) -> str:
        self.text.alloca(f"  {FLOOR_NOW} = alloca i32")
        return FLOOR_NOW

    def _now(self) -> str:
        return self.text.let(f"load i32, ptr {self._floor_now()}")

    def _floor(self) -> str:
        self._row()
        return self._short(self.text.let("load i64, ptr %race_floor"))

    def _quick(self) -> str:
        self._row()
        return self.text.let("load i64, ptr %race_quick")

    def _hint_of(self, pc: int) -> Fields:
        place = self.text.let(f"getelementptr i8, ptr %race_hints, i64 {(pc >> 1 & HINTS - 1) * HINT_BYTES}")
        return Fields(place=place)

    def _key(self, access: str, pc: int) -> str:
        return self.control.ints.const(64, hint_key(pc, NAMES.index(access)))

    def _hint(self, access: str, w: int, host: str, closer: str, size: int = 0) -> Fields:
        """The hint that knows this access; there is none where more is to be looked at.

        `size`: bytes that may be more than `native_look.LARGEST`.
        """
        text, pc = self.text, self.control.pc
        hint = self._hint_of(pc)
        key = text.let(f"xor i64 {self._of(hint, 'key')}, {self._key(access, pc)}")
        quick = self._quick()
        stamp = text.let(f"xor i64 {self._of(hint, 'stamp')}, {quick}")
        wrong = text.let(f"or i64 {key}, {stamp}")
        if w >= 32:  # pages may begin anywhere in memory
            wrong = text.let(f"or i64 {wrong}, {text.let(f'and i64 {host}, 3')}")
        known = text.let(f"icmp eq i64 {wrong}, 0")
        distance, span = text.let(f"sub i64 {host}, {self._of(hint, 'low')}"), self._of(hint, "span")
        known = text.let(f"and i1 {known}, {text.let(f'icmp ult i64 {distance}, {span}')}")
        if size:
            end = text.let(f"add i64 {distance}, {size}")
            known = text.let(f"and i1 {known}, {text.let(f'icmp ult i64 {end}, {span}')}")
        self._unless(known, closer)
        return hint

    def _of(self, hint: Fields, name: str) -> str:
        if name in hint.known:
            return hint.known[name]
        place = self.text.let(f"getelementptr i64, ptr {hint.place}, i64 {HINT_AT[name]}")
        return self.text.let(f"load i64, ptr {place}")

    def _place(self, host: str, distance: str) -> str:
        return self.text.let(f"inttoptr i64 {self.text.let(f'add i64 {host}, {distance}')} to ptr")

    def _short(self, value: str) -> str:
        return self.text.let(f"trunc i64 {value} to i32")

    def _words(self, w: int, place: str) -> list[str]:
        """The words of the dwords of an access."""
        places = [place, *([self.text.let(f"getelementptr i32, ptr {place}, i64 1")] if w == 64 else [])]
        return [self.text.let(f"load i32, ptr {each}") for each in places]

    def _is_fine(self, words: list[str]) -> str:
        """Whether what words say is over for this hart."""
        text, found = self.text, ""
        for word in words:
            which = text.let(f"and i32 {word}, {slot_mask(self.harts) | atomic_bit(self.harts)}")
            at = text.let(f"zext i32 {text.let(f'lshr i32 {which}, {SLOT_AT - 3}')} to i64")
            bound = text.let(f"load i32, ptr {text.let(f'getelementptr i8, ptr %race_bounds, i64 {at}')}")
            fine = text.let(f"icmp ult i32 {word}, {bound}")
            found = text.let(f"and i1 {found}, {fine}") if found else fine
        return found

    def _put(self, w: int, place: str, value: str) -> None:
        self.text.put(f"store i32 {value}, ptr {place}")
        if w == 64:
            self.text.put(f"store i32 {value}, ptr {self.text.let(f'getelementptr i32, ptr {place}, i64 1')}")

    def _load(self, hint: Fields, w: int, host: str, closer: str) -> None:
        """A load of whole dwords."""
        text = self.text
        loads, whole = self._place(host, self._of(hint, "loads")), self._whole(hint)
        stored = self._words(w, self._place(host, self._of(hint, "stores")))
        self._pass(hint, stored, self._largest(stored), closer)
        on = text.fresh("on")
        if hint.known:  # lines of caches that were loaded do not keep stores waiting
            anew, known = text.fresh("anew"), "true"
            for own in self._words(w, loads):
                known = text.let(f"and i1 {known}, {text.let(f'icmp eq i32 {own}, {whole}')}")
            text.branch(known, on, anew)
            text.start(anew)
        self._put(w, loads, whole)
        text.put(f"br label %{on}")
        text.start(on)
        self._loaded(*(text.let(f"add i64 {host}, {at}") for at in range(0, w >> 3, 4)))
        text.put(f"store i64 {self._of(hint, 'code')}, ptr %race_last")

    def _whole(self, hint: Fields) -> str:
        """The word of a dword that an access has met whole."""
        if hint.known:
            return hint.known["whole"]
        return self.text.let(f"or i32 {self._short(self._of(hint, 'code'))}, {BYTES}")

    def _store(self, hint: Fields, w: int, host: str, closer: str) -> None:
        """A store of whole dwords."""
        text = self.text
        floor = self._hoisted_floor if hint.known else self._floor()
        place, stride = self._place(host, self._of(hint, "stores")), self._of(hint, "stride")
        words, loads, planes = self._words(w, place), [], [place]
        for _ in range(self.harts):
            planes.append(text.let(f"getelementptr i8, ptr {planes[-1]}, i64 {stride}"))
            loads += self._words(w, planes[-1])
        live = self._largest(loads)
        self._pass(hint, words + loads, self._largest([live, *words]), closer)
        self._put(w, place, self._whole(hint))
        forget, on = text.fresh("forget"), text.fresh("on")
        text.branch(text.let(f"icmp ult i32 {live}, {floor}"), on, forget)
        text.start(forget)
        for each in planes[1:]:
            self._put(w, each, "0")
        text.put(f"br label %{on}")
        text.start(on)
        text.put("store i64 0, ptr %race_last")

    def _largest(self, words: list[str]) -> str:
        largest = words[0]
        for each in words[1:]:
            largest = self.text.call("i32", "llvm.umax.i32", f"i32 {largest}", f"i32 {each}")
        return largest

    def _pass(self, hint: Fields, words: list[str], largest: str, closer: str) -> None:
        """Go on where what words say is over for this hart; mostly it is for all harts."""
        text, known, on = self.text, self.text.fresh("known"), self.text.fresh("on")
        floor = self._now() if hint.known else self._floor()
        text.branch(text.let(f"icmp uge i32 {largest}, {floor}"), known, on, LIKELY)
        text.start(known)
        if hint.known:
            self._still_quick(closer)
        self._unless(self._is_fine(words), closer)
        text.put(f"br label %{on}")
        text.start(on)

    def _part(self, hint: Fields, w: int, host: str, is_load: bool, closer: str) -> None:
        """An access of bytes of a dword, of which the others may have the same event."""
        text, noted = self.text, self.text.fresh("noted")
        if hint.known:
            self._part_again(hint, w, host, noted)
        dword = text.let(f"and i64 {host}, -4")
        mask = self._mask(w, text.let(f"and i64 {host}, 3"))
        is_inside = text.let(f"icmp ule i32 {mask}, {BYTES}")  # it may begin anywhere
        planes, code = [self._place(dword, self._of(hint, "stores"))], self._short(self._of(hint, "code"))
        for _ in range(0 if is_load else self.harts):
            planes.append(text.let(f"getelementptr i8, ptr {planes[-1]}, i64 {self._of(hint, 'stride')}"))
        stored, *loaded = (self._words(32, each)[0] for each in planes)
        place, old = planes[0], stored
        if is_load:
            place = self._place(dword, self._of(hint, "loads"))
            (old,) = self._words(32, place)
        floor = self._hoisted_floor if hint.known else self._floor()
        if hint.known:
            fresh, known = text.fresh("fresh"), text.fresh("known")
            is_fresh = text.let(f"icmp ult i32 {self._largest([old, *(loaded or [stored])])}, {self._now()}")
            text.branch(text.let(f"and i1 {is_fresh}, {is_inside}"), fresh, known)
            text.start(fresh)
            self._put(32, place, text.let(f"or i32 {code}, {mask}"))
            if is_load:
                self._loaded(dword)
            self._met(dword, place)
            text.put(f"br label %{noted}")
            text.start(known)
            self._still_quick(closer)
        fine = self._is_fine([stored])
        if loaded:
            fine = text.let(f"and i1 {fine}, {text.let(f'icmp ult i32 {self._largest(loaded)}, {floor}')}")
        over, same = text.let(f"icmp ult i32 {old}, {floor}"), self._is_of(old, code)
        fits = text.let(f"and i1 {is_inside}, {text.let(f'or i1 {over}, {same}')}")
        self._unless(text.let(f"and i1 {fine}, {fits}"), closer)
        before = text.let(f"select i1 {over}, i32 {code}, i32 {old}")
        self._put(32, place, text.let(f"or i32 {before}, {mask}"))
        if is_load:
            self._loaded(dword)
        if hint.known:
            self._met(dword, place)
        text.put(f"br label %{noted}")
        text.start(noted)
        text.put(f"store i64 {self._of(hint, 'code') if is_load else 0}, ptr %race_last")

    def _part_again(self, hint: Fields, w: int, host: str, noted: str) -> None:
        """The same of the dword that the access met in the last round of a loop: nobody else was there since."""
        text, again, first = self.text, self.text.fresh("again"), self.text.fresh("first")
        dword, cell = self._last()
        at = text.let(f"sub i64 {host}, {text.let(f'load i64, ptr {dword}')}")
        is_near = text.let(f"icmp ult i64 {at}, {BYTES.bit_length() + 1 - (w >> 3)}")
        text.branch(text.let(f"xor i1 {is_near}, true"), first, again, LIKELY)
        text.start(again)
        place = text.let(f"load ptr, ptr {cell}")
        (old,) = self._words(32, place)
        if not self._is_apart():
            self._unless(self._is_of(old, self._short(self._of(hint, "code"))), first)
        self._put(32, place, text.let(f"or i32 {old}, {self._mask(w, at)}"))
        text.put(f"br label %{noted}")
        text.start(first)

    def _loaded(self, *dwords: str) -> None:
        """Dwords were loaded: stores of a loop that are in one of them have to look at that."""
        text = self.text
        for pc in self.memory.addends:
            if pc in self._hoisted_stores:
                slot = self._last(pc)[0]
                for dword in dwords:
                    last = text.let(f"load i64, ptr {slot}")
                    is_there = text.let(f"icmp eq i64 {last}, {dword}")
                    text.put(f"store i64 {text.let(f'select i1 {is_there}, i64 {NOWHERE}, i64 {last}')}, ptr {slot}")

    def _mask(self, w: int, at: str) -> str:
        """The bytes of an access at a byte of a dword."""
        return self._short(self.text.let(f"shl i64 {(1 << (w >> 3)) - 1}, {at}"))

    def _is_of(self, word: str, code: str) -> str:
        """Whether a word tells of one event alone."""
        return self.text.let(f"icmp ule i32 {self.text.let(f'xor i32 {word}, {code}')}, {BYTES}")

    def _is_apart(self) -> bool:
        """Whether no access of the loop has a word hold another code than that of bytes that were looked at in line:
        those of whole dwords do, and what is called has all looked at anew."""
        return not any(size_of(insn) >= 4 or insn.spec.extension == "V" for insn in self.memory.loop)

    def _last(self, pc: int | None = None) -> tuple[str, str]:
        """Which dword an access of a loop met in its last round, and where the word is that tells of it."""
        name = f"{self.control.pc if pc is None else pc:x}"
        dword, cell = f"%race_dword{name}", f"%race_cell{name}"
        self.text.alloca(f"  {dword} = alloca i64")
        self.text.alloca(f"  {cell} = alloca ptr")
        return dword, cell

    def _met(self, where: str, place: str, pc: int | None = None) -> None:
        """It has met one."""
        dword, cell = self._last(pc)
        self.text.put(f"store i64 {where}, ptr {dword}")
        self.text.put(f"store ptr {place}, ptr {cell}")

    def _columns(self, hint: Fields, count: int, host: str, is_load: bool, closer: str) -> None:
        """So many dwords side by side."""
        text, lanes = self.text, min(count, COLUMN)
        ty, bits = f"<{lanes} x i32>", f"<{lanes} x i1>"
        event = self._of(hint, "code")
        code, floor = self._short(event), self._floor()
        codes, floors = self._splat(ty, code), self._splat(ty, floor)
        whole = self._splat(ty, text.let(f"or i32 {code}, {BYTES}"))
        stores, loads = (self._place(host, self._of(hint, name)) for name in ("stores", "loads"))
        if is_load:
            for pc in self.memory.addends:
                if pc in self._hoisted_stores:
                    self._met(str(NOWHERE), "null", pc)
        planes = [stores]
        for _ in range(0 if is_load else self.harts):
            planes.append(text.let(f"getelementptr i8, ptr {planes[-1]}, i64 {self._of(hint, 'stride')}"))
        kept = f"splat (i32 {slot_mask(self.harts) | SPLIT})"
        fine = own = ""
        for first in range(0, count, lanes):
            for plane in planes:
                words = text.let(f"load {ty}, ptr {self._column(plane, first)}, align 4")
                over = text.let(f"icmp ult {ty} {words}, {floors}")
                other = text.let(f"and {ty} {text.let(f'xor {ty} {words}, {codes}')}, {kept}")
                mine = text.let(f"icmp eq {ty} {other}, zeroinitializer")
                good = text.let(f"or {bits} {over}, {mine}")
                fine = text.let(f"and {bits} {fine}, {good}") if fine else good
        self._unless(text.let(f"icmp eq i{lanes} {text.let(f'bitcast {bits} {fine} to i{lanes}')}, -1"), closer)
        for first in range(0, count, lanes):
            text.put(f"store {ty} {whole}, ptr {self._column(loads if is_load else stores, first)}, align 4")
        if not is_load:
            for first in range(0, count, lanes):
                words = text.let(f"load {ty}, ptr {self._column(loads, first)}, align 4")
                over = text.let(f"icmp ult {ty} {words}, {floors}")
                own = text.let(f"and {bits} {own}, {over}") if own else over
            forget, on = text.fresh("forget"), text.fresh("on")
            none = text.let(f"icmp eq i{lanes} {text.let(f'bitcast {bits} {own} to i{lanes}')}, -1")
            text.branch(none, on, forget)
            text.start(forget)
            for first in range(0, count, lanes):
                text.put(f"store {ty} zeroinitializer, ptr {self._column(loads, first)}, align 4")
            text.put(f"br label %{on}")
            text.start(on)
        text.put(f"store i64 {event if is_load else 0}, ptr %race_last")

    def _splat(self, ty: str, value: str) -> str:
        first = self.text.let(f"insertelement {ty} poison, i32 {value}, i64 0")
        return self.text.let(f"shufflevector {ty} {first}, {ty} poison, {ty} zeroinitializer")

    def _column(self, plane: str, first: int) -> str:
        return self.text.let(f"getelementptr i32, ptr {plane}, i64 {first}")


def _is_near(access: Access) -> bool:
    """Whether accesses in several rounds have lines of caches in common: else it costs less to look at cells when one
    is made. Those of less than a dword have to go on where the last one ended."""
    walk = access.walk
    return not walk.step_register and (walk.step == access.size or (walk.step < FAR and access.size >= DWORD))


def looking(harts: int) -> Looking:
    """What looks at accesses of the harts of a device that has so many."""
    return Looking(f"races {harts}", partial(RaceLooks, harts))
