#!/bin/sh
# Install the real Fletcher run-time library, which tests compare with, into build/pyfletcher: it needs a Python 3.9.
# Never fails: where there is none, or no such packages, that is said, and the tests are skipped.
set -eu
cd "$(dirname "$0")/.."
folder=build/pyfletcher

works() { "$folder/bin/python" -c 'import pyfletcher' >/dev/null 2>&1; }

python39() {
    for candidate in python3.9 "$HOME"/.pyenv/versions/3.9.*/bin/python; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 9))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
}

if works; then exit 0; fi
python=$(python39)
if [ -z "$python" ]; then
    echo "pyfletcher: no Python 3.9 here: tests with the real Fletcher run-time will be skipped"
    exit 0
fi
echo "pyfletcher: installing the real Fletcher run-time into $folder"
{ "$python" -m venv "$folder" &&
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input 'numpy<1.24' pyfletcher==0.0.20
} >/dev/null 2>&1 || true
works || echo "pyfletcher: it cannot be installed: tests with the real Fletcher run-time will be skipped"
