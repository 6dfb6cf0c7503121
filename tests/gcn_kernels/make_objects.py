"""Compiles programs.cl into the objects that are committed, so that users without a compiler have something to run.

python -m tests.gcn_kernels.make_objects
"""

from tests.gcn_kernels.toolchain import SOURCES, build, compiler

SOURCE = "programs.cl"
OBJECTS = {
    "programs-gfx700-v2.co": ("gfx700", "clang-15", "2"),
    "programs-gfx803-v2.co": ("gfx803", "clang-15", "2"),
    "programs-gfx900-v2.co": ("gfx900", "clang-15", "2"),
    "programs-gfx700-v4.co": ("gfx700", "clang-16", "4"),
    "programs-gfx803-v4.co": ("gfx803", "clang-16", "4"),
    "programs-gfx900-v5.co": ("gfx900", "clang-16", "5"),
    "programs-gfx900-v6.co": ("gfx900", "zig", "6"),
}


def main() -> None:
    """Write all objects and say what made them."""
    for name, (gfx, by, version) in OBJECTS.items():
        data = build(SOURCE, gfx, "-O2", f"-mcode-object-version={version}", name=by)
        (SOURCES / name).write_bytes(data)
        print(f"{name}: {len(data)} bytes, {compiler(by).version.splitlines()[0]}")


if __name__ == "__main__":
    main()
