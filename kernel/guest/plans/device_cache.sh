# SPDX-License-Identifier: GPL-2.0-only
# The cache of a block device asks for unmovable pages, that can be migrated while nobody holds
# them: neither compaction nor a shrink may carry them above the border. Boot with page_owner=on
# and a region that has room for the cache.
disk
insmod /lib/modules/ample_hostile.ko
expect "confined after boot" confined
dd if=/dev/vda of=/dev/null bs=1M count=64 2>/dev/null
expect "confined with 64 MB of the device cached" confined
expect "the cache lies below the border" \
	[ $(sed 's/.*unmovable_below_border_pages": \([0-9]*\).*/\1/' /tmp/owner) -gt 16384 ]
echo 1 > /proc/sys/vm/compact_memory
expect "confined after compaction" confined
now=$(cat $ctg/node0/unmovable_bytes)
expect "the region shrinks" \
	sh -c "echo $((now - 33554432)) > /sys/kernel/debug/contiguitas/node0"
expect "confined after the shrink" confined
counters counters
