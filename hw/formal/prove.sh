#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Proves the properties of hw/formal by induction: Yosys makes an and-inverter graph of the modules
# with all registers, ABC's property-directed reachability finds an inductive invariant, or a
# counterexample; to a stated depth only where that does not end within the time. The whole chip is
# too much for induction: it is explored from reset for the time, and the depth is printed.
# Usage: hw/formal/prove.sh [--rtl FOLDER] [--seconds N] [PROOF...]; PROOF: slice, controller, chip
# Exit code 0: proven (chip: no counterexample); 1: a counterexample; 3: neither within the time
# (the depth is printed).
set -euo pipefail
shopt -s extglob
cd "$(dirname "$0")"
rtl=../rtl
seconds=200
while [[ ${1:-} == --* ]]; do
	case $1 in
	--rtl) rtl=$2 ;;
	--seconds) seconds=$2 ;;
	*)
		echo "prove.sh: unknown argument $1; usage: prove.sh [--rtl FOLDER] [--seconds N]" >&2
		exit 2
		;;
	esac
	shift 2
done
proofs=("$@")
((${#proofs[@]})) || proofs=(slice controller chip)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for proof in "${proofs[@]}"; do
	yosys -q -p "
		read_verilog -formal -sv $(echo "$rtl"/ctg_pkg.sv "$rtl"/ctg_!(pkg).sv "${proof}"_*.sv)
		prep -flatten -top ${proof}_proof
		async2sync
		setundef -anyseq
		opt -fast
		techmap
		opt -fast
		dffunmap
		aigmap
		setundef -undriven -anyseq
		opt_clean
		write_aiger -zinit $work/$proof.aig" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		exit 2
	}
	begun=$SECONDS
	if [[ $proof == chip ]]; then
		yosys-abc -c "read_aiger $work/$proof.aig; fold; strash; scorr; dc2; scorr; dc2; \
			bmc3 -g -T $seconds" >"$work/out" 2>&1 || true
		if grep -qE 'asserted in frame' "$work/out"; then
			echo "prove: chip FAILS: $(grep -oE 'asserted in frame [0-9]+' "$work/out" | tail -n 1)"
			status=1
		else
			depth=$(grep -oE 'in [0-9]+ frames' "$work/out" | tail -n 1 || true)
			[[ $depth ]] || {
				cat "$work/out" >&2
				exit 2
			}
			echo "prove: chip holds $depth from reset, $((SECONDS - begun)) s"
		fi
		continue
	fi
	yosys-abc -c "read_aiger $work/$proof.aig; fold; strash; pdr -T $seconds" \
		>"$work/out" 2>&1 || true
	took=$((SECONDS - begun))
	if grep -qE 'Property proved|Networks are equivalent' "$work/out"; then
		frames=$(grep -oE 'Invariant F\[[0-9]+\]' "$work/out" | tail -n 1 || true)
		echo "prove: $proof proven by induction, $took s ${frames}"
	elif grep -qE 'asserted in frame' "$work/out"; then
		echo "prove: $proof FAILS: $(grep -oE 'asserted in frame [0-9]+' "$work/out" | tail -n 1)"
		status=1
	else
		depth=$(yosys-abc -c "read_aiger $work/$proof.aig; fold; strash; bmc3 -T $seconds" |
			tee "$work/bmc" | grep -oE 'in [0-9]+ frames' | tail -n 1 || true)
		if grep -qE 'asserted in frame' "$work/bmc"; then
			echo "prove: $proof FAILS: $(grep -oE 'asserted in frame [0-9]+' "$work/bmc")"
			status=1
		else
			echo "prove: $proof neither proven nor broken after $took s; no counterexample $depth"
			tail -n 3 "$work/out" "$work/bmc"
			((status)) || status=3
		fi
	fi
done
exit $status
