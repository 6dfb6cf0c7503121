#!/bin/sh
# Make a virtual environment with Python 3.11 or later: tools/venv.sh DIRECTORY. PYTHON=... chooses the interpreter.
set -eu

say() { echo "venv: $*" >&2; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python=
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if new_enough "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    say "Python 3.11 or later is needed; found $("${PYTHON:-python3}" --version 2>/dev/null || echo none)."
    say "Install one, or name it: make PYTHON=/path/to/python3.11"
    exit 1
fi

# Debian splits pip's bootstrap off into a package of its own.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $package, which this Python needs to make virtual environments"
        export DEBIAN_FRONTEND=noninteractive
        apt-get -qq install -y "$package" >/dev/null 2>&1 ||
            { apt-get -qq update && apt-get -qq install -y "$package" >/dev/null; } || true
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        say "$python cannot make virtual environments: its module ensurepip is missing."
        say "On Debian and Ubuntu: apt-get install $package"
        exit 1
    fi
fi

# An environment whose interpreter works is kept; pip brings its packages up to date.
if ! new_enough "$1/bin/python" || ! "$1/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$1"
    "$python" -m venv "$1"
fi
