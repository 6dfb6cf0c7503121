#!/bin/sh
# Make build/iree, a folder with IREE's compiler, whose executables tests run. It is made once and kept (tools/kept.sh),
# without the compiler's interface to Python. Never fails: where it cannot be made that is said, and the tests are skipped
# (with CI=true they fail).
set -eu
cd "$(dirname "$0")/.."
. tools/kept.sh

is_good() { [ -x "$1/iree-compile" ]; }

make_kept() {
    echo "iree: installing IREE's compiler for the tests (once, 84 MB to download)"
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --no-compile --quiet --no-deps \
        --only-binary :all: --target "$1/all" iree-base-compiler==3.13.0 || return 1
    (cd "$1/all/iree/compiler/_mlir_libs" && mv iree-compile iree-lld libIREECompiler.so iree_platform_libs "$1") || return 1
    rm -rf "$1/all"
}

kept iree build/iree tools/iree.sh || echo "iree: its compiler cannot be installed: tests with IREE will be skipped"
