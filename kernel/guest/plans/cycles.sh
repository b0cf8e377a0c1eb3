# SPDX-License-Identifier: GPL-2.0-only
# Forced resizes under load: ample.cycles of them, each a growth and a shrink.
disk
mkdir -p /mnt/t
insmod /lib/modules/ample_hostile.ko
trigger=/sys/kernel/debug/contiguitas/resize
extfrag_on
base=$(cat $ctg/node0/unmovable_bytes)
free_before=$(awk '/MemFree/ { print $2 }' /proc/meminfo)
echo 1 > /proc/sys/vm/drop_caches
(while :; do load churn /mnt/t 200 1 ${seed:-1} > /dev/null; load fork 2 16; done) &
loop=$!
n=0 failed=0
start=$(cut -d' ' -f1 /proc/uptime)
while [ $n -lt ${cycles:-100} ]; do
	grow=$((base + (n % 8 + 1) * 8388608))
	echo "0 $grow" > $trigger 2>/dev/null || failed=$((failed + 1))
	echo "0 $base" > $trigger 2>/dev/null || failed=$((failed + 1))
	n=$((n + 1))
done
end=$(cut -d' ' -f1 /proc/uptime)
kill $loop; wait 2>/dev/null
emit cycles "\"cycles\": $n, \"failed_resizes\": $failed, \"start_s\": $start, \"end_s\": $end"
expect "confined" confined
expect "uncrossed" uncrossed
rm -rf /mnt/t; umount /mnt
echo 3 > /proc/sys/vm/drop_caches
settle
free_after=$(awk '/MemFree/ { print $2 }' /proc/meminfo)
emit leak "\"free_before_kb\": $free_before, \"free_after_kb\": $free_after"
expect "less than 24 MB of free memory gone" [ $((free_before - free_after)) -lt 24576 ]
expect "no stall reported" sh -c '! dmesg | grep -E "blocked for more|soft lockup|rcu.*stall"'
# the counters by type add up to what the free lists hold
sum=$(awk '/^Node/ && /type/ { for (i = 7; i <= NF; i++) s += $i * 2 ^ (i - 7) } END { print s }' /proc/pagetypeinfo)
nr=$(awk '/^nr_free_pages/ { print $2 }' /proc/vmstat)
emit counted "\"on_lists\": ${sum:-0}, \"nr_free_pages\": $nr"
low=$(awk '/^Node/ && /type +(Unmovable|Reclaimable|HighAtomic)/ { for (i = 7; i <= NF; i++) s += $i * 2 ^ (i - 7) } END { print s * 4096 }' /proc/pagetypeinfo)
emit low_free "\"on_lists_bytes\": ${low:-0}, \"counted_bytes\": $(cat $ctg/node0/unmovable_free_bytes)"
counters counters
