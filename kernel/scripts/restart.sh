#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Record what a service gets of huge pages when it restarts, for the experiment restart-pages.
# usage: restart.sh TREE OUT_PREFIX SEED [MEM [MORE_PARAMETERS]]
# Makes, for each variant of the plan record_restart, OUT_PREFIX-VARIANT.snap, the machine right
# before it asks (ample scan --format snapshot), and OUT_PREFIX-VARIANT.flags.zst, a byte of flags
# for each page (kernel/guest/src/restart.c); and OUT_PREFIX.json, one object a line: what the plan
# found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { sed -n '4,8s/^# //p' "$0" >&2; exit 2; }
tree=$1 out=$2 seed=$3 mem=${4:-1G} more=${5:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$out")"
truncate -s 2G "$work/slow.img"
/sbin/mkfs.ext4 -q -F "$work/slow.img"
slow="file=$work/slow.img,if=none,id=slow,format=raw,cache=unsafe,throttling.bps-write=8388608"
# What a guest recorded is kept where it did not meet an expectation, too.
rc=0
"$here/guest.sh" "$tree" record_restart "$work" --timeout 3000 --disk 3072 --raw 64 --smp 1 \
	--mem "$mem" --append "contiguitas=on ample.seed=$seed $more" \
	--qemu "-drive $slow -device virtio-blk-pci,drive=slow,serial=slow" || rc=$?
cp "$work/results.jsonl" "$out.json"
# part FROM BYTES: these bytes of the raw disk
part() {
	dd if="$work/raw.img" bs=64k iflag=skip_bytes,count_bytes skip="$1" count="$2" status=none
}
n='([0-9]*)' to=',[^"]*'
where="\"at\": $n$to\"snap\": $n$to\"flags\": $n"
sed -nE "s/.*\"before\", \"variant\": \"([a-z]*)\"$to$where.*/\1 \2 \3 \4/p" \
	"$out.json" | while read -r variant at snap flags; do
	part "$at" "$snap" > "$out-$variant.snap"
	part $((at + snap)) "$flags" | zstd -19 -q -f -o "$out-$variant.flags.zst"
done
exit $rc
