#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Record the page events of a load on a kernel, as data for the server model.
# usage: record.sh TREE OUT_PREFIX SEED [WORKLOAD [MEM [MORE_PARAMETERS]]]
# Makes OUT_PREFIX.trace.zst (text of ftrace, without the hashed page pointer)
# and OUT_PREFIX.json (one object a line: what the plan found).
# Without WORKLOAD: the mixed load of plan record, on 2 GB, with snapshots of
# the metrics along the way. With one of the bench's: plan record_load, and
# OUT_PREFIX.snap, the machine right before; times to 10 ms, no task padding,
# and no more than the first 600,000 lines: they take less than 1 MB.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$1 out=$2 seed=$3 workload=${4:-} mem=${5:-512M} more=${6:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$out")"
if [ -z "$workload" ]; then
	"$here/guest.sh" "$tree" record "$work" --timeout 300 --disk 512 --raw 256 \
		--append "ample.seed=$seed"
	text() { tr -d '\000' < "$work/raw.img" | sed 's/ page=[0-9a-f]*//'; }
else
	"$here/guest.sh" "$tree" record_load "$work" --timeout 580 --disk 1024 --raw 512 --smp 1 \
		--mem "$mem" --append "ample.workload=$workload ample.seed=$seed $more"
	bytes=$(sed -n 's/.*"what": "snapshot", "bytes": \([0-9]*\).*/\1/p' "$work/results.jsonl")
	head -c "$bytes" "$work/raw.img" > "$out.snap"
	text() {
		tail -c "+$((bytes + 1))" "$work/raw.img" | tr -d '\000' | sed -E \
			's/ page=[0-9a-f]*//; s/^ +//; s/ +\[/ [/; s/(\.[0-9]{2})[0-9]{4}: mm/\1: mm/' |
			awk 'NR <= 600000'
	}
fi
text | zstd -19 -q -f -o "$out.trace.zst"
cp "$work/results.jsonl" "$out.json"
