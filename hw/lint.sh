#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The hardware of hw/rtl is taken by Verilator with all warnings on, by Icarus, and by Yosys, whose
# check finds loops and nets with two drivers; one page size and two, one slice and eight.
# Usage: hw/lint.sh. Needs verilator, iverilog and yosys (Debian packages of these names).
set -euo pipefail
shopt -s extglob
cd "$(dirname "$0")/rtl"
for tool in verilator iverilog yosys; do
	command -v $tool >/dev/null || {
		echo "lint.sh: $tool is missing: apt-get install verilator iverilog yosys" >&2
		exit 2
	}
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=(ctg_pkg.sv ctg_!(pkg).sv)

lint() { # lint TOP PARAMETER=VALUE...
	local top=$1 verilator=() icarus=() chparam=() p
	shift
	for p in "$@"; do
		verilator+=("-G$p")
		icarus+=("-P$top.$p")
		chparam+=(-set "${p%=*}" "${p#*=}")
	done
	# A code of the package that one module does not use is used by another.
	verilator --lint-only -Wall -Wno-UNUSEDPARAM --top-module "$top" "${verilator[@]}" "${files[@]}"
	iverilog -g2012 -Wall -s "$top" "${icarus[@]}" -o "$work/out" "${files[@]}" 2>&1 |
		tee "$work/icarus"
	[[ ! -s $work/icarus ]]
	yosys -q -p "
		read_verilog -sv ${files[*]}
		${chparam:+chparam ${chparam[*]} $top}
		hierarchy -check -top $top
		proc
		flatten
		opt -fast
		check -assert"
	echo "lint: $top $* ok"
}

lint ctg_slice
lint ctg_slice ENTRIES=2 SLICES=1 WINDOW=1 HASH=3
lint ctg_slice ENTRIES=4 SLICES=3 SMALL=1 LARGE=1 LINE_BITS=6 HASH=2
lint ctg_portal
lint ctg_controller
lint ctg_controller ENTRIES=2 SLICES=3 CORES=4 SMALL=1 LARGE=1 LINE_BITS=6
