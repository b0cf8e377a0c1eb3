#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Simulates the metadata table, synthesises it to two-input gates and flip-flops with Yosys, and
# prints bits, gates and an area estimate. Usage: hw/synthesize.sh [--json] [ENTRIES...]
# Needs yosys and iverilog (Debian packages of these names).
#
# Technology assumption: a 22 nm node whose NAND2 covers 0.199 square micrometres; gate equivalents
# as usual: inverter 0.67, NAND/NOR 1, AND/OR 1.33, XOR/XNOR/MUX 2.33, AOI3/OAI3 1.33, AOI4/OAI4
# 1.67, flip-flop 5, with enable or reset 6. Area is that of the cells at 70 % utilisation. The
# paper's figure comes from CACTI, which assumes memory cells and not flip-flops.
set -euo pipefail
cd "$(dirname "$0")"
json=0
if [[ ${1:-} == --json ]]; then
	json=1
	shift
fi
sizes=("$@")
((${#sizes[@]})) || sizes=(1 4 8 16 32 64)
for tool in yosys iverilog; do
	command -v $tool >/dev/null || {
		echo "synthesize.sh: $tool is missing: apt-get install yosys iverilog" >&2
		exit 2
	}
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
iverilog -g2005 -Wall -o "$work/tb" metadata_table.v metadata_table_tb.v
[[ $(vvp "$work/tb" | tail -n 1) == PASS* ]] || {
	echo "synthesize.sh: the test bench failed" >&2
	exit 1
}
((json)) || printf '%8s %8s %8s %10s %12s\n' entries bits cells nand2-eq area-mm2
for entries in "${sizes[@]}"; do
	yosys -q -p "
		read_verilog metadata_table.v
		chparam -set ENTRIES $entries metadata_table
		synth -flatten -top metadata_table
		abc -g cmos4
		opt_clean
		tee -o $work/stat stat" >/dev/null
	awk -v entries="$entries" -v json="$json" '
		BEGIN {
			ge["$_NOT_"] = 0.67; ge["$_NAND_"] = 1; ge["$_NOR_"] = 1
			ge["$_AND_"] = 1.33; ge["$_OR_"] = 1.33; ge["$_ANDNOT_"] = 1.33
			ge["$_ORNOT_"] = 1.33; ge["$_XOR_"] = 2.33; ge["$_XNOR_"] = 2.33
			ge["$_MUX_"] = 2.33; ge["$_NMUX_"] = 2; ge["$_AOI3_"] = 1.33
			ge["$_OAI3_"] = 1.33; ge["$_AOI4_"] = 1.67; ge["$_OAI4_"] = 1.67
		}
		/^ +\$_/ {
			cells += $2
			if ($1 ~ /FF/) {
				bits += $2
				nand += $2 * ($1 == "$_DFF_P_" ? 5 : 6)
			} else if ($1 in ge)
				nand += $2 * ge[$1]
			else {
				print "synthesize.sh: no gate equivalent for " $1 > "/dev/stderr"
				exit 1
			}
		}
		END {
			area = nand * 0.199 / 0.7 / 1e6
			if (json)
				printf "{\"schema\":\"ample.hw-area/1\",\"entries\":%d,\"flip_flops\":%d," \
					"\"cells\":%d,\"nand2_equivalents\":%.0f,\"area_mm2\":%.5f}\n",
					entries, bits, cells, nand, area
			else
				printf "%8d %8d %8d %10.0f %12.5f\n", entries, bits, cells, nand, area
		}' "$work/stat"
done
