"""Driver folders of the usual shapes build for the guest's kernel, and what does not build is told."""

import subprocess

import pytest

from tests.attach.test_guest import GUEST_ROOT, TOOLS, reason

pytestmark = [pytest.mark.oracle, pytest.mark.skipif(bool(reason()), reason=reason()), pytest.mark.slow]

MODULE = """
#include <linux/module.h>
static int __init begin(void) { return 0; }
static void __exit end(void) {}
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
"""
PROGRAM = "int main(void) { return 0; }\n"
# Each with the paths that must come out.
SHAPES = {
    "Kbuild alone": ({"Kbuild": "obj-m := d.o\n", "d.c": MODULE}, ["d.ko"]),
    "a Makefile that is a Kbuild": ({"Makefile": "obj-m += d.o\n", "d.c": MODULE}, ["d.ko"]),
    "only default": (
        {
            "Makefile": "obj-m := d.o\nKERNELDIR ?= /lib/modules/$(shell uname -r)/build\nPWD := $(shell pwd)\n"
            "default:\n\t$(MAKE) -C $(KERNELDIR) M=$(PWD) modules\n",
            "d.c": MODULE,
        },
        ["d.ko"],
    ),
    "KERNELRELEASE and a fixed path": (
        {
            "Makefile": "ifneq ($(KERNELRELEASE),)\nobj-m := d.o\nelse\nmodules:\n"
            "\t$(MAKE) -C /lib/modules/`uname -r`/build M=$$PWD $@\nclean:\n\trm -f *.ko\nendif\n",
            "d.c": MODULE,
        },
        ["d.ko"],
    ),
    "a module of several files in subfolders": (
        {
            "Kbuild": "obj-m := d.o\nd-y := main.o core/part.o\nccflags-y := -I$(src)/include\n",
            "Makefile": "KDIR ?= /lib/modules/$(shell uname -r)/build\ndefault:\n\t$(MAKE) -C $(KDIR) M=$$PWD\n",
            "main.c": MODULE.replace("return 0", "return part()").replace("\nstatic", '\n#include "p.h"\nstatic', 1),
            "core/part.c": '#include "p.h"\nint part(void) { return 0; }\n',
            "include/p.h": "int part(void);\n",
        },
        ["d.ko"],
    ),
    "a module and programs, each in a subfolder": (
        {
            "Makefile": "all:\n\t$(MAKE) -C driver\n\t$(MAKE) -C tests\n.PHONY: all\n",
            "driver/Makefile": "obj-m := d.o\nall:\n\t$(MAKE) -C $(KDIR) M=$(CURDIR) modules\n",
            "driver/d.c": MODULE,
            "tests/Makefile": "all: one two\n",
            "tests/one.c": PROGRAM,
            "tests/two.cc": PROGRAM,
        },
        ["driver/d.ko", "tests/one", "tests/two"],
    ),
    "a subfolder that Kbuild names": (
        {"Kbuild": "obj-m := driver/\n", "driver/Kbuild": "obj-m := d.o\n", "driver/d.c": MODULE},
        ["driver/d.ko"],
    ),
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def build(folder, files):
    source = folder / folder.name  # which no other test has
    write(source, files)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    command = ["sh", str(TOOLS / "guest-build.sh"), str(GUEST_ROOT), str(source), str(folder / "built")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert before == {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    assert not list((GUEST_ROOT / "build").glob(f"*/{folder.name}")), "nothing of it stays in the tree"
    return done, folder / "built"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_folder_of_that_shape_is_built(shape, tmp_path):
    files, expected = SHAPES[shape]
    done, built = build(tmp_path, files)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in expected:
        assert (built / name).read_bytes()[:4] == b"\x7fELF"
    modules = [name for name in expected if name.endswith(".ko")]
    assert f"guest-build: made {' '.join(modules)} in " in done.stdout
    for name in set(expected) - set(modules):
        assert b"/lib64/ld-linux" not in (built / name).read_bytes(), "programs are linked statically"


def test_what_was_built_for_another_kernel_is_built_anew(tmp_path):
    stale = {
        "Kbuild": "obj-m := d.o\n",
        "d.c": MODULE,
        "d.ko": "old",
        "d.o": "old",
        ".d.o.cmd": "",
        "Module.symvers": "x",
    }
    done, built = build(tmp_path, stale)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (built / "d.ko").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"Makefile": "all: one\n", "one.c": PROGRAM}, "no kernel module (.ko) came out of"),
        ({"d.c": MODULE, "d.ko": "old"}, "no kernel module (.ko) came out of"),
        ({"Kbuild": "obj-m := d.o\n", "d.c": MODULE + "int x = y;\n"}, "a build failed"),
        ({"Makefile": "obj-m := d.o\nall:\n\t$(CC) -o one one.c\n", "d.c": MODULE, "one.c": "no"}, "a build failed"),
    ],
)
def test_a_folder_that_gives_no_module_is_refused(files, words, tmp_path):
    done, built = build(tmp_path, files)
    assert done.returncode == 1
    assert words in done.stderr
    assert built.is_dir()
