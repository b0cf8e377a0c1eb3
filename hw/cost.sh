#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Cost of the hardware of a slice on the cells of an open library: area by block, the time of the
# two cycles of the redirection, and energy with the switching of co-simulated traffic. The mapped
# gates are replayed beside the RTL, output by output; a difference is an error.
# Usage: hw/cost.sh [--json] [BLOCK...]: of blocks that are named (ctg_table, ...) the area only.
# Needs yosys, iverilog, verilator, opensta, qflow-tech-osu018, python3.
#
# The library is OSU's for 0.18 um at 1.8 V, the youngest among Debian's packages. What it says is
# carried to 22 nm at 0.8 V in two ways that are meant to lie on either side of the truth:
#   area    NAND2 equivalents of 0.199 um2 (a dense library of that node), and the cells' own area
#           shrunk by (22/180)^2; both at 70 % utilisation;
#   delay   in FO4 delays of the library, each of 8 ps and of 16 ps; no wires;
#   energy  C V^2 shrunk by 22/180 and (0.8/1.8)^2, and 2.5 fF at 0.8 V for each net that changes
#           and 0.5 fF for each flip-flop's clock pin, which is not gated;
#   leakage 1 nW and 30 nW for a NAND2 equivalent.
set -euo pipefail
cd "$(dirname "$0")/.."
json=0 blocks=(ctg_slice ctg_table ctg_redirect ctg_engine ctg_controller ctg_portal)
known=" ${blocks[*]} "
if [[ ${1:-} == --json ]]; then
	json=1
	shift
fi
for block in "$@"; do
	[[ $known == *" $block "* ]] || {
		echo "cost.sh: $block is no block; known:$known; usage: hw/cost.sh [--json] [BLOCK...]" >&2
		exit 2
	}
done
for tool in yosys iverilog verilator sta python3 cargo; do
	command -v $tool >/dev/null || {
		echo "cost.sh: $tool is missing: scripts/setup.sh cost" >&2
		exit 2
	}
done
export LIBERTY=/usr/share/qflow/tech/osu018/osu018_stdcells.lib
[[ -e $LIBERTY ]] || {
	echo "cost.sh: $LIBERTY is missing: scripts/setup.sh cost" >&2
	exit 2
}
out=target/hw/cost
mkdir -p $out/sim
if (($#)); then
	for top in "$@"; do
		hw/cost/map.sh $LIBERTY $out "$top"
	done
	hw/cost/power.py areas $out $json "$@"
	exit
fi
for top in "${blocks[@]}"; do
	hw/cost/map.sh $LIBERTY $out $top
done

slack_of() { # slack_of NETLIST TOP: "NAME SLACK" of each path
	NETLIST=$1 TOP=$2 sta -exit hw/cost/timing.tcl 2>&1 |
		awk '/^path/ { name = $2 } /slack \(/ { print name, $1 } /Error/ { exit 1 }'
}
slack_of $out/ctg_slice.v ctg_slice >$out/paths
slack_of $out/ctg_controller.v ctg_controller | sed 's/any/controller/' >>$out/paths
NETLIST=hw/cost/fo4.v TOP=fo4 sta -exit hw/cost/timing.tcl |
	awk '$3 == "^" || $3 == "v" { if ($4 ~ /^[cd]0/) { sum += $1; n++ } }
		END { printf "fo4 %.4f\n", sum / n }' >>$out/paths

# Ports of slice 0, recorded beside the protocol's code: accesses of NGINX on eight cores, as the
# timed machine makes them, while its network buffers move; table of 16, eight slices.
cargo build --locked --quiet --release -p ample-rtl-check
hw/sim/build.sh hw/rtl $out/sim --trace SLICES=8 HASH=1 ENTRIES=16 LINE_BITS=42 SMALL=6 LARGE=15 \
	>$out/sim/log 2>&1
trace=$PWD/target/release/ample-rtl-trace
(cd $out/sim && "$trace" random --server --events 60000 --seed 1 --slices 8 --hash 1 \
	--entries 16 --cores 8 --small 6 --large 6 --memory-lines 1048576 2>/dev/null | ./cosim >equal)
hw/cost/power.py bench $out/ctg_slice.json $out/sim/ports.vcd $out
iverilog -g2005 -s bench -o $out/bench $out/bench.v $out/ctg_slice.v "${LIBERTY%.lib}.v" 2>/dev/null
(cd $out && vvp -n bench | grep '^cycles' >replay)
[[ $(<$out/replay) == *" wrong 0 "* ]] || {
	echo "cost.sh: the mapped gates differ from the RTL: $(<$out/replay)" >&2
	exit 1
}
# From cycle 4000 on the table is in use.
cycles=$(($(cut -d' ' -f2 $out/replay) - 4000))
hw/cost/power.py activity $out/ctg_slice.json $out/nets.vcd 4000 $cycles $out >$out/activity.json
head -n 1 $out/activity.tcl >$out/idle.tcl
for load in activity idle; do
	NETLIST=$out/ctg_slice.v ACTIVITY=$out/$load.tcl sta -exit hw/cost/power.tcl |
		awk -v load=$load '/^Total/ { print load, $5 }'
done >$out/power
hw/cost/power.py report $out $json "${blocks[@]}"
