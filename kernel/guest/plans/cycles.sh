# SPDX-License-Identifier: GPL-2.0-only
# Forced resizes under load: ample.cycles of them, each a growth and a shrink. User memory takes
# ample.user= (92) percent: less in a small guest, where the kernel itself needs more than the rest.
# ample.storm=MIB: atomic storms of that size meanwhile, that claim what is being emptied.
disk
mkdir -p /mnt/t
insmod /lib/modules/ample_hostile.ko
trigger=/sys/kernel/debug/contiguitas/node0
extfrag_on
free_before=$(awk '/MemFree/ { print $2 }' /proc/meminfo)
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
# the first hog takes the far end; the second one what is left, up to the
# border; without the first there is room to move the second into
user=${user:-92}
load hog $((total * user * 60 / 10000)) 3600 > /tmp/first &
first=$!
while ! [ -s /tmp/first ] && kill -0 $first; do sleep 1; done
load hog $((total * user * 40 / 10000)) 3600 > /tmp/second &
hog=$!
while ! [ -s /tmp/second ] && kill -0 $hog; do sleep 1; done
expect "user memory of $user % fits" [ -s /tmp/first -a -s /tmp/second ]
kill $first
load cache /mnt/big $((total * 20 / 100))
echo "@@ note load at $(cut -d' ' -f1 /proc/uptime) s"
load stall > /tmp/stall &
stall=$!
(while :; do load churn /mnt/t 200 1 ${seed:-1} > /dev/null; load fork 2 16; done) &
loop=$!
[ -z "$storm" ] || (while :; do echo $storm > $hostile/storm; sleep 0.05; done) &
storms=$!
# let the load settle: from here on the border goes up and comes back
sleep 5
n=0 grown=0 shrunk=0
start=$(cut -d' ' -f1 /proc/uptime)
while [ $grown -lt ${cycles:-100} -o $shrunk -lt ${cycles:-100} ] &&
		[ $n -lt $((${cycles:-100} * 3)) ]; do
	now=$(cat $ctg/node0/unmovable_bytes)
	echo "$((now + (n % 8 + 1) * ${step_mib:-4} * 1048576))" > $trigger 2>/dev/null &&
		grown=$((grown + 1))
	echo "$now" > $trigger 2>/dev/null && shrunk=$((shrunk + 1))
	n=$((n + 1))
	[ $((n % 50)) = 0 ] && echo "@@ note cycle $n at $(cut -d' ' -f1 /proc/uptime) s"
done
end=$(cut -d' ' -f1 /proc/uptime)
kill $loop $storms $hog $stall; wait 2>/dev/null
emit cycles "\"cycles\": $n, \"grown\": $grown, \"shrunk\": $shrunk, \
	\"start_s\": $start, \"end_s\": $end"
expect "as many grew as asked for" [ $grown -ge ${cycles:-100} ]
expect "as many shrank as asked for" [ $shrunk -ge ${cycles:-100} ]
emit stall "\"value\": $(cat /tmp/stall)"
longest=$(sed 's/.*longest_ns": //; s/}//' /tmp/stall)
expect "no task waited 1 s for a page" [ "$longest" -lt 1000000000 ]
expect "confined" confined
expect "uncrossed" uncrossed
rm -rf /mnt/t /mnt/big; umount /mnt
echo 3 > /proc/sys/vm/drop_caches
settle
free_after=$(awk '/MemFree/ { print $2 }' /proc/meminfo)
emit leak "\"free_before_kb\": $free_before, \"free_after_kb\": $free_after"
expect "less than 24 MB of free memory gone" [ $((free_before - free_after)) -lt 24576 ]
expect "no stall reported" sh -c '! dmesg | grep -E "blocked for more|soft lockup|rcu.*stall"'
# the counters by type add up to what the free lists hold
sum=$(awk '/^Node/ && /type/ { for (i = 7, m = 1; i <= NF; i++, m *= 2) s += $i * m }
	END { print s }' /proc/pagetypeinfo)
nr=$(awk '/^nr_free_pages/ { print $2 }' /proc/vmstat)
emit counted "\"on_lists\": ${sum:-0}, \"nr_free_pages\": $nr"
low=$(awk '/^Node/ && /type +(Unmovable|Reclaimable|HighAtomic)/ {
		for (i = 7, m = 4096; i <= NF; i++, m *= 2) s += $i * m }
	END { print s }' /proc/pagetypeinfo)
listed=$(cat $ctg/node0/unmovable_free_bytes)
emit low_free "\"on_lists_bytes\": ${low:-0}, \"counted_bytes\": $listed"
expect "what is free below the border is what its lists hold" \
	at_most 4194304 $((low > listed ? low - listed : listed - low))
counters counters
