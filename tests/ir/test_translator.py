"""The translator's identity: another content is another translator, whatever names, sizes and times say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import softcard
from softcard.engine.gcn.jit import code_metadata
from softcard.ir import llvm, translator
from softcard.ir.translator import sources_digest, translator_key

PACKAGE = Path(softcard.__file__).parent

RUN = """
import json, sys
import numpy as np
from pathlib import Path
from softcard.core.space import Ram
from softcard.ir import llvm
from softcard.ir.object_cache import ObjectCache
from softcard.ir.translator import translator_key
compiled = []
compile_ir = llvm.compile_ir
def noted(text, tier):
    compiled.append(tier)
    return compile_ir(text, tier)
llvm.compile_ir = noted
cache = ObjectCache(Path(sys.argv[1]))

from softcard.engine.riscv.jit.engine import JitEngine
from softcard.isa.riscv import csr
from softcard.isa.riscv.decode import assemble
from softcard.isa.riscv.state import RETURN_ADDRESS, Hart

class Port:
    def __init__(self, ram):
        self.ram = ram
    def load(self, address, size):
        return int.from_bytes(self.ram.view[address : address + size], "little")
    def store(self, address, size, value):
        self.ram.view[address : address + size] = value.to_bytes(size, "little")
    def fetch(self, address):
        return self.load(address, 2)
    def page(self, address, access):
        return self.ram.base_host if address < self.ram.size else None

ram = Ram(1 << 16)
code = assemble("xor a0, a0, a1; jalr zero, 0(ra)")
ram.view[: len(code)] = code
hart = Hart(0, Port(ram))
csr.reset(hart)
hart.set_x(1, 0x8000)
hart.words[RETURN_ADDRESS] = 0x8000
hart.set_x(10, 12), hart.set_x(11, 10)
JitEngine(tier=llvm.OPTIMISED, cache=cache).run(hart, fuel=100)

from softcard.engine.gcn.api import Dispatch, Shapes
from softcard.engine.gcn.tiered.engine import JitEngine as WaveEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.engine.gcn.memory import GpuMemory
from softcard.isa.gcn.asm.assembler import assemble as wave_code
from softcard.isa.gcn.target import target
gfx900 = target("gfx900")
code = wave_code(gfx900, \"\"\"
    v_lshlrev_b32_e32 v1, 2, v0
    v_add_u32_e32 v1, 0x200000, v1
    v_xor_b32_e32 v3, 10, v0
    v_mov_b32_e32 v2, 0
    global_store_dword v[1:2], v3, off
    s_endpgm\"\"\", 0x100000)
memory, data = GpuMemory(), Ram(4096)
memory.map(0x100000, np.frombuffer(code, np.uint8).copy(), name="code")
memory.map(0x200000, data, name="data")
engine = WaveEngine(threads=1, tier=Tier.OPTIMISED, cache=cache)
engine.run(Dispatch(gfx900, memory, 0x100000, Shapes.of([(64, 1, 1)], 1), np.array([(0, 0, 0, 0)], np.uint32)))
engine.close()
lanes = np.frombuffer(data.view, np.uint32)[:64].tolist()
print(json.dumps([hart.x(10), lanes, len(compiled), translator_key().hex()]))
"""


def run(path: Path, cache: Path) -> tuple[int, list[int], int, str]:
    """Both engines from the package at `path`, with its objects in `cache`: results, compilations, key."""
    # No compiled modules: Python itself believes sizes and times.
    command = [sys.executable, "-B", "-c", RUN, str(cache)]
    environment = {**os.environ, "PYTHONPATH": str(path)}
    done = subprocess.run(command, env=environment, cwd=cache.parent, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return tuple(json.loads(done.stdout))


def copy_of_the_package(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "softcard", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "softcard"


def clamp(package: Path) -> None:
    """All times are those of the release, as in builds that give the same bytes twice."""
    for path in package.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    assert len(old) == len(new)
    path.write_text(text.replace(old, new, 1), "utf-8")


@pytest.mark.slow
def test_a_fix_of_equal_size_and_time_is_another_translator(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    clamp(package)
    cache = tmp_path / "cache"
    lanes = [10 ^ lane for lane in range(64)]
    first = run(tmp_path, cache)
    assert first[:2] == (12 ^ 10, lanes)
    assert first[2] > 1
    again = run(tmp_path, cache)
    assert (again[0], again[1], again[3]) == (first[0], first[1], first[3])
    assert again[2] == 0, "everything was kept"
    engine = package / "engine"
    replace(engine / "riscv" / "jit" / "emit_integer.py", 'xor = _binary("xor")', 'xor = _binary("add")')
    replace(engine / "gcn" / "jit" / "emit" / "emit_integer.py", '_plain("xor", "xor")', '_plain("xor", "add")')
    clamp(package)
    fixed = run(tmp_path, cache)
    assert fixed[:2] == (12 + 10, [10 + lane for lane in range(64)])
    assert fixed[3] != first[3]
    assert fixed[2] > 1


@pytest.mark.slow
def test_out_of_a_zip_the_second_start_finds_what_the_first_one_kept(tmp_path: Path) -> None:
    archive = tmp_path / "softcard.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in sorted(PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                zipped.write(path, Path("softcard") / path.relative_to(PACKAGE))
    first = run(archive, tmp_path / "cache")
    again = run(archive, tmp_path / "cache")
    assert first[:2] == (12 ^ 10, [10 ^ lane for lane in range(64)])
    assert again[:2] == first[:2]
    assert again[3] == first[3] == translator_key().hex(), "the same sources are the same translator, packed or not"
    assert (first[2] > 1, again[2]) == (True, 0)


def test_every_module_that_may_decide_what_code_comes_out_counts(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    loaded = translator._LOADED_NS
    translator._LOADED_NS = 1 << 62  # the copy is younger than this process
    try:
        before = sources_digest(package)
        assert sources_digest(package) == before == sources_digest(PACKAGE)
        names = "engine/riscv/jit/emit_memory ir/builder isa/riscv/integer isa/gcn/operations/vop2 core/words"
        for name in (f"{module}.py" for module in names.split()):
            path = package / name
            text = path.read_bytes()
            path.write_bytes(text[:-2] + b"#" + text[-1:])
            assert path.stat().st_size == len(text)
            assert sources_digest(package) != before, name
            path.write_bytes(text)
        assert sources_digest(package) == before
        (package / "cli" / "app.py").write_text("")  # compiles nothing
        assert sources_digest(package) == before
        (package / "core" / "words.py").rename(package / "core" / "swords.py")
        assert sources_digest(package) != before
    finally:
        translator._LOADED_NS = loaded


def test_sources_that_are_not_what_runs_keep_nothing(tmp_path: Path) -> None:
    assert sources_digest(tmp_path) != sources_digest(tmp_path), "there are none"
    package = copy_of_the_package(tmp_path)
    clamp(package)  # they were changed after this process began, whatever they say
    assert sources_digest(package) != sources_digest(package)


def test_modules_without_sources_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "_LOADED_NS", 1 << 62)
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "words.pyc").write_bytes(b"compiled")
    before = sources_digest(tmp_path)
    (tmp_path / "core" / "__pycache__").mkdir()
    (tmp_path / "core" / "__pycache__" / "other.cpython-311.pyc").write_bytes(b"beside a source")
    assert sources_digest(tmp_path) == before
    (tmp_path / "core" / "words.pyc").write_bytes(b"Compiled")
    assert sources_digest(tmp_path) != before


def test_one_key_for_both_caches_and_it_depends_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_metadata.translator_key is translator_key
    before = translator_key()
    translator_key.cache_clear()
    monkeypatch.setattr(llvm, "host_key", lambda: "another host")
    assert translator_key() != before
    translator_key.cache_clear()


def test_the_sources_are_not_read_before_something_is_translated() -> None:
    code = (
        "from pathlib import Path\nread = Path.read_bytes\nnames = []\n"
        "Path.read_bytes = lambda self: names.append(self.name) or read(self)\n"
        "import softcard.engine.riscv.jit.engine, softcard.engine.gcn.tiered.engine\n"
        "import softcard.host.hsa, softcard.host.refsi\n"
        "print([name for name in names if name.endswith('.py')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
