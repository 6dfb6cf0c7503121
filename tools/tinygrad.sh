#!/bin/sh
# Make build/tinygrad, a folder for PYTHONPATH with tinygrad, whose own run-time library tests run on the virtual GPUs. It
# is pure Python and has no dependencies; it is made once and kept (tools/kept.sh). Never fails: where it cannot be made
# that is said, and the tests are skipped (with CI=true they fail).
set -eu
cd "$(dirname "$0")/.."
. tools/kept.sh

is_good() { [ -d "$1/tinygrad" ]; }

make_kept() {
    echo "tinygrad: installing tinygrad for the tests (once, 3 MB to download)"
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --no-compile --quiet --no-deps \
        --only-binary :all: --target "$1" tinygrad==0.14.0 || return 1
}

kept tinygrad build/tinygrad tools/tinygrad.sh || echo "tinygrad: it cannot be installed: its tests will be skipped"
