#!/bin/sh
# guest-build.sh ROOT SOURCE TARGET: build the kernel module and the programs of the folder SOURCE with the compiler and
# the kernel headers of the Debian tree ROOT, and leave everything in the new folder TARGET. SOURCE is not written to.
#
# Where SOURCE/Kbuild or SOURCE/Makefile has obj-m, the kernel's build system makes the module first. Then SOURCE's own
# Makefile is asked for `all`, or for its first target if it has no `all`. It finds the guest's kernel as $(KDIR),
# $(KERNELDIR), $(KERNEL_SRC) and by `uname -r`, and -static in $(LDFLAGS) (the guest has the C library for programs
# that are linked otherwise). Exits 1 if a build failed or no module came out.
set -eu

root=$(cd "$1" && pwd) source=$2 target=$3
name=$(basename "$(cd "$source" && pwd)")
kdir=/lib/modules/$(ls "$root/lib/modules" | head -n 1)/build

fail() { echo "guest-build: $*" >&2; exit 1; }

# A folder of its own: several may build at once.
work=$(mktemp -d "$root/build/XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
inside=/build/$(basename "$work")/$name
mkdir "$work/$name"
# What was built for another kernel must not be taken for made here.
tar -C "$source" --exclude-vcs --exclude='*.ko' --exclude='*.o' --exclude='.*.cmd' --exclude='*.mod' \
    --exclude='*.mod.c' --exclude=Module.symvers --exclude=modules.order -chf - . | tar -C "$work/$name" -xf -

# Runs a program in the tree, in the copied folder.
enter() {
    if [ "$(id -u)" = 0 ]; then
        chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin HOME=/ LC_ALL=C LDFLAGS=-static \
            sh -c 'cd "$0" && exec "$@"' "$inside" "$@"
    else
        unshare --map-root-user --mount sh -c 'mount --bind /dev/null "$0/dev/null" && exec chroot "$0" "$@"' "$root" \
            /usr/bin/env -i PATH=/usr/local/bin:/usr/bin HOME=/ LC_ALL=C LDFLAGS=-static \
            sh -c 'cd "$0" && exec "$@"' "$inside" "$@"
    fi
}

# Has the folder's own Makefile a target `all`? The argument is what make says of its rules.
has_all() {
    printf '%s\n' "$1" |
        awk '/^all:/ && before !~ /^# Not a target/ { found = 1 } { before = $0 } END { exit !found }'
}

status=0
makefile=
for each in GNUmakefile makefile Makefile; do
    [ -n "$makefile" ] || [ ! -f "$work/$name/$each" ] || makefile=$each
done
if grep -qsE '^[^#]*obj-(m|\$)' "$work/$name/Kbuild" "$work/$name/$makefile"; then
    enter make --no-print-directory -C "$kdir" "M=$inside" modules || status=1
fi
if [ -n "$makefile" ] && [ $status = 0 ]; then
    rules=$(enter make -pq : "KDIR=$kdir" 2>/dev/null) || true  # prints the rules and makes nothing
    goal=
    if has_all "$rules"; then goal=all; fi
    # A Makefile that only names what the kernel is to build has no target of its own.
    if printf '%s\n' "$rules" | grep '^\.DEFAULT_GOAL := .' >/dev/null; then
        enter make --no-print-directory "KDIR=$kdir" "KERNELDIR=$kdir" "KERNEL_SRC=$kdir" $goal || status=1
    fi
fi
rm -rf "$target"
mkdir -p "$target"
cp -r "$work/$name"/. "$target"/
[ $status = 0 ] || fail "a build failed; what was made is in $target"
modules=$(cd "$target" && find . -name '*.ko' | sed 's,^\./,,' | sort)
[ -n "$modules" ] || fail "no kernel module (.ko) came out of $source: is obj-m set, in Kbuild or Makefile?"
echo "guest-build: made" $modules "in $target"
