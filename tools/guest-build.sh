#!/bin/sh
# guest-build.sh ROOT SOURCE TARGET: build the kernel module and programs of the folder SOURCE by its Makefile, with the
# compiler and the kernel headers of the Debian tree ROOT, and leave everything in the new folder TARGET.
set -eu

root=$1 source=$2 target=$3
version=$(ls "$root/lib/modules" | head -n 1)
work=$root/build/$(basename "$source")

rm -rf "$work" "$target"
mkdir -p "$work"
cp "$source"/Makefile "$source"/*.c "$source"/*.h "$work"/
enter=chroot
[ "$(id -u)" = 0 ] || enter="unshare --map-root-user chroot"
$enter "$root" make --no-print-directory -C "/build/$(basename "$source")" "KDIR=/lib/modules/$version/build" all
mkdir -p "$target"
cp -r "$work"/. "$target"/
