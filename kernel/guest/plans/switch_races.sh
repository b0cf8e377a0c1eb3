# SPDX-License-Identifier: GPL-2.0-only
# Bad input for the switch: nonsense, numbers at the limits of 64 bits, two writers, a resize under
# way, memory blocks that are taken out and put back meanwhile. In the end it is what was last asked
# for, and the counters are those of the lists. ample.rounds= of each.
insmod /lib/modules/ample_hostile.ko
switch=$ctg/enabled
trigger=/sys/kernel/debug/contiguitas/node0
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
rounds=${rounds:-10}
stacks_after 240
refused() { ! echo "$1" 2>/dev/null > $2; }
before=$(cat $switch)
for bad in '' x on -1 2 1.0 '1 1' 4294967297 9223372036854775808 18446744073709551615 \
		18446744073709551617; do
	expect "enabled refuses '$bad'" refused "$bad" $switch
done
expect "nothing has changed" [ "$(cat $switch)" = $before ]
echo 1 > $switch
expect "1 again is no error" sh -c "echo 1 > $switch"
for bad in -1 9223372036854775807 9223372036854775808 18446744073709547520 18446744073709551615; do
	expect "a move to '$bad' is refused" refused "$bad" $trigger
	expect "max_bytes refuses '$bad'" refused "$bad" $ctg/node0/max_bytes
done

# resizes FILE: the border up and back for as long as FILE exists, whoever takes the files away
resizes() {
	while [ -e $1 ]; do
		now=$(cat $ctg/node0/unmovable_bytes 2>/dev/null) || now=0
		[ $now -gt 0 ] && echo $((now + 33554432)) > $trigger
		[ $now -gt 0 ] && echo $now > $trigger
	done 2>/dev/null
}

# two writers and a resizer
hog 40
touch /tmp/going
resizes /tmp/going & resizer=$!
for writer in 1 2; do
	(i=0
	while [ $i -lt $rounds ]; do
		echo $((i % 2)) > $switch
		echo $(((i + 1) % 2)) > $switch
		i=$((i + 1))
	done) & writers="$writers $!"
done
load fork 20 16
wait $writers
echo 0 > $switch
expect "it is off" [ "$(cat $switch)" = 0 -a ! -d $ctg/node0 ]
echo 1 > $switch
expect "it is on" [ "$(cat $switch)" = 1 -a -d $ctg/node0 ]
emit writers "\"rounds\": $rounds, \"region_mib\": $(region_mib)"

# blocks of memory out and in, near the border and at the far end, while it moves
out=0 kept=0
size=$((0x$(cat /sys/devices/system/memory/block_size_bytes)))
at=$(($(border) * 4096 / size))
last=$(ls -d /sys/devices/system/memory/memory[0-9]* | sed 's/.*memory//' | sort -n | tail -1)
i=0
while [ $i -lt $rounds ]; do
	for block in $((at + 1)) $((at + 2)) $last; do
		state=/sys/devices/system/memory/memory$block/state
		[ -e $state ] || continue
		if echo offline > $state; then out=$((out + 1)); else kept=$((kept + 1)); fi
		[ $i = 1 ] && echo 0 > $switch && echo 1 > $switch
		echo online > $state
	done 2>/dev/null
	i=$((i + 1))
done
rm /tmp/going
wait $resizer
kill_hogs
emit unplug "\"taken_out\": $out, \"refused\": $kept, \"region_mib\": $(region_mib)"
expect "blocks could be taken out" [ $out -gt 0 ]
settle
low=$(awk '/^Node/ && /type +(Unmovable|Reclaimable|HighAtomic)/ {
		for (i = 7, m = 4096; i <= NF; i++, m *= 2) s += $i * m }
	END { print s }' /proc/pagetypeinfo)
listed=$(cat $ctg/node*/unmovable_free_bytes | awk '{ s += $1 } END { print s }')
emit low_free "\"on_lists_bytes\": ${low:-0}, \"counted_bytes\": $listed"
expect "what is free below the border is what its lists hold" \
	at_most 4194304 $((low > listed ? low - listed : listed - low))
expect "no stall reported" sh -c '! dmesg | grep -E "blocked for more|soft lockup|rcu.*stall"'
counters counters
