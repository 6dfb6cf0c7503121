"""The same kernels by other compilers, in other object versions, for other processors, on other engine settings."""

import functools

import pytest

from softcard.engine.gcn.reference.engine import ReferenceEngine
from softcard.engine.gcn.tiered.translation import Tier
from softcard.image.hsa.code_object import read_code_object
from tests.agree.gcn.bench import widths
from tests.gcn_kernels import test_kernels
from tests.gcn_kernels.bench import CASES, cached_engine, check, run
from tests.gcn_kernels.toolchain import build

pytestmark = pytest.mark.oracle
TARGETS = test_kernels.TARGETS
TELLING = (
    "geometry_ids", "geometry_sizes", "call_nested", "call_many", "private_index", "lds_dynamic", "memory_generic",
    "memory_constant", "atomic_ticket", "program_histogram", "double_divide", "control_switch",
)  # fmt: skip
"""Kernels that depend on what a code object says about them."""
COMPILED = [("clang-15", n) for n in (2, 3, 4, 5)] + [("clang-16", n) for n in (2, 3, 5)]
OTHERS = {"gfx701": "gfx700", "gfx801": "gfx803", "gfx802": "gfx803", "gfx902": "gfx900", "gfx906": "gfx900"}
"""Other processors, and which of the three each is like."""


@functools.cache
def made(source, gfx, *options, **more):
    return read_code_object(build(source, gfx, *options, **more))


@pytest.fixture(scope="module")
def jit():
    engine = cached_engine(threads=1, tier=Tier.THREADED)
    yield engine
    engine.close()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize(("compiler", "version"), COMPILED)
def test_compilers_and_code_object_versions(compiler, version, name, jit):
    for gfx in TARGETS:
        code = made(CASES[name].source, gfx, "-O2", f"-mcode-object-version={version}", name=compiler)
        assert (code.version, code.target, code.warnings) == (f"V{version}", gfx, ())
        got, _ = run(jit, gfx, code, CASES[name])
        check(CASES[name], got, f"{compiler} V{version} {gfx}")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize("version", [2, 4, 5])
def test_objects_that_were_never_linked(version, name, jit):
    code = made(CASES[name].source, "gfx803", "-O2", f"-mcode-object-version={version}", link=False)
    got, _ = run(jit, "gfx803", code, CASES[name])
    check(CASES[name], got, f"unlinked V{version}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name in TELLING if name not in ("memory_generic", "lds_dynamic")])
def test_mesa3d_objects(name, jit):
    for gfx in TARGETS:
        code = made(CASES[name].source, gfx, "-O2", system="mesa3d", link=False)
        assert code.version == "mesa3d"
        got, _ = run(jit, gfx, code, CASES[name])
        check(CASES[name], got, f"mesa3d {gfx}")


ON_GFX803 = [name for name, each in CASES.items() if "gfx803" in each.targets]
OTHER_RUNS = [
    (gfx, name)
    for gfx, like in OTHERS.items()
    for name, each in CASES.items()
    # clang keeps denormals on gfx801, unlike on others of its generation.
    if like in each.targets and (gfx, name) != ("gfx801", "float_flushed")
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("gfx", "name"), OTHER_RUNS, ids=["-".join(each) for each in OTHER_RUNS])
def test_other_processors(gfx, name, jit):
    code = made(CASES[name].source, gfx, "-O2")
    got, _ = run(jit, gfx, code, CASES[name])
    check(CASES[name], got, gfx)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name, each in CASES.items() if "gfx900" in each.targets])
def test_optimised_code_on_two_threads_in_seeded_order(name):
    code = made(CASES[name].source, "gfx900", "-O2")
    engine = optimising()
    got, _ = run(engine, "gfx900", code, CASES[name], seed=5, poison=0x7FC0DEAD, turn=4096)
    if name != "atomic_swap32":  # whose result is one of many right ones
        check(CASES[name], got, "two threads")


@functools.cache
def optimising():
    return cached_engine(threads=2, tier=Tier.OPTIMISED)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [name for name in ON_GFX803 if name != "atomic_swap32"])
def test_order_of_waves_and_undefined_registers_do_not_matter(name):
    code = made(CASES[name].source, "gfx803", "-O2")
    got, _ = run(ReferenceEngine(), "gfx803", code, CASES[name], seed=3, poison=0xFFC0_0BAD, turn=50)
    check(CASES[name], got, "seeded")


@functools.cache
def of_width(lanes):
    return cached_engine(threads=1, tier=Tier.THREADED, lanes=lanes)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ON_GFX803)
@pytest.mark.parametrize("lanes", widths())
def test_chunks_of_every_width(lanes, name):
    code = made(CASES[name].source, "gfx803", "-O2")
    got, _ = run(of_width(lanes), "gfx803", code, CASES[name])
    check(CASES[name], got, f"{lanes} lanes")
