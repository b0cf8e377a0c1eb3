#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Plants faults in copies of the hardware, one at a time: a proof or the co-simulation must find
# each. Usage: hw/faults.sh [named|changed N|FAULT...]: those named below; N operators changed
# mechanically (hw/change.py), spread over all files; only these; without an argument the named ones
# and ten changes. Exit code 1 when one is missed.
set -euo pipefail
cd "$(dirname "$0")/.."
out=target/hw/faults
trace=target/release/ample-rtl-trace
cargo build --locked --quiet --release -p ample-rtl-check
mkdir -p $out
missed=0 found=0
only=("$@")

wanted() { # wanted NAME: is this fault asked for?
	((${#only[@]} == 0)) || [[ " ${only[*]} " == *" named "* || " ${only[*]} " == *" $1 "* ]]
}

copy() { # copy NAME: the hardware, to be spoilt
	rm -rf "${out:?}/$1"
	mkdir -p "$out/$1"
	cp -r hw/rtl "$out/$1/rtl"
}

plant() { # plant NAME FILE OLD NEW
	local name=$1 file=$2 old=$3 new=$4
	wanted "$name" || return 0
	copy "$name"
	OLD=$old NEW=$new perl -0pi -e 's/\Q$ENV{OLD}\E/$ENV{NEW}/' "$out/$name/rtl/$file"
	! cmp -s "hw/rtl/$file" "$out/$name/rtl/$file" || {
		echo "faults.sh: $name: '$old' is not in $file" >&2
		exit 2
	}
	judge "$name" "$file"
}

judge() { # judge NAME FILE: is the fault in the copy of FILE found?
	local name=$1 file=$2 how proof=slice
	[[ $file == ctg_controller.sv || $file == ctg_work_queue.sv ]] && proof=controller
	how=$(hw/formal/prove.sh --rtl "$(realpath "$out/$name/rtl")" --seconds 60 $proof 2>&1) || true
	# Proven by induction, or neither proven nor broken: the whole chip in random runs.
	if [[ $how == *proven* && $file != ctg_portal.sv ]]; then
		how=$(hw/sim/chip.sh "$(realpath "$out/$name/rtl")" 3000 1 2>&1) || true
		[[ $how == *FAILS* ]] || how="proven, $how"
	fi
	if [[ $how == *proven* ]]; then
		if hw/sim/build.sh "$out/$name/rtl" "$out/$name/sim" >"$out/$name/log" 2>&1; then
			how=$("$trace" random --events 200000 --seed 1 2>/dev/null |
				"$out/$name/sim/cosim" | head -n 1) || true
		else
			how="refused by Verilator"
		fi
	elif [[ $how != *FAILS* ]]; then
		how="refused by Yosys"
	fi
	case $how in
	*FAILS* | DIFFERENT* | refused*)
		echo "found   $name: $how"
		found=$((found + 1))
		;;
	*)
		echo "MISSED  $name: $how"
		missed=$((missed + 1))
		;;
	esac
	rm -rf "${out:?}/$name/sim"
}

plant pointer-off-by-one ctg_redirect.sv "index} < its_pointer" "index} <= its_pointer"
plant no-nack ctg_redirect.sv "wants_copy && !cacheable" "1'b0"
plant done-forgotten ctg_redirect.sv "its_phase == ctg_pkg::DONE" "1'b0"
plant cleared-redirects ctg_redirect.sv "by_source & used & ~clearing" "by_source & used"
plant own-slice-unasked ctg_redirect.sv "if (home_other != id)" "if (1'b0)"
plant open-before-pointer ctg_engine.sv "pointer_valid = phase_valid || pops" \
	"pointer_valid = phase_valid"
plant window-unbounded ctg_engine.sv "ours && count < limit" "ours"
plant pointer-kept ctg_engine.sv "        if (phase_valid)
            pointer_new = '0;" "        if (1'b0)
            pointer_new = '0;"
plant handover-lost ctg_engine.sv "answer_kept ? ctg_pkg::HANDOVER" "1'b0 ? ctg_pkg::HANDOVER"
plant turn-lost ctg_engine.sv "parallel || id == LAST" "1'b1"
plant purge-of-source ctg_engine.sv "== ctg_pkg::PURGING ? its_dst : its_src" \
	"== ctg_pkg::DONE ? its_dst : its_src"
plant phase-lost ctg_slice.sv "reply_free && !engine_phase" "reply_free"
plant forwards-uncounted ctg_slice.sv "(counts && decision_take) ? covered" "1'b0 ? covered"
plant cleared-too-soon ctg_slice.sv "view_clearing & idle" "view_clearing"
plant forward-of-nothing ctg_redirect.sv "valid && action == ctg_pkg::FORWARD" \
	"action == ctg_pkg::FORWARD"
plant wrong-hash ctg_hash.sv "whole >> 1" "whole >> 2"
plant overlap-unseen ctg_controller.sv "((b ^ next_src) & mask) == '0" "1'b0"
plant full-unseen ctg_controller.sv "if (|meets || &used || no_share)" "if (|meets || no_share)"
plant abort-without-flush ctg_controller.sv "its_state == INSTALLED ? FLUSHING : CLEARING" \
	"CLEARING"
plant marks-unawaited ctg_controller.sv "its_state == FINISHING && its_cores == '0" \
	"its_state == FINISHING"
plant stray-answer-counted ctg_controller.sv "owed        = used[slot] && (" \
	"owed        = used[slot] || ("
plant outside-memory ctg_controller.sv "else if (beyond)" "else if (1'b0)"
plant guest-unchecked ctg_controller.sv "else if (foreign)" "else if (1'b0)"
plant share-unseen ctg_controller.sv "&used || no_share" "&used"
plant reset-waits-for-others ctg_work_queue.sv "chosen  = COUNT_BITS'(n)" "chosen  = '0"

changes=0
((${#only[@]})) || changes=10
[[ ${only[0]:-} == changed ]] && changes=${only[1]:?how many}
for ((n = 0; n < changes; n++)); do
	copy "changed-$n"
	change=$(hw/change.py "$n" "$changes" "$out/changed-$n/rtl")
	echo "        $change"
	judge "changed-$n" "${change%%:*}"
done
echo "faults: $found of $((found + missed)) found"
((missed == 0))
