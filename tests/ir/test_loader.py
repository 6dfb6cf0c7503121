"""Objects loaded without LLVM: the same functions as LLVM's own linking gives; what is not known here is LLVM's."""

import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from softcard.core.errors import WireError
from softcard.ir import llvm, loader
from softcard.ir.host import LEVELS, VARIABLE, Host, at_level, host, is_x86, this_machine

pytestmark = pytest.mark.skipif(not is_x86() or sys.platform != "linux", reason="needs objects of Linux on x86-64")

TEXT = """
@table = private constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i64 @pick(i64 %number) {
  %at = getelementptr i64, ptr @table, i64 %number
  %found = load i64, ptr %at
  %more = call i64 @twice(i64 %found)
  ret i64 %more
}

define i64 @twice(i64 %n) noinline {
  %more = add i64 %n, %n
  ret i64 %more
}

define double @half(double %n) {
  %more = fmul double %n, 0.3
  ret double %more
}

define void @move(ptr %to, ptr %from, i64 %size) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}

define i64 @where(i64 %n) {
  switch i64 %n, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %e ]
a: ret i64 13
b: ret i64 101
c: ret i64 17
d: ret i64 9999
e: ret i64 4
other: ret i64 0
}
"""


def image() -> bytes:
    return llvm.compile_ir(TEXT, llvm.OPTIMISED)


@pytest.mark.parametrize("make", [loader.load, llvm.Linked], ids=["loaded", "linked"])
def test_functions_constants_jumps_and_functions_of_the_c_library(make: type[llvm.Linked]) -> None:
    made = make(image())
    assert made is not None
    word, number = ctypes.c_uint64, ctypes.c_double
    pick = ctypes.CFUNCTYPE(word, word)(made.address("pick"))
    assert [pick(index) for index in range(4)] == [6, 10, 14, 22]
    where = ctypes.CFUNCTYPE(word, word)(made.address("where"))
    assert [where(index) for index in range(6)] == [13, 101, 17, 9999, 4, 0]
    assert ctypes.CFUNCTYPE(number, number)(made.address("half"))(5.0) == 5.0 * 0.3
    to, source = ctypes.create_string_buffer(70_000), ctypes.create_string_buffer(os.urandom(70_000), 70_000)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, word)(made.address("move"))(to, source, 70_000)
    assert to.raw == source.raw
    assert made.address("missing") == 0


@pytest.mark.parametrize("make", [loader.load, llvm.Linked], ids=["loaded", "linked"])
def test_functions_that_the_caller_names(make: type[llvm.Linked]) -> None:
    """Code calls functions of other objects, whose addresses are given."""
    other = llvm.Code(image())
    text = "declare i64 @softcard_test_twice(i64)\ndefine i64 @f(i64 %n) {\n"
    text += "  %m = call i64 @softcard_test_twice(i64 %n)\n  ret i64 %m\n}\n"
    made = make(llvm.compile_ir(text, llvm.OPTIMISED), {"softcard_test_twice": other.address("twice")})
    assert made is not None
    assert ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(made.address("f"))(21) == 42


def test_code_is_loaded_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    made = image()
    monkeypatch.setattr(llvm, "Linked", None)
    assert llvm.Code(made).function("twice", ctypes.c_uint64, ctypes.c_uint64)(21) == 42


def test_no_page_is_writable_and_executable() -> None:
    made = loader.load(image())
    assert made is not None
    address = made.address("pick")
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(each, 16) for each in line.split()[0].split("-"))
        if first <= address < last:
            assert line.split()[1] == "r-xp"
            break
    else:
        pytest.fail("the code lies nowhere")


def changed(data: bytes, at: int, form: str, value: int) -> bytes:
    copy = bytearray(data)
    struct.pack_into(form, copy, at, value)
    return bytes(copy)


def relocations(data: bytes) -> list[int]:
    """Return the offsets of the relocations of code in an object."""
    head = loader.HEAD.unpack_from(data)
    sections = [loader.Section._make(loader.SECTION.unpack_from(data, head[6] + 64 * n)) for n in range(head[12])]
    used = [each for each in sections if each.type == loader.RELA and sections[each.info].type == loader.PROGBITS]
    return [at for each in used for at in range(each.at, each.at + each.size, loader.RELOCATION.size)]


def test_what_is_not_known_is_refused() -> None:
    made = image()
    assert loader.load(b"") is None
    assert loader.load(changed(made, 18, "<H", 183)) is None  # another machine's
    assert loader.load(changed(made, 4, "<B", 1)) is None  # of 32 bits
    found = relocations(made)
    assert found
    for at in found:
        info = struct.unpack_from("<Q", made, at + 8)[0]
        assert loader.load(changed(made, at + 8, "<Q", info + 1)) is None  # another type


@pytest.mark.parametrize(
    "text",
    ["@n = global i64 5\ndefine i64 @f() {\n%n = load i64, ptr @n\nret i64 %n\n}", "declare i64 @no_such_function()\n"
     "define i64 @f() {\n%n = call i64 @no_such_function()\nret i64 %n\n}"],
    ids=["writable", "unknown"],
)  # fmt: skip
def test_writable_data_and_unknown_functions_are_not_for_it(text: str) -> None:
    assert loader.load(llvm.compile_ir(text, llvm.QUICK)) is None


# ---- the host --------------------------------------------------------------------------------------------------------

USE = """
import sys
from softcard.ir import llvm
print(llvm.host_key(), sorted(llvm.host_features()) != [], "llvmlite.binding" in sys.modules)
"""


def asked(folder: Path, level: str = "") -> list[str]:
    environment = os.environ | {"XDG_CACHE_HOME": str(folder), VARIABLE: level}
    return subprocess.check_output([sys.executable, "-c", USE], env=environment, text=True).split()


def test_the_host_is_asked_for_once(tmp_path: Path) -> None:
    first, again = asked(tmp_path), asked(tmp_path)
    assert first[2] == "True"
    assert again == [first[0], "True", "False"]


def test_code_is_made_for_the_level_that_is_named(tmp_path: Path) -> None:
    """Objects of each have keys of their own, so that one cache serves all."""
    if not is_x86() or not LEVELS["x86-64-v3"] <= this_machine().names:
        pytest.skip("this machine's processor is less than x86-64-v3")
    keys = [asked(tmp_path, level)[0] for level in ("", "native", "avx2", "x86-64-v3", "sse")]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3]
    assert len(set(keys)) >= 2 + (this_machine().names > LEVELS["x86-64-v3"])


def test_levels() -> None:
    machine = Host("triple", "znver9", ",".join(f"+{each}" for each in sorted(LEVELS["x86-64-v3"] | {"new"})), "15")
    assert at_level(machine, "native") is machine
    lower = at_level(machine, "sse")
    assert (lower.name, lower.names) == ("x86-64-v2", LEVELS["x86-64-v2"])
    assert "-avx2" in lower.features.split(",")
    assert "-new" in lower.features.split(",")
    with pytest.raises(
        WireError, match=r"^SOFTCARD_HOST_LEVEL is avx512, but .* does not support avx512bw, .*lower level"
    ):
        at_level(machine, "avx512")
    with pytest.raises(WireError, match=r"^SOFTCARD_HOST_LEVEL is neon, expected one of native, sse, avx2, avx512, "):
        at_level(machine, "neon")


def test_another_processor_is_asked_for_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    described = tmp_path / "cpuinfo"
    described.write_text("processor : 0\ncpu MHz : 1000\nflags : fpu avx2\n\nprocessor : 1\nflags : fpu\n\n")
    monkeypatch.setattr("softcard.ir.host.PROCESSORS", str(described))
    count = 0

    def made() -> Host:
        nonlocal count
        count += 1
        return Host("x86_64", "some", "+avx2,-avx512f", f"{count}")

    monkeypatch.setattr("softcard.ir.host._query", made)
    fresh = host.__wrapped__
    assert fresh().names == {"avx2"}
    assert fresh().version == "1"
    described.write_text(described.read_text().replace("1000", "2000"))
    assert fresh().version == "1"
    described.write_text(described.read_text().replace("fpu avx2", "fpu"))
    assert fresh().version == "2"
    described.unlink()
    assert [fresh().version, fresh().version] == ["3", "4"]
