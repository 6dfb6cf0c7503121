#!/bin/sh
# guest-root.sh DIRECTORY: make a small Debian tree that holds what a guest run needs and this Debian may lack: a QEMU
# with vfio-user-pci (10.1 or later, from trixie-backports), a kernel with the headers to build modules for it, and a
# static busybox. Nothing is installed outside DIRECTORY. Says why and exits 1 where it cannot be made.
set -eu

root=$1
suite=trixie
# The archive this machine itself installs from, unless GUEST_MIRROR names another.
mirror=${GUEST_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -v security | head -n 1)}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() { echo "guest: $*" >&2; exit 1; }

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail "needs Debian on amd64"
if ! command -v mmdebstrap >/dev/null; then
    [ "$(id -u)" = 0 ] || fail "mmdebstrap is missing; as root: apt-get install mmdebstrap"
    echo "guest: installing mmdebstrap"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends mmdebstrap >/dev/null 2>&1 ||
        fail "mmdebstrap cannot be installed"
fi
[ -n "$mirror" ] || fail "apt knows no Debian archive; name one in GUEST_MIRROR"
[ -e "$keyring" ] || fail "$keyring is missing; as root: apt-get install debian-archive-keyring"

echo "guest: building a Debian $suite tree in $root (about 1.5 GB, some minutes)"
rm -rf "$root.new"
mkdir -p "$(dirname "$root")"
# The headers bring the kernel itself along.
mmdebstrap --quiet --variant=minbase --keyring="$keyring" \
    --include=busybox-static,gcc,libc6-dev,make,linux-headers-amd64 \
    --customize-hook='chroot "$1" apt-get -qq install -y --no-install-recommends -t trixie-backports \
        qemu-system-x86 >/dev/null' \
    "$suite" "$root.new" \
    "deb $mirror $suite main" "deb $mirror $suite-backports main" || fail "the tree cannot be built"
ls "$root.new"/boot/vmlinuz-* >/dev/null || fail "the tree has no kernel"
rm -rf "$root"
mv "$root.new" "$root"
echo "guest: $(ls "$root"/boot/vmlinuz-*) and $("$(dirname "$0")"/guest-qemu.sh "$root" --version | head -n 1)"
