#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs cargo so that what it makes does not depend on where the tree lies, into target/dist.
# Usage: dist-build.sh build ARGUMENT...
#        dist-build.sh maturin ARGUMENT...   the same for the Python package
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P)
home=${CARGO_HOME:-$HOME/.cargo}
cd "$root"

# Flags of the caller's environment would make another program of it.
export RUSTFLAGS="--remap-path-prefix=$root=/usr/src/ample --remap-path-prefix=$home=/usr/src/cargo"
export CFLAGS="-ffile-prefix-map=$root=/usr/src/ample -ffile-prefix-map=$home=/usr/src/cargo"
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$root/target/dist
# What is packed is stripped: lines for debuggers would be written for nothing.
export CARGO_PROFILE_RELEASE_DEBUG=false
# The time of the commit would build all C code anew with every commit, and none of it asks for it.
epoch=${SOURCE_DATE_EPOCH:-}
unset CARGO_ENCODED_RUSTFLAGS RUSTC_WRAPPER SOURCE_DATE_EPOCH
if [[ $1 == maturin ]]; then
	# The times of the files in the wheel, which no C code is built for.
	exec env SOURCE_DATE_EPOCH="$epoch" build/python/bin/maturin "${@:2}"
fi
exec "${CARGO:-cargo}" "$@"
