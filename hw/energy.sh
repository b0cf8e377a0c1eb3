#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Energy of a look-up and leakage of the metadata table, 16 entries, from the synthesised netlist:
# random look-ups are simulated gate by gate and the nets that change are counted.
# Usage: hw/energy.sh [--json]. Needs yosys and iverilog (Debian packages of these names).
#
# Technology assumption, stated before the count: 22 nm at 0.8 V; a net, with its driver, two
# inputs and wire, has 2.5 fF; a flip-flop's clock pin has 0.5 fF and its clock is not gated; a
# NAND2 equivalent leaks 1 nW in low-power and 30 nW in high-performance transistors at 80 C.
# Everything is proportional to these. The paper's figures come from CACTI.
set -euo pipefail
cd "$(dirname "$0")"
json=0
if [[ ${1:-} == --json ]]; then
	json=1
	shift
fi
(($# == 0)) || {
	echo "energy.sh: unknown argument $1; usage: hw/energy.sh [--json]" >&2
	exit 2
}
for tool in yosys iverilog; do
	command -v $tool >/dev/null || {
		echo "energy.sh: $tool is missing: apt-get install yosys iverilog" >&2
		exit 2
	}
done
cells=$(yosys-config --datdir 2>/dev/null || echo /usr/share/yosys)/simcells.v
[[ -e $cells ]] || cells=/usr/share/yosys/simcells.v
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
yosys -q -p "
	read_verilog metadata_table.v
	synth -flatten -top metadata_table
	abc -g cmos4
	opt_clean
	tee -o $work/stat stat
	write_verilog -noattr -noexpr $work/netlist.v" >/dev/null
cd "$work"
iverilog -g2005 -s activity_tb -o run netlist.v "$cells" "$here/activity_tb.v"
read -r _ lookups _ hits < <(vvp run | grep '^lookups')
size=$("$here/synthesize.sh" --json 16)
nand=$(grep -o '"nand2_equivalents":[0-9]*' <<<"$size" | cut -d: -f2)
flops=$(grep -o '"flip_flops":[0-9]*' <<<"$size" | cut -d: -f2)
# One net is listed once for each level of the hierarchy it passes; count each identifier once,
# and leave the clock out.
awk -v lookups="$lookups" -v hits="$hits" -v nand="$nand" -v flops="$flops" -v json="$json" '
	$1 == "$var" {
		if ($5 == "clock") clock[$4] = 1
		width[$4] = $3
		next
	}
	/^\$dumpvars/ { body = 1; next }
	/^\$end/ { if (body) body = 2; next }
	/^#/ { started = body == 2; next }
	started && /^b/ {
		if (!($2 in clock)) {
			now = substr($1, 2)
			while (length(now) < width[$2]) now = "0" now
			was = last[$2]
			for (i = 1; was != "" && i <= length(now); i++)
				toggles += substr(now, i, 1) != substr(was, i, 1)
			last[$2] = now
		}
		next
	}
	started { id = substr($1, 2); if (!(id in clock)) toggles++ }
	END {
		each = toggles / lookups
		net_pj = each * 0.5 * 2.5e-15 * 0.64 * 1e12
		clock_pj = flops * 0.5e-15 * 0.64 * 1e12
		total = net_pj + clock_pj
		low = nand * 1e-9 * 1e3
		high = nand * 30e-9 * 1e3
		if (json)
			printf "{\"schema\":\"ample.hw-energy/1\",\"lookups\":%d,\"hits\":%d," \
				"\"nets_changed_per_lookup\":%.0f,\"lookup_pj\":%.3f," \
				"\"of_it_clock_pj\":%.3f,\"leakage_low_mw\":%.3f,\"leakage_high_mw\":%.3f," \
				"\"paper_lookup_pj\":1.7,\"paper_leakage_mw\":0.64}\n",
				lookups, hits, each, total, clock_pj, low, high
		else {
			printf "look-ups %d, of them hits %d\n", lookups, hits
			printf "nets that change, each look-up %.0f\n", each
			printf "energy of a look-up %.2f pJ, of it clock %.2f pJ (paper: 1.7 pJ)\n",
				total, clock_pj
			printf "leakage %.3f to %.2f mW (paper: 0.64 mW)\n", low, high
		}
	}' activity.vcd
