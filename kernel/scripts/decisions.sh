#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Record what the policy of the border decides under a load, for a test of the server model.
# usage: decisions.sh TREE OUT_PREFIX WORKLOAD SEED [MEM]
# WORKLOAD is one of plan decisions. Makes OUT_PREFIX.trace.zst, text of ftrace: an event a line
# without task, CPU and time, each one once, the first 1,500 of them; and OUT_PREFIX.json, one
# object a line: what the plan found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 4 ] || { sed -n '4,7s/^# //p' "$0" >&2; exit 2; }
tree=$1 out=$2 workload=$3 seed=$4 mem=${5:-512M}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$out")"
"$here/guest.sh" "$tree" decisions "$work" --timeout 580 --disk 1024 --raw 64 --mem "$mem" \
	--append "contiguitas=on ample.workload=$workload ample.seed=$seed"
tr -d '\000' < "$work/raw.img" | sed -n 's/^.*: \(contiguitas_[a-z]*: \)/\1/p' |
	awk '!seen[$0]++ && ++n <= 1500' | zstd -19 -q -f -o "$out.trace.zst"
cp "$work/results.jsonl" "$out.json"
