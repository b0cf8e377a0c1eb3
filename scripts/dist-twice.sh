#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds all packages a second time, from a clone of the commit in another folder, and compares them
# with those of a folder: the same bytes, or it fails.
# Usage: dist-twice.sh PACKAGES (what dist.sh has made of the same commit; FEATURES as for it)
set -euo pipefail
packages=$(realpath "${1:?usage: dist-twice.sh PACKAGES}")
cd "$(dirname "$0")/.."
[[ -s $packages/SHA256SUMS ]] || {
	echo "dist-twice: $packages has no SHA256SUMS; make it with dist.sh" >&2
	exit 1
}
if [[ -n $(git status --porcelain --untracked-files=no) ]]; then
	echo "dist-twice: the tree differs from its commit, which a clone would build; commit first" >&2
	exit 1
fi
other=$(mktemp -d "${TMPDIR:-/tmp}/ample-elsewhere.XXXXXX")
trap 'rm -rf "$other"' EXIT
git clone --quiet --no-hardlinks . "$other/tree"
# The tools that setup.sh has installed.
ln -s "$PWD/build" "$other/tree/build"
"$other/tree/scripts/dist.sh" --no-smoke
if ! diff "$packages/SHA256SUMS" "$other/tree/target/dist/packages/SHA256SUMS"; then
	echo "dist-twice: the files above have other bytes when they are built in another folder" >&2
	exit 1
fi
while read -r _ name; do
	echo "  right: $name has the same bytes from another folder"
done <"$packages/SHA256SUMS"
