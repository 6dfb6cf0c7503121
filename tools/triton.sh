#!/bin/sh
# Make build/triton, a folder for PYTHONPATH with Triton, whose kernels tests run. Triton has a folder of its own because
# it is large, and because only these tests import it; it is made once and kept (tools/kept.sh). Never fails: where it
# cannot be made that is said, and the tests are skipped (with CI=true they fail).
set -eu
cd "$(dirname "$0")/.."
. tools/kept.sh

is_good() { [ -d "$1/triton" ]; }

make_kept() {
    echo "triton: installing Triton for the tests (once, 286 MB to download)"
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --no-compile --quiet --no-deps \
        --only-binary :all: --target "$1" triton==3.9.0 || return 1
    rm -rf "$1/triton/profiler" "$1/triton/backends/nvidia/bin" "$1/bin"
}

kept triton build/triton tools/triton.sh || echo "triton: it cannot be installed: tests with Triton will be skipped"
