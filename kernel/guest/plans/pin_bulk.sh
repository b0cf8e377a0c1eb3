# SPDX-License-Identifier: GPL-2.0-only
# A service that pins a share of memory at its start (RDMA, a GPU, io_uring): the region has to grow
# by what is pinned and not by much more. Whoever pins has isolated most pages while he waits for
# the border: where the resizer waited for that in turn, pinning a quarter of memory took a minute.
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
mib=${mib:-$((total / 4))}
region() {
	resizes=$(vmstat contiguitas_resize)
	emit "$1" "\"region_mib\": $(region_mib), \"free_mib\": $(region_mib unmovable_free_bytes), \
		\"resizes\": ${resizes:-null}"
}
for round in 1 2 3; do
	region before_$round
	most=$(region_mib)
	used=$((most - $(region_mib unmovable_free_bytes)))
	pins bulk $mib 12 > /tmp/pinned &
	pinned=$!
	while kill -0 $pinned 2> /dev/null; do
		now=$(region_mib)
		[ $now -le $most ] || most=$now
		[ -s /tmp/pinned ] && [ -z "$held" ] && held=1 && region held_$round
		sleep 0.1
	done
	result pin_$round cat /tmp/pinned
	region released_$round
	held=
	sleep 20
	region after_$round
	[ ! -d $ctg/node0 ] || result block_$round border_block
	emit most_$round "\"most_mib\": $most, \"pinned_mib\": $mib, \"used_before_mib\": $used"
	expect "it is pinned" [ -s /tmp/pinned ]
	ms=$(sed 's/.*"ms": \([0-9]*\).*/\1/' /tmp/pinned)
	# emulated on a busy host: up to 22 s were seen, and 54 s at least where the two waited
	expect "in less than 40 s" at_most 40000 ${ms:-99999}
	expect "the region has what is pinned, what it had, and 32 MiB at most" \
		at_most $((used + mib + 32)) $most
done
counters counters
