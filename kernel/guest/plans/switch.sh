# SPDX-License-Identifier: GPL-2.0-only
# Confinement turned on while the machine runs and all its memory is in use, after a load that has
# scattered unmovable pages; off, and on again. What cannot be moved is told, nothing unmovable
# comes to lie above the border any more, and what is movable below goes home. Boot with
# page_owner=on and without contiguitas=.
disk
mkdir -p /mnt/t
switch=$ctg/enabled
expect "the feature is off" [ "$(cat $switch)" = 0 -a ! -d $ctg/node0 ]

# turn 0|1: that written to the file, and how long it took
turn() {
	start=$(cut -d' ' -f1 /proc/uptime)
	expect "enabled takes $1" sh -c "echo $1 > $switch"
	ms=$(awk -v a=$start '{ print int(1000 * ($1 - a)) }' /proc/uptime)
	emit turned "\"to\": $1, \"ms\": $ms, \"enabled\": $(cat $switch)"
	dmesg | grep contiguitas: | tail -2 | sed 's/^/@@ note /'
}

above_kib() { echo $(($(cat $ctg/node0/unmovable_above_bytes) / 1024)); }
# what the files and kpf say
told() {
	emit "$1" "\"region_mib\": $(region_mib), \"free_mib\": $(region_mib unmovable_free_bytes), \
		\"above_kib\": $(above_kib), \"movable_below_pages\": $(kpf_field \
		below_border_movable_pages)"
}

fragment_begin 5 30 ${user:-75}
fragment_round
result before kpf 0
turn 1
expect "the node has its files" [ -d $ctg/node0 ]
told on_full
extfrag_on
since=$(marked)
load churn /mnt/t ${files:-300} 2 ${seed:-1} > /dev/null &
load fork 20 16
wait $!
echo $((total * 4 / 100)) > $hostile/fragment
echo 8 > $hostile/storm
result load cat $hostile/stats
expect "confined since then" confined since=$since
expect "no fallback crossed the border" uncrossed

fragment_end
echo 1 > $hostile/release
rm -rf /mnt/t
sync
sleep ${idle:-20}
told on_idle
# by what was asked for: the cache of the disk lies below and could be moved
owner "$(borders)" < /sys/kernel/debug/page_owner > /tmp/owner 2>/dev/null
expect "what is movable went home, or 1 MB is left" \
	at_most 256 $(sed 's/.*"movable_below_border_pages": \([0-9]*\).*/\1/' /tmp/owner)

turn 0
expect "the node's files are gone" [ ! -d $ctg/node0 ]
echo 0 > /sys/kernel/tracing/tracing_on
echo $((total / 3)) > $hostile/hold
echo 1 > $hostile/release
turn 1
told on_again
extfrag_on
since=$(marked)
load fork 20 16
echo 32 > $hostile/hold
expect "confined since it is on again" confined since=$since
expect "no fallback crossed it then" uncrossed
sh /lib/border.sh > /tmp/border || failed=1
sed 's/^/@@ note /' /tmp/border
expect "the kselftest passes" [ -z "$failed" ]
counters counters
