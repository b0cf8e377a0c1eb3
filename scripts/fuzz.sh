#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Fuzzes every reader of foreign input: scripts/fuzz.sh [SECONDS [TARGET]...], SECONDS of processor
# time for each target (60 without), so that an hour on a busy machine is an hour. It needs no other
# toolchain than the one that builds everything else: the readers are safe Rust, so that coverage
# and debug assertions suffice and no sanitizer is linked (SANITIZER=address RUSTC_BOOTSTRAP=1 links
# one). Stops at the first input that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
version=0.13.2
export PATH=$PWD/target/fuzz-tools/bin:$PATH

if ! cargo fuzz --version 2>/dev/null | grep -qF "$version"; then
	cargo install --locked --root target/fuzz-tools cargo-fuzz@"$version"
fi

# processor_seconds PID: what the process has taken so far; nothing once it is gone.
processor_seconds() {
	local fields
	read -r -a fields 2>/dev/null <"/proc/$1/stat" || return 1
	echo $(((fields[13] + fields[14]) / ticks))
}

# fuzz CRATE TARGET [SEEDS...]: what is found first by luck is kept in the corpus of the crate.
fuzz() {
	local crate=$1 target=$2 corpus=crates/$1/fuzz/corpus/$2 artifacts=crates/$1/fuzz/artifacts/$2
	local log=target/fuzz-$2.log pid used
	shift 2
	((${#wanted[@]} == 0)) || [[ " ${wanted[*]} " == *" $target "* ]] || return 0
	mkdir -p "$corpus" "$artifacts"
	echo "== $crate: $target, $seconds s"
	(cd "crates/$crate" && cargo fuzz build -s "${SANITIZER:-none}" --target-dir ../../target/fuzz \
		"$target") >"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
	"target/fuzz/$(uname -m)-unknown-linux-gnu/release/$target" "$corpus" "$@" \
		-artifact_prefix="$artifacts/" -print_final_stats=1 -timeout=20 -rss_limit_mb=3072 \
		-max_len=65536 >"$log" 2>&1 &
	pid=$!
	# Interrupted, it prints its statistics and ends.
	trap 'kill $pid 2>/dev/null' EXIT
	while used=$(processor_seconds $pid) && ((used < seconds)); do sleep 1; done
	kill -INT $pid 2>/dev/null || true
	wait $pid || true
	trap - EXIT
	grep -E '^(stat::|SUMMARY|Failing|thread|.*panicked)|ERROR|artifacts/' "$log" || true
	if ! grep -q '^stat::number_of_executed_units' "$log"; then
		echo "$target did not run; the whole output is in $log"
		exit 1
	fi
	! grep -qE 'ERROR: |Test unit written' "$log" || exit 1
}

wanted=("$@") ticks=$(getconf CLK_TCK)
mkdir -p target
fuzz host snapshot crates/host/fuzz/seeds/snapshot
fuzz trace trace_reader crates/trace/fuzz/seeds/trace_reader
fuzz trace import crates/trace/fuzz/seeds/import
fuzz trace drmemtrace crates/trace/fuzz/seeds/drmemtrace
fuzz trace gem5 crates/trace/fuzz/seeds/gem5
fuzz trace perf crates/trace/fuzz/seeds/perf
fuzz mm replay crates/mm/tests/data
fuzz mm workload experiments/workloads
fuzz fleet fleet_table crates/fleet/fuzz/seeds/fleet_table
fuzz fleet fleet_texts crates/fleet/fuzz/seeds/fleet_texts
fuzz lab fleet_spec experiments/fleets
fuzz store store_texts crates/store/fuzz/seeds/store_texts
fuzz system recording crates/system/fuzz/seeds/recording
