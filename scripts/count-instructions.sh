#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Instructions of the host that the simulator of translation takes: counted by valgrind, so that
# machines and loads do not matter. scripts/count-instructions.sh [PROGRAM, target/release/ample]
# For each program the difference of a long and a short run of `sim simulator-speed`, an access
# (functional) or a simulated instruction (timed core). Footprints of 256 MB: the page table of a
# larger one is walked with the same instructions.
set -euo pipefail
cd "$(dirname "$0")/.."
ample=${1:-target/release/ample}
if ! command -v valgrind >/dev/null || [ ! -x "$ample" ]; then
	echo "needs valgrind (on Debian: apt-get install valgrind) and $ample (make ample)" >&2
	exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# counted PROGRAM TIMED ACCESSES: instructions in all, and what was run in the counted round.
counted() {
	cat >"$folder/p.toml" <<-END
		[experiment]
		id = "simulator-speed"
		[parameters]
		machine = "skylake"
		programs = ["$1"]
		timed = [$2]
		gups_bytes = 268435456
		stream_bytes = 268435456
		functional_accesses = $3
		timed_accesses = $3
		rounds = 1
		seed = 1
	END
	valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$ample" \
		sim "$folder/p.toml" 2>"$folder/counts" >/dev/null
	sed -nE 's/.*I +refs: +([0-9,]+)$/\1/p' "$folder/counts" | tr -d ,
}

# difference PROGRAM TIMED UNITS: UNITS are counted for each access.
difference() {
	local short=100000 long=300000 few many
	few=$(counted "$1" "$2" $short)
	many=$(counted "$1" "$2" $long)
	# Two rounds: one warms up.
	awk -v name="$1" -v timed="$2" -v d=$((many - few)) -v n=$((2 * (long - short))) \
		-v units="$3" '
		BEGIN {
			if (timed == "true") {
				core = "timed"
				what = "a simulated instruction"
			} else {
				what = "an access"
			}
			printf "%-17s %-5s %7.1f %s\n", name, core, d / n / units, what
		}'
}

difference "gups" false 1
difference "gups, loads only" false 1
difference "stream" false 1
# GUPS: six instructions for a load and a store; stream: two an access.
difference "gups" true 3
difference "stream" true 2
