#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The packages of the kernel, two revisions of them, and a guest that installs the one, boots it,
# upgrades to the other and removes that. As root.
# usage: deb.sh OUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 1 ] || { sed -n '5s/^# //p' "$0" >&2; exit 2; }
((EUID == 0)) || {
	echo "deb.sh: run it as root: it unpacks Debian's packages into a disk" >&2
	exit 2
}
mkdir -p "$1"
out=$(cd "$1" && pwd)
tree=$here/../../build/kernel/distribution
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for revision in 1 2; do
	mkdir -p "$tmp/disk/$revision"
	"$here/build.sh" deb "$out/$revision" $revision
	cp "$out/$revision"/{linux-image,linux-headers,contiguitas-tools}*.deb "$tmp/disk/$revision/"
done
release=$(dpkg-deb -f "$out"/1/linux-image-*.deb Package)
release=${release#linux-image-}
echo "$release" > "$tmp/disk/release"
# A module as a user builds one: with the package of headers alone.
dpkg-deb -x "$out"/1/linux-headers-*.deb "$tmp/headers"
cp -r "$here/../guest/module" "$tmp/module"
make -s -C "$tmp/headers/usr/src/linux-headers-$release" M="$tmp/module" modules
cp "$tmp/module/ample_hostile.ko" "$tmp/disk/"
rm -f "$out/packages.img"
truncate -s 1G "$out/packages.img"
/sbin/mkfs.ext4 -q -F -L packages -d "$tmp/disk" "$out/packages.img"
"$here/userland.sh" "$out/boot.img" boot
"$here/guest.sh" "$tree" deb "$out/guest" --mem 2G --timeout 3000 --boot "$out/boot.img" \
	--qemu "-drive file=$out/packages.img,if=virtio,format=raw,readonly=on"
