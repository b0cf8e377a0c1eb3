#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Record the course of a load of services on a kernel, for the experiment foresight.
# usage: course.sh TREE OUT_PREFIX WORKLOAD SEED [SECONDS [MEM]]
# WORKLOAD is web, churn, build or leak. Makes OUT_PREFIX.start.snap, .third.snap and .end.snap, the
# pages at those moments (ample scan --format snapshot); OUT_PREFIX.trace.zst, text of ftrace of
# that third with times to 10 ms and without page pointer and task, 450,000 events at most; and
# OUT_PREFIX.json, one object a line: what the plan found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 4 ] || { sed -n '4,9s/^# //p' "$0" >&2; exit 2; }
tree=$1 out=$2 workload=$3 seed=$4 span=${5:-210} mem=${6:-1G}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$out")"
"$here/guest.sh" "$tree" record_course "$work" --timeout $((2 * span + 300)) --disk 3072 --raw 512 \
	--smp 1 --mem "$mem" \
	--append "contiguitas=on ample.workload=$workload ample.seed=$seed ample.span_s=$span"
at=0
# part BYTES: the next bytes of the raw disk
part() {
	dd if="$work/raw.img" bs=64k iflag=skip_bytes,count_bytes skip="$at" count="$1" status=none
}
for name in start third end; do
	bytes=$(sed -n "s/.*\"name\": \"$name\", \"bytes\": \([0-9]*\).*/\1/p" "$work/results.jsonl")
	part "$bytes" > "$out.$name.snap"
	at=$((at + bytes))
done
part $((1 << 40)) | tr -d '\000' | sed -E '/^#/d; s/ page=[0-9a-f]*//
	s/^ *.*-[0-9]+ +\[/t-1 [/; s/(\.[0-9]{2})[0-9]{4}: mm/\1: mm/' |
	awk 'NR <= 450000' | zstd -19 -q -f -o "$out.trace.zst"
cp "$work/results.jsonl" "$out.json"
