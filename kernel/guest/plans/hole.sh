# SPDX-License-Identifier: GPL-2.0-only
# The border lies right below the hole for devices: growth, and claims of requests that cannot wait,
# go on behind it, and no size counts it. Boot with 6 GB and contiguitas=2944M: 128 MB below the
# hole are left.
insmod /lib/modules/ample_hostile.ko
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
echo $((total * 90 / 100))M > $ctg/node0/max_bytes
before=$(region_mib) at=$(border)
trigger=/sys/kernel/debug/contiguitas/node0
expect "the border grows up to the hole" sh -c "echo '3221225472' > $trigger"
expect "and lies behind it" [ $(border) = 1048576 ]
expect "it comes back" sh -c "echo '$((before * 1048576))' > $trigger"
expect "to where it was" [ $(border) = $at ]
free=$(region_mib unmovable_free_bytes)
# atomic requests for what the region has, what is left below the hole, and 256 MB more
echo $((free + 384)) > $hostile/storm
result storm cat $hostile/stats
emit hole "\"region_before_mib\": $before, \"region_mib\": $(region_mib), \
	\"border_before_mib\": $((at / 256)), \"border_mib\": $(($(border) / 256)), \
	\"region_free_mib\": $(region_mib unmovable_free_bytes)"
failed=$(sed 's/.*"storm_failed": \([0-9]*\).*/\1/' $hostile/stats)
expect "few requests fail while the resizer takes the border over the hole" at_most 32768 $failed
expect "the border is behind the hole" [ $(border) -gt 1048576 ]
echo $((total * 75 / 100)) > $hostile/hold
emit hole_held "\"region_mib\": $(region_mib), \"border_mib\": $(($(border) / 256)), \
	\"region_free_mib\": $(region_mib unmovable_free_bytes)"
expect "the region goes on behind the hole" [ $(border) -gt 1048576 ]
expect "no size counts the hole" at_most $total $(region_mib)
result kpf kpf $(border)
counters counters
