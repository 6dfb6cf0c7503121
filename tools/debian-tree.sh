#!/bin/sh
# debian-tree.sh [--alone] FOLDER SUITE NEWER PACKAGE...: unpack packages of a Debian suite and, unless they are wanted
# alone, all that they depend on into FOLDER, without installing anything: this machine's apt reads the archive with a
# state of its own, checks the signatures and downloads; dpkg-deb unpacks; no script of a package is run. Needs neither
# root nor room elsewhere.
# Packages that match a pattern of NEWER (apt_preferences(5); "" for none) come from SUITE-backports. Says why and exits
# 1 where it cannot be done.
set -eu

how=install
if [ "$1" = --alone ]; then
    how=download
    shift
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd) suite=$2 newer=$3
shift 3
# The archive this machine itself installs from, unless DEBIAN_MIRROR names another.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -E '/debian/?$' | head -n 1)}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() { echo "debian-tree: $*" >&2; exit 1; }

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || fail "needs Debian on amd64"
[ -n "$mirror" ] || fail "apt knows no Debian archive; name one in DEBIAN_MIRROR"
[ -e "$keyring" ] || fail "$keyring is missing; as root: apt-get install debian-archive-keyring"

apt=$folder/.apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
trap 'rm -rf "$apt"' EXIT
trap 'exit 1' INT TERM HUP
: >"$apt/status"
: >"$apt/preferences"
echo "deb [signed-by=$keyring] $mirror $suite main" >"$apt/sources.list"
if [ -n "$newer" ]; then
    echo "deb [signed-by=$keyring] $mirror $suite-backports main" >>"$apt/sources.list"
    printf 'Package: %s\nPin: release n=%s-backports\nPin-Priority: 990\n' "$newer" "$suite" >"$apt/preferences"
fi
get() {
    apt-get -q -y -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences="$apt/preferences" -o Dir::Etc::PreferencesParts=/dev/null \
        -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Install-Recommends=false \
        -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=2 "$@" >"$apt/log" 2>&1 ||
        { cat "$apt/log" >&2; fail "apt-get $1 failed for Debian $suite"; }
}

echo "debian-tree: reading what Debian $suite has"
get update -o APT::Update::Error-Mode=any
get --print-uris $how "$@"
count=$(grep -c "^'" "$apt/log") || fail "apt names nothing to download"
megabytes=$(awk "/^'/ { sum += \$3 } END { print int(sum / 1000000) + 1 }" "$apt/log")
echo "debian-tree: downloading $count packages, $megabytes MB"
cd "$apt/cache/archives"
get --download-only $how "$@"
echo "debian-tree: unpacking them"
# A kernel's own modules are most of it, and nothing here loads them.
ls ./*.deb | xargs -P 2 -n 1 sh -c '
    dpkg-deb --fsys-tarfile "$1" | tar -x -C "$0" --keep-directory-symlink --no-same-owner --no-same-permissions \
        --exclude "*/lib/modules/*/kernel" --exclude "./usr/share/doc" --exclude "./usr/share/locale"' "$folder" ||
    fail "a package cannot be unpacked into $folder"
cd "$folder"
rm -rf "$apt"
echo "debian-tree: $(du -sm "$folder" | cut -f 1) MB in $folder"
