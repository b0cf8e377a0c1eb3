# SPDX-License-Identifier: GPL-2.0-only
# A block device that is open is read from end to end: its cache asks for unmovable pages, all of it
# can be dropped, and none of it is a reason to take memory from the movable side. Boot with
# --raw N larger than memory. Runs on either kernel.
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
first=$(region_mib)
exec 3< /dev/vda
for pass in 1 2; do dd if=/dev/vda of=/dev/null bs=1M 2>/dev/null; done
read=$(region_mib)
thp=$(thp_share 800)
emit device_read "\"read_mib\": $(($(cat /sys/block/vda/size) / 2048)), \
	\"region_before_mib\": $first, \"region_mib\": $read, \
	\"region_free_mib\": $(region_mib unmovable_free_bytes), \"thp_percent\": $thp, $(stall_counts)"
exec 3<&-
sleep ${idle:-45}
emit device_closed "\"region_mib\": $(region_mib), \
	\"region_free_mib\": $(region_mib unmovable_free_bytes)"
[ ! -d $ctg/node0 ] || echo "@@ note pressures" $(cat $ctg/node0/pressure_*)
counters counters
expect "the region is a quarter of memory at most" at_most $((total / 4)) $read
expect "it is the smaller by half when the cache is gone" \
	at_most $(($first + ($read - $first + 1) / 2)) $(region_mib)
expect "nine of ten huge pages can be had" [ $thp -ge 90 ]
