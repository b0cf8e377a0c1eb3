#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks the assertions of hw/formal/chip_proof.sv (front end, two slices, the values of a line) in
# random runs, by the hardware of folder RTL. Usage: hw/sim/chip.sh [RTL] [RUNS] [SEED]
# Exit code 0: none fails; 1: one does, and is named.
set -euo pipefail
shopt -s extglob
rtl=$(realpath "${1:-$(dirname "$0")/../rtl}")
runs=${2:-3000} seed=${3:-1}
cd "$(dirname "$0")/../.."
out=target/hw/chip$([[ $rtl == */hw/rtl ]] || echo "-$$")
mkdir -p "$out"
verilator --cc --exe --build -O3 --assert -Wno-fatal -Wno-lint -Wno-style --Mdir "$PWD/$out" \
	--top-module chip_proof -o chip "$rtl"/ctg_pkg.sv "$rtl"/ctg_!(pkg|portal).sv \
	"$PWD"/hw/formal/chip_{os,proof}.sv "$PWD"/hw/sim/chip.cpp >"$out.log" 2>&1 || {
	tail -n 5 "$out.log" >&2
	exit 1
}
status=0
# An assertion that fails ends the program by a signal, which a shell would report.
bash -c '"$@" || exit 1' run "$out/chip" "$runs" 1000 "$seed" >"$out.log" 2>&1 || status=1
if ((status)); then
	failed=$(grep -oE 'Assertion failed in [A-Za-z_.]*' "$out.log" || true)
	echo "chip FAILS: ${failed%%$'\n'*}"
else
	cat "$out.log"
fi
[[ $out == target/hw/chip ]] || rm -rf "$out" "$out.log"
exit $status
