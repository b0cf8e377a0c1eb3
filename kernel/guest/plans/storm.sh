# SPDX-License-Identifier: GPL-2.0-only
# Storms of GFP_ATOMIC requests while all memory is in use, the larger part of it by page cache,
# then a run into the OOM killer. Runs on either kernel, so that their counts can be compared.
disk
insmod /lib/modules/ample_hostile.ko
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
hog 35
load cache /mnt/fill $((total * 70 / 100)) > /dev/null
for mib in 8 32 64 128 256; do
	cat /mnt/fill > /dev/null
	sleep 1
	echo $mib > $hostile/storm
	result storm_$mib cat $hostile/stats
	sleep 1
done
emit region "\"region_mib\": $(region_mib)"
counters after_storms
rm /mnt/fill
# kernel memory on top of user memory that fills the rest: no reason to kill anybody
hog 30
echo $((total * 20 / 100)) > $hostile/hold
result held cat $hostile/stats
counters after_hold
[ ! -d $ctg/node0 ] ||
	echo "@@ note waited for the border: $(cat $ctg/node0/pressure_unmovable_bp) bp"
# more user memory than there is: somebody has to go
hog 40
counters after_oom
emit region_end "\"region_mib\": $(region_mib)"
kill_hogs
true
