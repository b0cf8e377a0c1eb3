# SPDX-License-Identifier: GPL-2.0-only
# Records the page events of one workload of the bench (ample.workload=) for
# `ample replay --snapshot`: the machine right before and the text of the
# trace go to the raw disk as a tar file. A page freed in a batch has both
# mm_page_free and mm_page_free_batched on 6.12, so that the first will do.
. /lib/workloads.sh
tr=/sys/kernel/tracing
disk
prepare_workload
insmod /lib/modules/ample_hostile.ko
echo 0 > $tr/tracing_on
echo mono > $tr/trace_clock
echo ${buffer_kb:-40000} > $tr/buffer_size_kb
for e in mm_page_alloc mm_page_free; do
	echo 1 > $tr/events/kmem/$e/enable
done
echo > $tr/trace
settle
ample scan --format snapshot -o /tmp/snap
echo 1 > $tr/tracing_on
run_workload
echo 0 > $tr/tracing_on
web_stop
lost=$(awk '/overrun|dropped/ { s += $NF } END { print s }' $tr/per_cpu/cpu*/stats)
events=$(awk '/^entries/ { s += $NF } END { print s }' $tr/per_cpu/cpu*/stats)
emit trace "\"workload\": \"$workload\", \"seed\": $seed, \"events\": $events, \"lost\": $lost"
expect "no event was lost" [ "$lost" = 0 ]
dev=$(raw)
(cat /tmp/snap; cat $tr/trace) > $dev
emit snapshot "\"bytes\": $(wc -c < /tmp/snap)"
sync
