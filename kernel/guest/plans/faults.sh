# SPDX-License-Identifier: GPL-2.0-only
# Faults injected into the page allocator while memory is churned and the border moves: requests
# of the loads and of the resizer itself fail at random. Debug kernel, page_owner=on.
disk
mkdir -p /mnt/t
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
inject=/sys/kernel/debug/fail_page_alloc
trigger=/sys/kernel/debug/contiguitas/node0
if ! [ -d $inject ]; then
	echo "@@ FAIL no fault injection in this kernel: use the debug kernel"
	return
fi
insmod /lib/modules/ample_hostile.ko
extfrag_on
echo 0 > $inject/verbose
echo 0 > $inject/min-order
echo N > $inject/ignore-gfp-wait
echo N > $inject/ignore-gfp-highmem
echo Y > $inject/task-filter
echo 1000000 > $inject/times

# unlucky COMMAND...: its requests may fail, and it may die of that; children inherit it
unlucky() { sh -c 'echo 1 > /proc/self/make-it-fail; exec "$@"' sh "$@" > /dev/null 2>&1 || true; }
resizer=$(pidof kcontiguitas0)
expect "the resizer runs" [ -n "$resizer" ]
echo 1 > /proc/$resizer/make-it-fail

n=0
for probability in 1 5 25; do
	echo $probability > $inject/probability
	unlucky load churn /mnt/t 200 1 $probability & churn=$!
	unlucky load fork 4 8 & fork=$!
	unlucky load cache /mnt/big $((total / 8))
	unlucky load send 64 50 1
	unlucky load thp 32
	now=$(cat $ctg/node0/unmovable_bytes)
	for mib in 16 4 0; do
		unlucky sh -c "echo '$((now + mib * 1048576))' > $trigger"
		n=$((n + 1))
	done
	unlucky sh -c "echo $((total / 20)) > $hostile/fragment"
	unlucky sh -c "echo 8 > $hostile/storm"
	echo 1 > $hostile/release
	wait $churn $fork
done
echo 0 > $inject/probability
injected=$((1000000 - $(cat $inject/times)))
emit faults "\"injected\": $injected, \"forced_resizes\": $n"
expect "faults were injected" [ $injected -gt 100 ]
expect "confined" confined
expect "uncrossed" uncrossed
# with requests served again the border still moves
now=$(cat $ctg/node0/unmovable_bytes)
expect "the border grows" sh -c "echo '$((now + 16777216))' > $trigger"
echo "$now" > $trigger || echo "@@ note it does not come back: pages in use"
counters counters
