#!/bin/sh
# wheel.sh TESTS...: make both distributions, the wheel from the unpacked source distribution; install it into a new
# environment (build/wheel/venv), and run these tests on it. PYTHON=... chooses the interpreter; LOWEST=1 installs the
# lowest versions that pyproject.toml allows of what the package needs. Needs the network.
set -eu

folder=build/wheel
rm -rf "$folder"
sh tools/venv.sh "$folder/venv"
python=$folder/venv/bin/python
pip() { "$python" -m pip --disable-pip-version-check --no-input "$@"; }

pip install --quiet build
"$python" -m build --outdir "$folder" . >"$folder/build.log" 2>&1 || { cat "$folder/build.log" >&2; exit 1; }
ls -l "$folder"/*.whl "$folder"/*.tar.gz

: >"$folder/constraints.txt"
if [ -n "${LOWEST:-}" ]; then
    "$python" - >"$folder/constraints.txt" <<'END'
import re, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
needed = project["dependencies"] + [each for name in extras if name != "dev" for each in extras[name]]
lowest = dict(re.match(r"([\w-]+)\W+([\w.]+)", each).groups() for each in needed + extras["dev"])
names = dict.fromkeys(re.match(r"[\w-]+", each)[0] for each in needed)
minor = {name: version if "." in version else f"{version}.0" for name, version in lowest.items()}
print(*(f"{name}=={minor[name]}.*" for name in names if name != "softcard"), sep="\n")
END
    cat "$folder/constraints.txt"
    set -- -W ignore::DeprecationWarning "$@" # old packages on others that are new
fi
wheel=$(ls "$PWD/$folder"/*.whl)
pip install --quiet --constraint "$folder/constraints.txt" "softcard[dev] @ file://$wheel"
"$python" -c 'import sys, softcard; sys.exit("src" in softcard.__file__.split("/"))'
"$folder/venv/bin/softcard" demo >/dev/null
exec "$python" -m pytest -q -m "not slow" "$@"
