"""Native functions: what the machine code of one gives is what Python gives; what has no native form is named."""

import ast
import ctypes
import importlib
import importlib.util
import itertools
import re
import sys
import zipfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softcard.core.errors import ModelBug
from softcard.ir import llvm, native, native_source
from softcard.ir.native import A8, A16, A32, A64, U8, U16, U32, U64, V32, Function, inlined, layout, link, signed
from softcard.ir.object_cache import ObjectCache

MASK = (1 << 64) - 1
STEP = 3
NUMBERS = itertools.count()


@layout
class Row(ctypes.Structure):
    """Two words."""

    base: int
    size: int


def compiled(function: Function[Any], objects: ObjectCache | None = None) -> Any:
    code = link(objects or ObjectCache(), function)
    return code.function(function.name, ctypes.c_uint64, *[ctypes.c_uint64] * len(function.parameters))


def both(function: Function[Any], *arguments: int) -> int:
    """Return the result, which is the same compiled and as Python."""
    made = compiled(function)(*arguments)
    assert function(*arguments) == made
    return int(made)


def loaded(folder: Path, body: str, head: str = "") -> ModuleType:
    """A module with a native function `main`, from source."""
    name = f"native_case_{next(NUMBERS)}"
    path = folder / f"{name}.py"
    path.write_text(f"from softcard.ir.native import *\n{head}\n@native\n{body}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- random programs -------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
CONSTANTS = st.sampled_from([0, 1, 2, 7, 63, 64, 65, 255, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, MASK])
COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@cache
def words(depth: int = 2) -> st.SearchStrategy[str]:
    plain = st.one_of(st.sampled_from(NAMES), CONSTANTS.map(str), st.just("STEP"))
    if depth == 0:
        return plain
    part = words(depth - 1)
    view = st.sampled_from(["U8", "U16", "U32", "U64", "V8", "V16", "V32", "V64"])
    place = part.map(lambda x: f"(room + ({x}) % 56)")
    atomic = st.sampled_from(["add", "sub"])
    return st.one_of(
        plain,
        st.tuples(part, st.sampled_from(["+", "-", "*", "&", "|", "^", "<<", ">>"]), part).map(
            lambda x: f"({x[0]} {x[1]} {x[2]})"
        ),
        st.tuples(part, st.sampled_from(["//", "%"]), st.integers(1, 99)).map(lambda x: f"({x[0]} {x[1]} {x[2]})"),
        st.tuples(st.sampled_from(["~", "-"]), part).map(lambda x: f"({x[0]}{x[1]})"),
        st.tuples(part, COMPARISONS, part).map(lambda x: f"({x[0]} {x[1]} {x[2]})"),
        st.tuples(part, COMPARISONS, part).map(lambda x: f"(signed({x[0]}) {x[1]} signed({x[2]}))"),
        st.tuples(part, COMPARISONS, st.integers(-9, 9)).map(lambda x: f"(signed({x[0]}) {x[1]} {x[2]})"),
        st.tuples(part, part).map(lambda x: f"(signed({x[0]}) >> {x[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), part, part).map(lambda x: f"{x[0]}({x[1]}, {x[2]})"),
        st.tuples(part, part, part).map(lambda x: f"({x[0]} if {x[1]} else {x[2]})"),
        part.map(lambda x: f"lowest_bit({x})"),
        st.tuples(st.sampled_from(["add_floats", "add_doubles"]), part, part).map(lambda x: f"{x[0]}({x[1]}, {x[2]})"),
        st.tuples(st.sampled_from(["fma_floats", "fma_doubles"]), part, part, part).map(
            lambda x: f"{x[0]}({x[1]}, {x[2]}, {x[3]})"
        ),
        part.map(lambda x: f"helper({x}, b)"),
        st.tuples(view, place).map(lambda x: f"{x[0]}[{x[1]}]"),
        st.tuples(view, part).map(lambda x: f"{x[0]}.at(room)[{x[1]} & 7]"),
        st.tuples(atomic, st.sampled_from([8, 16, 32, 64]), part, part).map(
            lambda x: f"A{x[1]}.{x[0]}(room + ({x[2]} & 48), {x[3]})"
        ),
        st.tuples(part, part, part).map(lambda x: f"A64.compare_exchange(room + ({x[0]} & 48), {x[1]}, {x[2]})"),
        st.sampled_from(["row.base", "row.size", "Row.from_address(room + 32).size"]),
    )


@cache
def conditions() -> st.SearchStrategy[str]:
    one = st.one_of(words(1), st.tuples(words(1), COMPARISONS, words(1)).map(" ".join))
    return st.one_of(
        one,
        one.map(lambda x: f"not ({x})"),
        st.tuples(one, st.sampled_from([" and ", " or "]), one).map(lambda x: f"({x[0]}{x[1]}{x[2]})"),
        st.tuples(one, one, one).map(lambda x: f"({x[0]} and {x[1]}) or not {x[2]}"),
    )


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@cache
def statements(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    name = st.sampled_from(NAMES)
    simple = [
        st.tuples(name, words()).map(lambda x: [f"{x[0]} = {x[1]}"]),
        st.tuples(name, name, words(), words(1)).map(lambda x: [f"{x[0]}, {x[1]} = {x[2]}, {x[3]}"]),
        st.tuples(name, st.sampled_from(["+", "-", "*", "&", "|", "^", "<<", ">>"]), words(1)).map(
            lambda x: [f"{x[0]} {x[1]}= {x[2]}"]
        ),
        st.tuples(st.sampled_from([8, 16, 32, 64]), words(1), st.sampled_from(["", "+", "^"]), words(1)).map(
            lambda x: [f"U{x[0]}[room + ({x[1]}) % 56] {x[2]}= {x[3]}"]
        ),
        words(1).map(lambda x: [f"row.size = {x}"]),
        words(1).map(lambda x: [f"row.base -= {x}"]),
        words(1).map(lambda x: [f"return {x}"]),
    ]
    if in_loop:
        simple += [st.just(["break"]), st.just(["continue"])]
    if depth == 0:
        return st.one_of(simple)
    inside = blocks(depth - 1, in_loop)
    looped = blocks(depth - 1, True)
    return st.one_of(
        *simple,
        st.tuples(conditions(), inside).map(lambda x: [f"if {x[0]}:", *indented(x[1])]),
        st.tuples(conditions(), inside, inside).map(
            lambda x: [f"if {x[0]}:", *indented(x[1]), "else:", *indented(x[2])]
        ),
        st.tuples(conditions(), looped).map(
            lambda x: [f"while {x[0]}:", "    fuel -= 1", "    if fuel == 0:", "        break", *indented(x[1])]
        ),
        st.tuples(name, words(1), st.integers(1, 5), looped).map(
            lambda x: [f"for {x[0]} in range(({x[1]}) & 7, 9, {x[2]}):", *indented(x[3])]
        ),
    )


@cache
def blocks(depth: int, in_loop: bool = False) -> st.SearchStrategy[list[str]]:
    return st.lists(statements(depth, in_loop), min_size=1, max_size=4).map(lambda parts: list(itertools.chain(*parts)))


HEAD = """
import ctypes
STEP = 3

@layout
class Row(ctypes.Structure):
    base: int
    size: int

@inlined
def helper(a: int, b: int) -> int:
    if a < b:
        return a - b
    return a * 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("native")


@settings(max_examples=150, deadline=None)
@given(
    blocks(3), st.lists(CONSTANTS | st.integers(0, MASK), min_size=4, max_size=4), st.binary(min_size=64, max_size=64)
)
def test_random_programs(folder: Path, body: list[str], arguments: tuple[int, ...], memory: bytes) -> None:
    lines = ["def main(room: int, a: int, b: int, c: int, d: int) -> int:"]
    lines += indented(["fuel = 20", "row = Row.from_address(room + 16)", *body, "return a ^ b ^ c ^ d"])
    main = loaded(folder, "\n".join(lines) + "\n", HEAD).main
    results = []
    for function in (compiled(main), main):
        room = np.frombuffer(memory, np.uint64).copy()
        results.append((function(room.ctypes.data, *arguments), room.tobytes()))
    assert results[0] == results[1], "\n".join(lines)


# ---- what they may use -----------------------------------------------------------------------------------------------


@inlined
def twice(x: int) -> int:
    return x * 2


@native.native
def sums(rows: int, count: int) -> int:
    """Rows of a layout, an array, constants, calls, early ends."""
    total = 0
    for i in range(count):
        row = Row.from_address(rows + i * ctypes.sizeof(Row))
        if row.size == 0:
            continue
        total += row_sum(row) + STEP
        row.size = total
    return twice(total)


@native.native
def row_sum(row: Row) -> int:
    return row.base + row.size


@native.native
def copies(to: int, source: int) -> None:
    native.copy(to, source, 8)
    native.fill(to + 8, 0x1AB, 8)
    native.fill_lines(to + 16, 0x1_2345_6789, 2)
    A16.store(to + 80, A8.load(to + 8))
    A32.release(to + 84, V32[to + 16])


@native.native
def largest(at: int, count: int) -> int:
    return native.largest_in_lines(at, count)


@native.native
def calls(function: int, x: int) -> int:
    return native.call(function, x) + 1


@native.native
def control(word: int) -> int:
    before = native.read_float_control()
    native.write_float_control(before | word)
    there = native.read_float_control()
    native.write_float_control(before)
    return there & word


def test_rows() -> None:
    results = []
    for function in (compiled(sums), sums):
        rows = np.array([1, 2, 3, 0, MASK, 7], np.uint64)
        results.append((function(rows.ctypes.data, 3), rows.tolist()))
    assert results[0] == results[1] == (30, [1, 6, 3, 0, MASK, 15])


def test_bytes() -> None:
    source = np.array([0x1122334455667788], np.uint64)
    results = []
    for function in (compiled(copies), copies):
        to = np.zeros(20, np.uint64)
        assert function(to.ctypes.data, source.ctypes.data) == 0
        results.append(to.tobytes())
    assert results[0] == results[1]
    assert results[0][:84] == source.tobytes() + b"\xab" * 8 + b"\x89\x67\x45\x23" * 16 + b"\xab\0\x45\x23"
    assert results[0][84:] == b"\x89\x67\x45\x23" * 15 + bytes(16)


@pytest.mark.parametrize("first", [0, 1, 4])
def test_the_largest_dword_of_lines(first: int) -> None:
    numbers = np.random.default_rng(first).integers(0, 1 << 32, 64, np.uint32)
    raw = np.frombuffer(bytes(first) + numbers.tobytes(), np.uint8).copy()
    for count in range(5):
        expected = int(numbers[: 16 * count].max()) if count else 0
        assert both(largest, raw.ctypes.data + first, count) == expected


def test_calls_of_machine_code() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)
    function = kind(lambda x: x * 10)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    assert both(calls, address, 4) == 41


def test_float_control() -> None:
    assert both(control, 1 << 15) == (1 << 15 if llvm.is_x86() else 0)
    assert np.float64(2e-308) / 4 > 0, "denormals are what they were"


def test_signs_and_wide_shifts(folder: Path) -> None:
    main = loaded(folder, "def main(a: int, b: int) -> int:\n    return (signed(a) >> b) + (a >> b) + (a << b)\n").main
    assert both(main, 1 << 63, 64) == MASK
    assert both(main, 1 << 63, 60) == (MASK - 7 + 8) & MASK
    assert both(main, 1 << 63 | 1, 1) == (3 << 62) + (1 << 62) + 2 & MASK
    assert signed(MASK) == -1


def test_ranges_that_end_at_the_last_word(folder: Path) -> None:
    body = "def main(a: int, b: int) -> int:\n    n = 0\n    for i in range(a, b, 7):\n        n += i\n    return n\n"
    main = loaded(folder, body).main
    assert both(main, MASK - 10, MASK) == (MASK - 10 + MASK - 3) & MASK
    assert both(main, 5, 5) == 0


def test_views() -> None:
    room = np.zeros(2, np.uint64)
    U8[room.ctypes.data + 1] = 0x1FF
    U16.at(room.ctypes.data)[4] = MASK
    assert room.tolist() == [0xFF00, 0xFFFF]
    assert U32[room.ctypes.data + 1] == 0xFF
    assert U64.at(room.ctypes.data)[1] == 0xFFFF
    assert A64.add(room.ctypes.data, MASK) == 0xFF00
    assert room[0] == 0xFEFF


# ---- what has no native form -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("return a / 2", "5: 'a / 2' cannot be compiled to native code"),
        ("return a // b", "'a // b' needs a constant divisor above 0"),
        ("return [a]", "'[a]' cannot be compiled to native code"),
        ("return unknown", "'unknown' cannot be compiled to native code"),
        ("return print(a)", "'print(a)' cannot be compiled to native code"),
        ("return a and b", "'a and b' cannot be compiled to native code"),
        ("return 1.5", "'1.5' cannot be compiled to native code"),
        ("return signed(a)", "'signed(a)' cannot be compiled to native code"),
        ("return signed(a) < b", "'signed(a) < b' compares signed and unsigned words"),
        ("return a < b < 3", "'a < b < 3' cannot be compiled to native code"),
        ("return 1 << 64 | 18446744073709551616", "'18446744073709551616' does not fit 64 bits"),
        ("return NEGATIVE", "'NEGATIVE' does not fit 64 bits"),
        ("return main(a)", "'main(a)' passes a wrong number of arguments"),
        ("with a: pass", "'with a:' cannot be compiled to native code"),
        ("for i in a: pass", "'for i in a:' cannot be compiled to native code"),
        ("for i in print(a): pass", "'for i in print(a):' must iterate over a range"),
        ("for i in range(0, 9, b): pass", "'for i in range(0, 9, b):' needs a constant step above 0"),
        ("while a: pass\n    else: pass", "'while a:' cannot be compiled to native code"),
        ("if a:\n        c = 1\n    return c", "7: 'c' may be unassigned here"),
        ("while a:\n        c = 1\n    return c", "'c' may be unassigned here"),
        ("c = U64.at(a)\n    return c + 1", "'c' cannot be compiled to native code"),
        ("c = U64.at(a)\n    return c.more", "'c.more' cannot be compiled to native code"),
        ("c = U64.at(a)\n    c = 3", "c in main() is used for values of two kinds"),
        ("return A64.more(a, b)", "'A64.more(a, b)' cannot be compiled to native code"),
    ],
)
def test_refusals(folder: Path, line: str, text: str) -> None:
    main = loaded(folder, f"def main(a: int, b: int) -> int:\n    {line}\n", "NEGATIVE = -1").main
    with pytest.raises(ModelBug, match=re.escape(text)) as caught:
        link(ObjectCache(), main)
    assert main.function.__code__.co_filename in str(caught.value)


def test_parameters_are_plain_names(folder: Path) -> None:
    main = loaded(folder, "def main(a: int = 1) -> int:\n    return a\n").main
    with pytest.raises(ModelBug, match="has parameters that are not plain names"):
        link(ObjectCache(), main)


def test_two_functions_of_one_name(folder: Path) -> None:
    one, other = (loaded(folder, "def main(a: int) -> int:\n    return a\n").main for _ in range(2))
    with pytest.raises(ModelBug, match="two native functions are called main"):
        link(ObjectCache(), one, other)


def test_source_that_changed(folder: Path) -> None:
    module = loaded(folder, "def main(a: int) -> int:\n    return a\n")
    path = Path(str(module.__file__))
    path.write_text(path.read_text().replace("return a", "return a + 1"))
    with pytest.raises(ModelBug, match=r"main\(\) has changed since it was loaded"):
        link(ObjectCache(), module.main)


# ---- what is kept ----------------------------------------------------------------------------------------------------


class Counting(ObjectCache):
    """Notes under which names objects are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.keys.append(key)
        return super().get(key)


def test_kept_code_is_known_by_what_it_means(folder: Path) -> None:
    body = "def main(a: int) -> int:\n    return a + {} + STEP * helper(a, a)\n"
    objects = Counting()
    compiled(loaded(folder, body.format(1), HEAD).main, objects)
    compiled(loaded(folder, body.format(1), "\n\n" + HEAD).main, objects)
    compiled(loaded(folder, body.format(2), HEAD).main, objects)
    compiled(loaded(folder, body.format(1), HEAD.replace("STEP = 3", "STEP = 4")).main, objects)
    compiled(loaded(folder, body.format(1), HEAD.replace("a - b", "b - a")).main, objects)
    first, same, *others = objects.keys
    assert first == same
    assert len({first, *others}) == 4


def test_kept_code_is_found_without_its_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = ObjectCache()
    main = loaded(folder, "def main(a: int) -> int:\n    return a + 12\n").main
    compiled(main, objects)
    Path(main.function.__code__.co_filename).unlink()
    monkeypatch.setitem(sys.modules, "softcard.ir.native_llvm", None)
    assert compiled(main, objects)(1) == 13


def test_text_that_is_cached_is_not_generated() -> None:
    """The key of the machine code has the text's identity, not the text."""
    generated, objects = list[str](), ObjectCache()

    def module(identity: str) -> native.Module:
        def generate() -> str:
            generated.append(identity)
            return "define i64 @other(i64 %a) {\n  ret i64 %a\n}\n"

        return native.Module(objects, (native._get_float_control,), native.LateText(identity, generate))

    images = [module(identity).image(llvm.QUICK) for identity in ("one", "one", "two")]
    assert generated == ["one", "two"]
    assert llvm.Code(images[1]).address("other")


def test_sources_in_a_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "from softcard.ir.native import native\n\n@native\ndef main(a: int) -> int:\n    return a * 3\n"
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as file:
        file.writestr("native_in_a_zip.py", body)
    monkeypatch.syspath_prepend(str(tmp_path / "code.zip"))
    assert both(importlib.import_module("native_in_a_zip").main, 14) == 42


def test_a_source_is_parsed_again_if_another_thread_disturbs_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython issue 106905: a SystemError although nothing is wrong with the source."""
    parse, failures = ast.parse, [SystemError("AST constructor recursion depth mismatch (before=48, after=327)")]

    def disturbed(text: str) -> ast.Module:
        if failures:
            raise failures.pop()
        return parse(text)

    monkeypatch.setattr(native_source.ast, "parse", disturbed)
    assert ast.dump(native_source._parsed("x = 1")) == ast.dump(parse("x = 1"))
    assert not failures
    failures[:] = [SystemError("again")] * (native_source.PARSES + 1)
    with pytest.raises(SystemError, match="again"):
        native_source._parsed("x = 1")
