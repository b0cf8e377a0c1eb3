#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Judges the dependencies by deny.toml, advisories by the committed snapshot of the database.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
cargo run --locked --quiet -p ample-tidy --bin ample-advisories -- \
	unpack crates/tidy/advisories.toml target/advisories
cargo deny --locked check --disable-fetch --hide-inclusion-graph licenses bans sources advisories
