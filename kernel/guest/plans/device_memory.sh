# SPDX-License-Identifier: GPL-2.0-only
# A node whose only memory is that of a device, which the kernel takes over after boot: requests
# that cannot wait find their way. Boot with --device-mib. Runs on either kernel.
insmod /lib/modules/ample_hostile.ko
echo "@@ note nodes with memory at boot: $(dmesg | grep -c 'Initmem setup node')"
for block in /sys/devices/system/memory/memory*; do
	[ $(cat $block/state) = online ] || echo online_kernel > $block/state
done
nodes=$(cat /sys/devices/system/node/has_memory)
expect "the second node has memory" [ "$nodes" = 0-1 ]
# the tasklet runs where it was scheduled: on the CPU of the second node
taskset 2 sh -c "echo 256 > $hostile/storm"
result storm cat $hostile/stats
taskset 2 sh -c "echo 64 > $hostile/hold"
result held cat $hostile/stats
taskset 2 load fork 10 32
emit device_memory "\"nodes\": \"$nodes\", $(stall_counts)"
