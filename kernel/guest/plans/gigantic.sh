# SPDX-License-Identifier: GPL-2.0-only
# A 1 GB page in use lies where it does not stand in the way of the region. Boot with contiguitas=1G
# and 3400M: one zone, of which two whole GB lie above. Runs on either kernel.
insmod /lib/modules/ample_hostile.ko
echo 1 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
got=$(cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages)
before=$(region_mib)
echo 1200 > $hostile/hold
result held cat $hostile/stats
now=$(region_mib)
emit gigantic "\"huge_pages\": $got, \"region_before_mib\": $before, \"region_mib\": $now, \
	\"swallowed\": $(vmstat contiguitas_swallow | sed 's/^$/0/')"
counters counters
expect "a 1 GB page was had" [ "$got" = 1 ]
expect "the region grew by what the kernel took, and an eighth" at_most $((before + 1350)) $now
