#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the allocator, its command and the static command a second time, in a copy of the commit in
# another folder, and compares them with what lies in a folder: the same bytes after stripping, or
# it fails.
# Usage: dist-twice.sh STRIPPED (with libample_malloc.so, ample-malloc and ample-x86_64)
set -euo pipefail
stripped=$(realpath "${1:?usage: dist-twice.sh STRIPPED}")
cd "$(dirname "$0")/.."
[[ -z $(git status --porcelain --untracked-files=no) ]] || {
	echo "dist-twice: left out, since the tree differs from its commit" >&2
	exit 0
}
other=$(mktemp -d "${TMPDIR:-/tmp}/ample-elsewhere.XXXXXX")
trap 'rm -rf "$other"' EXIT
mkdir "$other/tree"
git archive HEAD | tar -x -C "$other/tree"
cd "$other/tree"
host=$(rustc -vV | sed -n 's/^host: //p')
built=target/dist/$host/malloc
scripts/dist-build.sh build --locked --quiet --profile malloc --target "$host" -p ample-malloc
strip --strip-unneeded --remove-section=.comment -o "$other/libample_malloc.so" \
	"$built/libample_malloc.so"
scripts/dist-build.sh build --locked --quiet --profile malloc --target "$host" \
	-p ample-malloc-tools
strip --remove-section=.comment -o "$other/ample-malloc" "$built/ample-malloc"
export CC_x86_64_unknown_linux_musl=musl-gcc
scripts/dist-build.sh build --locked --quiet --release --target x86_64-unknown-linux-musl \
	-p ample-cli --no-default-features --features watch
strip --remove-section=.comment -o "$other/ample-x86_64" \
	target/dist/x86_64-unknown-linux-musl/release/ample
for name in libample_malloc.so ample-malloc ample-x86_64; do
	cmp "$other/$name" "$stripped/$name"
	echo "  right: $name has the same bytes from another folder"
done
