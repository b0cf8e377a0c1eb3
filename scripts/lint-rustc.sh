#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Stands in for rustc on the crates of the workspace, as RUSTC_WORKSPACE_WRAPPER: compiles them with
# Clippy's lints, and documents libraries and programs, warnings denied. `cargo clippy` and
# `cargo doc` say the same, but each needs a pass of its own over all 500 foreign crates.
# usage: cargo calls it as lint-rustc.sh RUSTC ARGUMENTS...
# CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__, which denies warnings, has to be in cargo's environment:
# Clippy notes it in what it compiles, and cargo compiles anew what was made with another one.
set -euo pipefail
: "${CLIPPY_ARGS:?is read by Clippy; scripts/test.sh sets it}"
clippy-driver "$@"

# Test programs and build scripts have no documentation; neither has a question about the compiler.
# What says how to generate code and link is not for rustdoc.
documented=
program=
arguments=()
shift
while (($#)); do
	case $1 in
	--test | build_script_* | -vV) exit 0 ;;
	--crate-name)
		[[ $2 == build_script_* || $2 == ___ ]] && exit 0
		documented=1
		;;
	--out-dir | -C | -l) shift 2; continue ;;
	--emit=* | -C* | -l*) shift; continue ;;
	bin) program=1 ;;
	esac
	arguments+=("$1")
	shift
done
[[ -n $documented ]] || exit 0
# As cargo doc has it: of a program all is private.
[[ -z $program ]] ||
	arguments+=(--document-private-items -A rustdoc::private-intra-doc-links)
exec "${RUSTDOC:-rustdoc}" "${arguments[@]}" -D warnings --out-dir target/lint-doc
