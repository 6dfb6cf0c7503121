#!/bin/sh
# Make build/pyfletcher/bin/python, a Python 3.9 that has the real Fletcher run-time library, which tests compare with.
# No later Python can load it, so where this machine has no 3.9, Debian bullseye's is unpacked; all is made once and kept
# (tools/kept.sh). Never fails: where it cannot be made that is said, and the tests are skipped (with CI=true they fail).
set -eu
cd "$(dirname "$0")/.."
. tools/kept.sh

is_good() { "$1/bin/python" -c 'import pyfletcher' >/dev/null 2>&1; }

# The last lines of the script that starts a Python 3.9: this machine's, or bullseye's unpacked in the folder $1. The
# latter uses this machine's C library (it loads libraries that are built here), and what else it needs from bullseye.
start() {
    found=$(python3.9 -c 'import sys; print(sys.executable if sys.version_info[:2] == (3, 9) else "")' 2>/dev/null) || true
    if [ -n "$found" ]; then
        echo "exec '$found' \"\$@\""
        return
    fi
    sh tools/debian-tree.sh "$1/bullseye" bullseye "" python3.9 >&2 || return 1
    mkdir "$1/lib" || return 1
    for library in libbz2.so.1.0 libcrypto.so.1.1 libexpat.so.1 libffi.so.7 liblzma.so.5 libmpdec.so.3 libssl.so.1.1 \
        libuuid.so.1 libz.so.1; do
        ln -s "../$(cd "$1" && find bullseye -name "$library" | head -n 1)" "$1/lib/$library" || return 1
    done
    echo 'export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
    echo 'exec "$here/bullseye/usr/bin/python3.9" "$@"'
}

make_kept() {
    echo "pyfletcher: installing the real Fletcher run-time and, if need be, a Python 3.9 (once, 80 MB to download)"
    last=$(start "$1") || return 1
    # Into a folder of their own, by this project's pip: bullseye's Python comes without one.
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --no-compile --target "$1/packages" \
        --python-version 3.9 --implementation cp --abi cp39 --only-binary :all: \
        --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 'numpy<1.24' pyfletcher==0.0.20 \
        >"$1/pip.log" 2>&1 || { tail -n 20 "$1/pip.log" >&2; return 1; }
    mkdir "$1/bin" || return 1
    {
        echo '#!/bin/sh'
        echo 'here=$(cd "$(dirname "$0")/.." && pwd)'
        echo 'export PYTHONPATH="$here/packages${PYTHONPATH:+:$PYTHONPATH}"'
        echo "$last"
    } >"$1/bin/python" && chmod 755 "$1/bin/python"
}

kept pyfletcher build/pyfletcher tools/pyfletcher.sh tools/debian-tree.sh ||
    echo "pyfletcher: it cannot be installed: tests with the real Fletcher run-time will be skipped"
