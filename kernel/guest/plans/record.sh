# SPDX-License-Identifier: GPL-2.0-only
# Records every page allocation and free of a mixed load with the kernel's own
# tracepoints, and the state of memory along the way. The text of the trace
# goes to the raw disk. ample.seed=N picks the load's seed.
disk
mkdir -p /mnt/t
snapshot() {
	emit clock "\"snapshot\": \"$1\", \"mono_s\": $(cut -d' ' -f1 /proc/uptime)"
	contiguity "$1"
	sed -n '/Number of blocks/,$p' /proc/pagetypeinfo | sed "s/^/@@ note pagetypeinfo $1: /"
}
trace_pages 40000 mm_page_alloc mm_page_free mm_page_free_batched mm_page_alloc_extfrag
snapshot start
echo 1 > $tr/tracing_on
load churn /mnt/t 2500 3 ${seed:-1} &
load fork 40 8
wait
snapshot churned
load cache /mnt/big 160
snapshot cached
load churn /mnt/t 2500 3 $((${seed:-1} + 100)) &
load fork 40 8
load pair 4000
wait
snapshot churned_again
rm -rf /mnt/t/d1*
sync
snapshot removed
echo 0 > $tr/tracing_on
workload=mixed traced
dev=$(raw)
cat $tr/trace > $dev
sync
