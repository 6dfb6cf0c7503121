"""Kernels by ziglang's clang, which the `kernels` extra installs: code object versions 4 to 6."""

import pytest

from tests.gcn_kernels.bench import CASES, check, run
from tests.gcn_kernels.test_variants import TARGETS, TELLING, jit, made  # noqa: F401


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize("version", [4, 5, 6])
def test_code_object_versions(version, name, jit):  # noqa: F811
    for gfx in TARGETS:
        code = made(CASES[name].source, gfx, "-O2", f"-mcode-object-version={version}", name="zig")
        assert (code.version, code.target, code.warnings) == (f"V{version}", gfx, ())
        got, _ = run(jit, gfx, code, CASES[name])
        check(CASES[name], got, f"zig V{version} {gfx}")
