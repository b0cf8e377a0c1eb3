#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the command as one static program for each architecture and packs it with its manual pages
# and completions into a .tar.gz. Without the engine for SQL and without BPF, which needs libelf.
# Usage: dist-static.sh OUT STRIPPED (the programs go to STRIPPED/ample-ARCHITECTURE). NOTICES names
# a file with the licence texts of what they contain.
set -euo pipefail
mkdir -p "$1" "$2"
out=$(realpath "$1") stripped=$(realpath "$2")
cd "$(dirname "$0")/.."
. scripts/dist-version.sh
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
# C code of crates is compiled against the headers of glibc for arm64: what these add must not be
# asked of musl.
export CC_x86_64_unknown_linux_musl=musl-gcc
export CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc
export CFLAGS_aarch64_unknown_linux_musl="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0 -mno-outline-atomics
	-ffile-prefix-map=$PWD=/usr/src/ample
	-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/usr/src/cargo"
CFLAGS_aarch64_unknown_linux_musl=${CFLAGS_aarch64_unknown_linux_musl//[$'\n\t']/ }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

pack() { # pack PROGRAM ARCHITECTURE: the archive; texts come from a program that runs here
	local name=ample-${VERSION%-*}-$2-linux
	local root=$stage/$name
	install -Dm755 "$1" "$root/ample"
	"$stripped/ample-x86_64" man "$root/man" >/dev/null
	mkdir "$root/completions"
	for shell in bash zsh fish; do
		"$stripped/ample-x86_64" completions $shell >"$root/completions/ample.$shell"
	done
	install -Dm644 -t "$root" README.md CHANGELOG.md
	install -Dm644 -t "$root/LICENSES" LICENSES/*
	[[ -z ${NOTICES:-} ]] || install -m644 "$NOTICES" "$root/LICENSES/NOTICES"
	tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go-w \
		--mtime="@$SOURCE_DATE_EPOCH" -c "$name" | gzip -9n >"$out/$name.tar.gz"
}

# In one go: crates of one architecture are compiled while the other waits for its own.
targets=()
for arch in x86_64 aarch64; do
	targets+=(--target "$arch-unknown-linux-musl")
done
scripts/dist-build.sh build --locked --release "${targets[@]}" -p ample-cli \
	--no-default-features --features watch
for arch in x86_64 aarch64; do
	target=$arch-unknown-linux-musl
	strip=strip
	[[ $arch == x86_64 ]] || strip=aarch64-linux-gnu-strip
	$strip --remove-section=.comment -o "$stripped/ample-$arch" \
		"target/dist/$target/release/ample"
	if readelf -lW "$stripped/ample-$arch" | grep -q INTERP; then
		echo "dist-static: the program for $arch needs a loader" >&2
		exit 1
	fi
	pack "$stripped/ample-$arch" "$arch"
done
