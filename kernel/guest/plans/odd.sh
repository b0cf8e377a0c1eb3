# SPDX-License-Identifier: GPL-2.0-only
# A machine that is not a plain one: memory set aside, holes, hotplug, zones of other parameters.
# The feature adapts: it is on, confines, and the border moves. Where it declines: bad_parameter.
# Boot with page_owner=on.
dmesg | grep contiguitas: | sed 's/^/@@ note /'
dmesg | grep -iE 'cma: |crashkernel|movable zone|Movable zone|user-defined' | head -8 |
	sed 's/^/@@ note /'
grep -E 'System RAM|Crash kernel|Kernel code' /proc/iomem | sed 's/^/@@ note iomem: /'
expect "the feature is on" [ -d $ctg/node0 ]
expect "nothing says that it is off" sh -c '! dmesg | grep -q "contiguitas: .*off"'
expect "confined after boot" confined
load fork 10 16
now=$(cat $ctg/node0/unmovable_bytes)
trigger=/sys/kernel/debug/contiguitas/node0
expect "the border grows" sh -c "echo '$((now + 16777216))' > $trigger"
expect "confined after growth" confined
sh -c "echo '$now' > $trigger" || echo "@@ note it does not come back"
expect "confined at the end" confined
result thp load thp 32
contiguity end
counters counters
