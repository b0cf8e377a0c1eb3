#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Does the allocator compile for arm64, and for musl, where it has no C interface? Rust's libraries
# for them come with rustup; where there is none, this says so and passes.
set -euo pipefail
cd "$(dirname "$0")/.."

check() { # check TARGET OPTIONS...
	local target=$1
	shift
	if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$target/lib ]]; then
		if ! command -v rustup >/dev/null || ! rustup --quiet target add "$target"; then
			echo "$target: left out, Rust's library for it is not to be had (rustup target add)"
			return
		fi
	fi
	RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check --locked --quiet --target "$target" \
		-p ample-malloc --lib "$@"
	echo "$target: compiles"
}

check aarch64-unknown-linux-gnu
check x86_64-unknown-linux-musl --no-default-features
check aarch64-unknown-linux-musl --no-default-features
