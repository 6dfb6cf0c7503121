"""Objects that need no compiler: those that are committed, and those that llvmlite writes, never linked."""

import functools

import pytest

from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.image.hsa.code_object import CodeObject, read_code_object
from tests.gcn_kernels import cases_programs, cases_resources  # noqa: F401
from tests.gcn_kernels.bench import CASES, cached_engine, check, run
from tests.gcn_kernels.make_objects import OBJECTS, SOURCE
from tests.gcn_kernels.toolchain import SOURCES

PROGRAMS = [name for name, each in CASES.items() if each.source == SOURCE]
BUFFERS = [name for name, each in CASES.items() if each.source == "buffers.ll"]


@functools.cache
def committed(name: str) -> CodeObject:
    return read_code_object((SOURCES / name).read_bytes())


@functools.cache
def by_llvmlite(source: str, gfx: str) -> CodeObject:
    """IR compiled in this process."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly((SOURCES / source).read_text())
    machine = binding.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=gfx, opt=2, reloc="pic")
    return read_code_object(machine.emit_object(module))


@pytest.fixture(scope="module")
def jit():
    engine = cached_engine(threads=1, tier=Tier.THREADED)
    yield engine
    engine.close()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("file", OBJECTS)
def test_committed_objects_run_on_both_engines(file, name, jit):
    gfx, _, version = OBJECTS[file]
    code = committed(file)
    assert (code.version, code.target, code.warnings, code.missing) == (f"V{version}", gfx, (), ())
    by_reference, counted = run(ReferenceEngine(), gfx, code, CASES[name])
    check(CASES[name], by_reference, "reference")
    by_jit, counted_by_jit = run(jit, gfx, code, CASES[name])
    assert [each.tobytes() for each in by_jit] == [each.tobytes() for each in by_reference]
    assert counted_by_jit == counted


@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.parametrize("gfx", ["gfx700", "gfx803", "gfx900"])
def test_objects_of_llvmlite(gfx, name, jit):
    code = by_llvmlite("buffers.ll", gfx)
    assert (code.target, code.warnings) == (gfx, ())
    got, _ = run(jit, gfx, code, CASES[name])
    check(CASES[name], got, "jit")
