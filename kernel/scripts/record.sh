#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Record the page events of the mixed load on a kernel, as test data.
# usage: record.sh TREE OUT_PREFIX SEED
# Makes OUT_PREFIX.trace.zst (text of ftrace, without the hashed page pointer)
# and OUT_PREFIX.json (one object a line: memory at the snapshots).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$1 out=$2 seed=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/guest.sh" "$tree" record "$work" --timeout 300 --disk 512 --raw 256 \
	--append "ample.seed=$seed"
mkdir -p "$(dirname "$out")"
tr -d '\000' < "$work/raw.img" | sed 's/ page=[0-9a-f]*//' | zstd -19 -q -f -o "$out.trace.zst"
cp "$work/results.jsonl" "$out.json"
