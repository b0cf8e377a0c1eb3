# SPDX-License-Identifier: GPL-2.0-only
# Records the page events of one workload of the bench (ample.workload=) for
# `ample replay --snapshot`: the machine right before and the text of the
# trace go to the raw disk as a tar file. A page freed in a batch has both
# mm_page_free and mm_page_free_batched on 6.12, so that the first will do.
. /lib/workloads.sh
disk
prepare_workload
insmod /lib/modules/ample_hostile.ko
trace_pages ${buffer_kb:-40000} mm_page_alloc mm_page_free
settle
ample scan --format snapshot -o /tmp/snap
echo 1 > $tr/tracing_on
run_workload
echo 0 > $tr/tracing_on
web_stop
traced
dev=$(raw)
(cat /tmp/snap; cat $tr/trace) > $dev
emit snapshot "\"bytes\": $(wc -c < /tmp/snap)"
sync
