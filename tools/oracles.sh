#!/bin/sh
# Install the outside programs that tests marked `oracle` compare with, where that is possible. Never fails: what cannot
# be installed is named, and its tests are skipped (with CI=true they fail). QEMU 10.1 and a guest's kernel are fetched
# with CI=true only, since they take 600 MB: elsewhere that is left to `make guest-root`.
set -eu

missing() {
    command -v qemu-riscv64 >/dev/null || echo qemu-user
    command -v riscv64-unknown-elf-gcc >/dev/null || echo gcc-riscv64-unknown-elf
    command -v gcc >/dev/null || echo gcc
    [ -d /usr/lib/picolibc/riscv64-unknown-elf ] || echo picolibc-riscv64-unknown-elf
    command -v ghdl >/dev/null || echo ghdl-mcode
    command -v chromium >/dev/null || echo chromium
    command -v clang-16 >/dev/null || echo clang-16
    command -v clang-15 >/dev/null || echo clang-15
    command -v clang-19 >/dev/null || echo clang-19
    command -v ld.lld-16 >/dev/null || echo lld-16
    command -v ld.lld-15 >/dev/null || echo lld-15
    command -v llvm-mc-16 >/dev/null || echo llvm-16
    command -v llvm-mc-19 >/dev/null || echo llvm-19
    [ -e /usr/riscv64-linux-gnu/lib/libc.a ] || echo libc6-dev-riscv64-cross
    [ -e /usr/lib/gcc-cross/riscv64-linux-gnu/12/libgcc.a ] || echo libgcc-12-dev-riscv64-cross
    [ -e /etc/OpenCL/vendors/pocl.icd ] || echo pocl-opencl-icd ocl-icd-libopencl1
    command -v clinfo >/dev/null || echo clinfo
    command -v rocminfo >/dev/null || echo rocminfo
    command -v hipcc >/dev/null || echo hipcc libamdhip64-dev
    [ -e /usr/include/rocrand ] || echo librocrand-dev
    [ -e /usr/include/rocsparse ] || echo librocsparse-dev
}

# A machine that is thrown away need not wait until each of thousands of files has reached its disk.
unsafe=
[ "${CI:-}" != true ] || unsafe="-o Dpkg::Options::=--force-unsafe-io"
install() {
    apt-get -qq -o Acquire::Retries=1 $unsafe install -y --no-install-recommends $packages >/dev/null 2>&1
}

packages=$(missing | tr '\n' ' ')
if [ -n "$packages" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "oracles: installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    install || { apt-get -qq -o Acquire::Retries=1 update >/dev/null 2>&1 && install; } || true
    packages=$(missing | tr '\n' ' ')
fi
[ -z "$packages" ] ||
    echo "oracles: tests that compare with outside programs will be skipped; as root: apt-get install $packages"
# What compilers, ours too, made of the kernels of tests/gcn_kernels: files are named after all that decides them.
. "$(dirname "$0")/kept.sh"
is_good() { :; }
make_kept() { :; }
[ ! -d tests/gcn_kernels ] || kept gcn-kernels build/gcn-kernels tests/gcn_kernels/toolchain.py || true
sh "$(dirname "$0")/pyfletcher.sh"
sh "$(dirname "$0")/rocm-kernels.sh"
sh "$(dirname "$0")/triton.sh"
sh "$(dirname "$0")/tinygrad.sh"
sh "$(dirname "$0")/iree.sh"
if [ "${CI:-}" = true ]; then
    sh "$(dirname "$0")/guest-root.sh" build/guest/root || echo "oracles: tests with QEMU's device and guest will fail"
fi
