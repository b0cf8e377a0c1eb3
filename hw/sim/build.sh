#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the co-simulation of the hardware of folder RTL with these parameters, in folder OUT.
# Usage: hw/sim/build.sh RTL OUT [--coverage|--trace] ENTRIES=4 SLICES=2 HASH=1 LINE_BITS=17 SMALL=2
#        LARGE=4 WINDOW=4 CORES=4
set -euo pipefail
shopt -s extglob
rtl=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
shift 2
coverage=()
if [[ ${1:-} == --coverage ]]; then
	coverage=(--coverage-toggle --coverage-line)
	shift
fi
trace=()
if [[ ${1:-} == --trace ]]; then
	trace=(--trace --trace-depth 1)
	shift
fi
declare -A p=([ENTRIES]=4 [SLICES]=2 [HASH]=1 [LINE_BITS]=17 [SMALL]=2 [LARGE]=4 [WINDOW]=4
	[CORES]=4 [FWD_BITS]=10)
for pair in "$@"; do
	[[ -v p[${pair%=*}] && ${pair#*=} =~ ^[0-9]+$ ]] || {
		echo "build.sh: $pair is no parameter; known: ${!p[*]}" >&2
		exit 2
	}
	p[${pair%=*}]=${pair#*=}
done
slice=() controller=(-GCORES=${p[CORES]} -GQUEUE=8)
for name in ENTRIES SLICES LINE_BITS SMALL LARGE; do
	slice+=("-G$name=${p[$name]}")
	controller+=("-G$name=${p[$name]}")
done
for name in HASH WINDOW FWD_BITS; do
	slice+=("-G$name=${p[$name]}")
done
cd "$out"
files=("$rtl/ctg_pkg.sv" "$rtl"/ctg_!(pkg).sv)
options=(--cc -O3 --Mdir . -Wno-UNUSEDPARAM "${coverage[@]}" "${trace[@]}")
verilator "${options[@]}" --top-module ctg_slice "${slice[@]}" "${files[@]}"
verilator "${options[@]}" --top-module ctg_controller "${controller[@]}" "${files[@]}"
root=$(verilator --getenv VERILATOR_ROOT)
support=("$root/include/verilated.cpp" "$root/include/verilated_threads.cpp")
((${#coverage[@]})) && support+=("$root/include/verilated_cov.cpp")
((${#trace[@]})) && support+=("$root/include/verilated_vcd_c.cpp")
defines=(-DSLICES=${p[SLICES]} -DENTRIES=${p[ENTRIES]} -DLARGE=${p[LARGE]}
	-DFWD_BITS=${p[FWD_BITS]}
	-DVM_COVERAGE=$((${#coverage[@]} > 0)) -DVM_TRACE=$((${#trace[@]} > 0)))
g++ -O1 -std=c++17 -pthread "-I$root/include" "-I$root/include/vltstd" -I. "${defines[@]}" \
	-o cosim "$here/cosim.cpp" ./Vctg_*.cpp "${support[@]}"
