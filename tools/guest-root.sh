#!/bin/sh
# guest-root.sh LINK: make LINK lead to a small Debian tree that holds what a guest run needs and this Debian may lack: a
# QEMU with vfio-user-pci (10.1 or later, from trixie-backports), a kernel with the headers and the compiler to build
# modules for it, and a static busybox. The tree is made once and kept (tools/kept.sh); nothing is installed outside it.
# Says why and exits 1 where it cannot be made.
set -eu

link=$1
cd "$(dirname "$0")/.."
. tools/kept.sh

fail() { echo "guest: $*" >&2; exit 1; }

is_good() { ls "$1"/boot/vmlinuz-* >/dev/null 2>&1 && sh tools/guest-qemu.sh "$1" --version >/dev/null 2>&1; }

make_kept() {
    echo "guest: making a Debian tree with QEMU and a kernel, once (240 MB to download, 600 MB of disk, about a minute)"
    # The headers bring the kernel itself along. Without essential packages there is no shell for make.
    sh tools/debian-tree.sh "$1" trixie "src:qemu src:seabios src:ipxe" \
        base-files bash coreutils dash diffutils findutils gawk grep sed \
        busybox-static g++ gcc libc6-dev make linux-headers-amd64 qemu-system-x86 || return 1
    mkdir -p "$1/build" "$1/usr/local/bin" || return 1
    # What the packages' own scripts would have made.
    ln -sf gawk "$1/usr/bin/awk" && ln -sf gcc "$1/usr/bin/cc" && ln -sf g++ "$1/usr/bin/c++" || return 1
    [ "$(id -u)" != 0 ] || mknod -m 666 "$1/dev/null" c 1 3 2>/dev/null || true
    [ -e "$1/dev/null" ] || : >"$1/dev/null"
    # Makefiles ask `uname -r` for which kernel to build.
    version=$(ls "$1/lib/modules" | head -n 1)
    cat >"$1/usr/local/bin/uname" <<-END
		#!/bin/sh
		[ "\$*" = -r ] && exec echo "$version"
		exec /usr/bin/uname "\$@"
	END
    chmod 755 "$1/usr/local/bin/uname"
}

kept guest "$link" tools/guest-root.sh tools/debian-tree.sh || fail "the tree cannot be made"
if [ "$fresh" = 1 ]; then
    touch "$(dirname "$link")/.root"
    echo "guest: Linux $(ls "$link"/lib/modules) and $(sh tools/guest-qemu.sh "$link" --version | head -n 1)"
fi
