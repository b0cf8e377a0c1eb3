#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tries the static programs and the image in folders that hold nothing else: that of this machine's
# architecture as it is, that of arm64 under user-mode emulation. Both say the same of a snapshot.
# Usage: dist-smoke-static.sh DIST (as root, on x86-64)
set -euo pipefail
dist=$(realpath "${1:?usage: dist-smoke-static.sh DIST}")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "dist-smoke-static: $*" >&2
	exit 1
}

right() {
	echo "  right: $*"
}

snapshot=$(find kernel/tests/courses -name '*.snap' | sort | head -n 1)
scans() { # scans ARCHITECTURE PROGRAM RUN...: writes what it says of the snapshot
	local name=$1 root=$work/$1
	shift
	mkdir -p "$root"
	install -m755 "$1" "$root/ample"
	install -m644 "$snapshot" "$root/host.snap"
	shift
	"$@" --version >"$root/version"
	grep -q '^ample ' "$root/version" || fail "$name: no version"
	(cd "$root" && "$@" scan --snapshot host.snap --json) >"$work/$name.json"
	grep -q '"ample.scan/1"' "$work/$name.json" || fail "$name: the scan has no schema"
	(cd "$root" && "$@" scan --reader procfs --json) >"$root/live.json" ||
		fail "$name: no scan of this machine"
	right "$name: $(cat "$root/version") scans a snapshot and this machine"
}

emulated=qemu-aarch64-static
for arch in x86_64 aarch64; do
	tar -C "$work" -xzf "$dist"/ample-*-"$arch"-linux.tar.gz
done
scans x86_64 "$work"/ample-*-x86_64-linux/ample "$work/x86_64/ample"
scans aarch64 "$work"/ample-*-aarch64-linux/ample $emulated "$work/aarch64/ample"
cmp "$work/x86_64.json" "$work/aarch64.json" || fail "the architectures differ"
chroot "$work/x86_64" /ample scan --snapshot /host.snap --json | cmp - "$work/x86_64.json" ||
	fail "the program needs more than itself"
right "both say the same, in a folder with nothing else"
for file in man/ample-scan.1 completions/ample.bash LICENSES/MIT.txt LICENSES/NOTICES README.md; do
	[[ -s $(echo "$work"/ample-*-x86_64-linux/"$file") ]] || fail "the archive has no $file"
done

image=$(echo "$dist"/ample-*-image.tar)
scripts/dist-image.py check "$image"
for arch in amd64 arm64; do
	skopeo --override-arch $arch inspect "oci-archive:$image" >"$work/inspected" ||
		fail "skopeo does not take the image"
	grep -q "\"Architecture\": \"$arch\"" "$work/inspected" || fail "no image for $arch"
	scripts/dist-image.py unpack "$image" $arch "$work/image-$arch"
done
cmp "$work/image-arm64/usr/bin/ample" "$work/aarch64/ample"
cp "$snapshot" "$work/image-amd64/host.snap"
chroot "$work/image-amd64" /usr/bin/ample scan --snapshot /host.snap --json |
	cmp - "$work/x86_64.json" || fail "the image's program says something else"
right "the image is whole, and its program scans"
