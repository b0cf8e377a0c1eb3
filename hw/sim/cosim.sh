#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Co-simulation: the Verilated slices and front end beside the protocol's Rust code, compared at
# every event. Usage: hw/sim/cosim.sh [light|quick|full|coverage]. light: one machine, 40,000 random
# events and the model checker's paths, with the unoptimised build of the tests; quick: 200,000;
# full: more than ten million on four machines; coverage: how many nets and lines of the hardware a
# run exercises.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-quick}
for tool in verilator g++ cargo; do
	command -v $tool >/dev/null || {
		echo "cosim.sh: $tool is missing: apt-get install verilator g++" >&2
		exit 2
	}
done
if [[ $what == light ]]; then
	# As the tests of the whole workspace build it, so that it is not built twice.
	cargo test --locked --quiet --workspace --test rtl_trace --no-run
	trace=target/debug/ample-rtl-trace
else
	cargo build --locked --quiet --release -p ample-rtl-check
	trace=target/release/ample-rtl-trace
fi
out=target/hw

random() { # random BUILD EVENTS SEED [OPTION...]
	local build=$1 events=$2 seed=$3
	shift 3
	echo "cosim: $build, $events random events, seed $seed"
	"$trace" random --events "$events" --seed "$seed" "$@" | "$out/$build/cosim"
}

checked() { # checked SLICES CORES STATES
	local hash=(0 0 2 0)
	hw/sim/build.sh hw/rtl "$out/checked$1-$2" SLICES="$1" HASH="${hash[$1]}" SMALL=1 LARGE=1 \
		ENTRIES=2 LINE_BITS=13 CORES="$2"
	"$trace" checked --slices "$1" --cores "$2" --states "$3" | "$out/checked$1-$2/cosim"
}

portal() { # portal EVENTS SEED: the registers of a function
	verilator --cc --exe --build -O3 -Wno-UNUSEDPARAM --Mdir "$PWD/$out/portal" \
		--top-module ctg_portal -o portal \
		"$PWD"/hw/rtl/ctg_{pkg,portal}.sv "$PWD/hw/sim/portal.cpp" >$out/portal.log
	"$trace" portal --events "$1" --seed "$2" | $out/portal/portal
}

large=(SLICES=8 HASH=1 ENTRIES=16 SMALL=6 LARGE=9 LINE_BITS=42)
large_run=(--slices 8 --hash 1 --entries 16 --cores 4 --small 6 --large 9)
case $what in
light | quick)
	hw/sim/build.sh hw/rtl $out/small
	random small $([[ $what == light ]] && echo 40000 || echo 200000) 1
	checked 2 1 3000
	portal 100000 1
	;;
full)
	hw/sim/build.sh hw/rtl $out/small
	hw/sim/build.sh hw/rtl $out/large "${large[@]}"
	hw/sim/build.sh hw/rtl $out/one SLICES=1 HASH=3 WINDOW=1
	for seed in 4 5 6; do
		random small 3400000 "$seed"
		random large 1000000 "$seed" "${large_run[@]}" --memory-lines 1048576
		random one 200000 "$seed" --slices 1 --hash 3 --window 1
	done
	random large 300000 7 "${large_run[@]}" --memory-lines 1048576 --server
	for seed in 1 2 3; do
		portal 1000000 "$seed"
	done
	for slices in 2 3; do
		checked $slices 1 40000
		checked $slices 2 40000
	done
	;;
coverage)
	hw/sim/build.sh hw/rtl $out/coverage --coverage
	"$trace" random --events 200000 --seed 1 | (cd $out/coverage && ./cosim --kinds)
	verilator_coverage --annotate $out/coverage/annotated $out/coverage/coverage.dat
	;;
*)
	echo "cosim.sh: unknown argument $what; usage: hw/sim/cosim.sh [light|quick|full|coverage]" >&2
	exit 2
	;;
esac
