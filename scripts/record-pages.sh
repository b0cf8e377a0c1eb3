#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Records this machine's page events for `ample replay --snapshot`, as root:
#   scripts/record-pages.sh OUT [SECONDS [BUFFER_MB]]
# makes OUT.snap (the machine right before) and OUT.trace.zst. Records into a tracefs instance of
# its own, so that other users of tracing are not disturbed, and keeps the events of SECONDS (30
# without) in a ring buffer of BUFFER_MB (256) for each CPU: text is made only afterwards, because
# the formatting would allocate pages too.
set -euo pipefail
out=${1:?usage: $0 OUT [SECONDS [BUFFER_MB]]}
seconds=${2:-30}
buffer_mb=${3:-256}
built=$(dirname "$0")/../target/release/ample
ample=${AMPLE:-$([[ -x $built ]] && echo "$built" || echo ample)}
events="mm_page_alloc mm_page_free mm_page_free_batched mm_page_alloc_extfrag"

tracing=/sys/kernel/tracing
if [[ ! -d $tracing/instances ]]; then
	mount -t tracefs nodev $tracing
fi
instance=$tracing/instances/ample-$$
mkdir "$instance"
trap 'echo 0 >"$instance/tracing_on"; rmdir "$instance"' EXIT

echo 0 >"$instance/tracing_on"
echo mono >"$instance/trace_clock"
echo $((buffer_mb * 1024)) >"$instance/buffer_size_kb"
for event in $events; do
	echo 1 >"$instance/events/kmem/$event/enable"
done
"$ample" scan --format snapshot -o "$out.snap"
echo 1 >"$instance/tracing_on"
sleep "$seconds"
echo 0 >"$instance/tracing_on"
stats() { cat "$instance"/per_cpu/cpu*/stats; }
lost=$(stats | awk "/^(overrun|dropped events)/ { n += \$NF } END { print n + 0 }")
# The hashed address of struct page says nothing and does not compress.
sed 's/ page=[0-9a-fx]*//' "$instance/trace" | zstd -q -f -o "$out.trace.zst"
echo "$out.trace.zst: $seconds s, $lost events lost; $out.snap"
