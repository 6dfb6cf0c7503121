#!/bin/sh
# guest-qemu.sh ROOT ARGUMENTS...: run the QEMU of a tree made by guest-root.sh, with the tree's own libraries, without
# entering the tree and without being root. Paths in ARGUMENTS are this machine's.
set -eu

root=$(cd "$1" && pwd)
shift
libraries=$root/usr/lib/x86_64-linux-gnu
QEMU_MODULE_DIR=$libraries/qemu
export QEMU_MODULE_DIR
exec "$root/lib64/ld-linux-x86-64.so.2" \
    --library-path "$libraries:$libraries/pulseaudio" "$root/usr/bin/qemu-system-x86_64" \
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "$@"
