"""Write the code objects of this folder; run it as a script where the compilers are installed."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HEADER = HERE.parents[2] / "src" / "softcard" / "data" / "opencl.h"
ZIG = (sys.executable, "-m", "ziglang")
TOOLS = {
    "clang-15": (("clang-15",), ("ld.lld-15",)),
    "clang-16": (("clang-16",), ("ld.lld-16",)),
    "zig": ((*ZIG, "clang"), (*ZIG, "ld.lld")),
}
# File, compiler, processor, operating system, code object version.
OBJECTS = (
    ("v2.co", "clang-15", "gfx803", "amd-amdhsa", 2),
    ("v3.co", "clang-15", "gfx700", "amd-amdhsa", 3),
    ("v4.co", "clang-16", "gfx900", "amd-amdhsa", 4),
    ("v5.co", "zig", "gfx906", "amd-amdhsa", 5),
    ("v6.co", "zig", "gfx900", "amd-amdhsa", 6),
    ("mesa3d.co", "clang-15", "gfx803", "mesa-mesa3d", 0),
)


def build(name: str, tool: str, processor: str, system: str, version: int) -> None:
    compiler, linker = TOOLS[tool]
    words = ["-target", f"amdgcn-{system}", f"-mcpu={processor}", "-nogpulib", "-x", "cl", "-cl-std=CL2.0", "-w"]
    words += ["-cl-no-stdinc", "-O2", f"-D__SOFTCARD_CODE_OBJECT__={version or 2}", "-include", str(HEADER)]
    words += [f"-mcode-object-version={version}"] if version else ["-DNO_TABLE"]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "scale.cl", folder)
        subprocess.run([*compiler, *words, "-c", "scale.cl", "-o", "scale.o"], cwd=folder, check=True)
        link = [*linker, "-shared", "-z", "max-page-size=4096", "scale.o", "-o", str(HERE / name)]
        subprocess.run(link, cwd=folder, check=True)
    (HERE / name).chmod(0o644)


def build_labels() -> None:
    """V2 as older compilers wrote it: what they branch to within functions stands in the symbol table (BB0_2)."""
    words = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx803", "-mcode-object-version=2"]
    more = ["-nogpulib", "-x", "cl", "-cl-std=CL2.0", "-w", "-cl-no-stdinc", "-O2", "-D__SOFTCARD_CODE_OBJECT__=2"]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / "loops.cl", folder)
        compiled = ["clang-15", *words, *more, "-include", str(HEADER), "-S", "loops.cl", "-o", "loops.s"]
        subprocess.run(compiled, cwd=folder, check=True)
        text = Path(folder) / "loops.s"
        text.write_text(text.read_text(encoding="utf-8").replace(".LBB", "BB"), encoding="utf-8")
        subprocess.run(["clang-15", *words, "-c", "loops.s", "-o", "loops.o"], cwd=folder, check=True)
        link = ["ld.lld-15", "-shared", "-z", "max-page-size=4096", "loops.o", "-o", str(HERE / "v2-labels.co")]
        subprocess.run(link, cwd=folder, check=True)
    (HERE / "v2-labels.co").chmod(0o644)


def build_relocatable() -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu="gfx900", reloc="pic")
    module = binding.parse_assembly((HERE / "scale.ll").read_text(encoding="utf-8"))
    module.verify()
    (HERE / "relocatable.o").write_bytes(machine.emit_object(module))


if __name__ == "__main__":
    for each in OBJECTS:
        build(*each)
    build_labels()
    build_relocatable()
