#!/bin/sh
# rocm-kernels.sh [blas]: make build/rocm-kernels/kernels.zip, the code objects of Debian's rocRAND and rocSPARSE for GFX8
# and GFX9, which tests and benchmarks run; with `blas` build/rocblas-kernels/kernels.zip, those of rocBLAS. The packages
# are unpacked alone, nothing is installed, and what is made is kept (tools/kept.sh). Never fails without `blas`: where it
# cannot be made that is said, and the tests are skipped (with CI=true they fail).
set -eu
cd "$(dirname "$0")/.."
. tools/kept.sh

is_good() { [ -s "$1/kernels.zip" ]; }

make_kept() {
    echo "rocm-kernels: making an archive of the code of $packages (once, $size to download)"
    tree=$1/tree
    sh tools/debian-tree.sh --alone "$tree" "$suite" "" $packages || return 1
    ${PYTHON:-.venv/bin/python} tools/rocm_kernels.py "$tree" "$1/kernels.zip" || return 1
    rm -rf "$tree"
    echo "rocm-kernels: $(du -m "$1/kernels.zip" | cut -f 1) MB in $1/kernels.zip"
}

if [ "${1:-}" = blas ]; then
    suite=trixie packages=librocblas0 size="167 MB"
    kept rocblas-kernels build/rocblas-kernels tools/rocm-kernels.sh tools/rocm_kernels.py tools/debian-tree.sh
    exit
fi
suite=bookworm packages="librocrand1 librocsparse0" size="103 MB"
kept rocm-kernels build/rocm-kernels tools/rocm-kernels.sh tools/rocm_kernels.py tools/debian-tree.sh ||
    echo "rocm-kernels: they cannot be made: tests with the kernels of rocRAND and rocSPARSE will be skipped"
