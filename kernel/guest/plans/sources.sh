# SPDX-License-Identifier: GPL-2.0-only
# Sockets, pipes and page tables held while anonymous memory churns: what blocks they spoil once
# memory has been compacted. ample.seed= seeds it. Runs on either kernel.
insmod /lib/modules/ample_hostile.ko
held sources ${rounds:-40} ${seed:-1} > /tmp/held &
pid=$!
while ! [ -s /tmp/held ] && kill -0 $pid 2>/dev/null; do
	sleep 1
	echo "@@ note region $(region_mib) MiB, free in it $(region_mib unmovable_free_bytes)"
done
sleep ${idle:-20}
echo 1 > /proc/sys/vm/compact_memory
settle
kpf $(border) > /tmp/kpf
result kpf cat /tmp/kpf
emit sources "\"seed\": ${seed:-1}, $(sed 's/.*"order9": {\([^}]*\)}.*/\1/' /tmp/kpf), \
	\"region_mib\": $(region_mib), \"region_free_mib\": $(region_mib unmovable_free_bytes), \
	$(stall_counts)"
counters counters
kill $pid
