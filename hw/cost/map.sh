#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Maps a module of hw/rtl onto the cells of a liberty file: OUT/TOP.v and OUT/TOP.json with scalar
# nets named n0, n1, ..., and the area in OUT/TOP.area. No net has more than 12 loads.
# Usage: hw/cost/map.sh LIBERTY OUT TOP [PARAMETER=VALUE...]
set -euo pipefail
shopt -s extglob
liberty=$1
mkdir -p "$2"
out=$(realpath "$2")
top=$3
shift 3
cd "$(dirname "$0")/../rtl"
chparam=()
for pair in "$@"; do
	chparam+=(-set "${pair%=*}" "${pair#*=}")
done
printf 'set_driving_cell BUFX4\nset_load 0.05\n' >"$out/constraints"
script='+strash;ifraig;scorr;dc2;dch,-f;map,-B,0.9;topo;buffer,-p,-N,12;topo'
script+=';upsize,-D,3000;dnsize,-D,3000'
yosys -q -p "
	read_verilog -sv $(echo ctg_pkg.sv ctg_!(pkg).sv)
	${chparam:+chparam ${chparam[*]} $top}
	hierarchy -check -top $top
	synth -flatten -top $top
	dfflibmap -liberty $liberty
	opt -full
	abc -D 3000 -constr $out/constraints -liberty $liberty -script $script
	setundef -zero
	splitnets -ports -format __
	opt_clean -purge
	rename -hide w:*
	rename -enumerate -pattern n% w:*
	rename -enumerate -pattern c% c:*
	tee -q -o $out/$top.stat stat -liberty $liberty
	write_json $out/$top.json
	write_verilog -noattr -noexpr -nohex $out/$top.v" >"$out/$top.log" 2>&1 || {
	tail -n 5 "$out/$top.log" >&2
	exit 2
}
awk '/Chip area/ { printf "%.0f\n", $NF }' "$out/$top.stat" >"$out/$top.area"
