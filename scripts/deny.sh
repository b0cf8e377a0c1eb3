#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Judges the dependencies by deny.toml, advisories by the committed snapshot of the database.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
cargo run --locked --quiet -p ample-tidy --bin ample-advisories -- \
	unpack crates/tidy/advisories.toml target/advisories
# Offline, so that advisories are those of the snapshot; what is not yet here is fetched before.
cargo fetch --locked --quiet
cargo deny --locked --offline check --hide-inclusion-graph licenses bans sources advisories
