# SPDX-License-Identifier: GPL-2.0-only
# Huge pages while files fill memory. Direct reclaim has to make room for them on the movable side:
# it once took a free block below the border for that room, scanned nothing, and a fifth to a third
# of the huge pages were not had. Runs on either kernel; the verdict is about the border.
. /lib/workloads.sh
disk
prepare_workload
n=0
while [ $n -lt $((400 * scale)) ]; do
	dd if=/dev/zero of=/mnt/www/$n bs=4k count=$((n * 37 % 256 + 1)) 2> /dev/null
	n=$((n + 1))
done
hog 51
load cache /mnt/fill $((total * 30 / 100)) > /dev/null
counters before
result thp load thp $((total / 4))
counters counters
kill_hogs
[ $(border) = 0 ] || expect "direct reclaim of a movable request scans what can move" \
	[ $(vmstat pgscan_direct) -gt $(vmstat allocstall_movable) ]
