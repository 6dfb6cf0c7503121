#!/bin/sh
# Install the outside programs that tests marked `oracle` compare with, where that is possible. Never fails: what cannot
# be installed is named, and its tests are skipped.
set -eu

missing() {
    command -v qemu-riscv64 >/dev/null || echo qemu-user
    command -v riscv64-unknown-elf-gcc >/dev/null || echo gcc-riscv64-unknown-elf
    command -v gcc >/dev/null || echo gcc
}

packages=$(missing | tr '\n' ' ')
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "oracles: installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    install() { apt-get -qq -o Acquire::Retries=1 install -y --no-install-recommends $packages >/dev/null 2>&1; }
    install || { apt-get -qq -o Acquire::Retries=1 update >/dev/null 2>&1 && install; } || true
fi

packages=$(missing | tr '\n' ' ')
[ -z "$packages" ] ||
    echo "oracles: tests that compare with outside programs will be skipped; as root: apt-get install $packages"
