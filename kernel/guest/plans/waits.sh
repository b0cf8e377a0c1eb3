# SPDX-License-Identifier: GPL-2.0-only
# How long requests wait for the border while all memory is in use: those that may fail, that may
# not start I/O, and of a task that was killed. What kvmalloc() tries first is no reason to make the
# region larger. Runs on either kernel.
disk
insmod /lib/modules/ample_hostile.ko
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
hog 60
load cache /mnt/fill $((total * 60 / 100)) > /dev/null
# the last of the region goes to the module: what it asks for next is not there
echo $((total / 5)) > $hostile/hold
# what the resizer keeps in reserve is on its way back: that growth is not of the attempts
rested
before=$(region_mib)
emit before "\"region_mib\": $before, \"limit_mib\": $((total / 4))"
asked noretry 4 200
grown=$(($(region_mib) - before))
expect "attempts that may fail took 16 MB of the border at most" at_most 16 $grown
for kind in noretry nofs noio kernel; do
	(cat /mnt/fill > /dev/null) &
	asked $kind 0 20000
	# a host that is busy can hold a CPU up for a time
	expect "no request of kind $kind waited for 1.5 s" at_most 1500 $longest_ms
	wait $!
done
start=$(cut -d' ' -f1 /proc/uptime)
(echo $((total / 2)) > $hostile/hold) & holder=$!
sleep 1
kill -9 $holder
wait $holder 2>/dev/null
died=$(awk -v s=$start '{ print int(1000 * ($1 - s)) - 1000 }' /proc/uptime)
emit died "\"ms_after_the_signal\": $died"
expect "a killed task is gone in 1 s" at_most 1000 $died
counters counters
kill_hogs
