# SPDX-License-Identifier: GPL-2.0-only
# A workload of workloads.sh, round after round, until the blocks that it has spoiled are no more
# than 2 % above those of four rounds before, ample.rounds_max= at most; then what is left when the
# load has gone, ample.idle= seconds later, and without the pages that the hostile module keeps.
. /lib/workloads.sh
disk
prepare_workload
insmod /lib/modules/ample_hostile.ko
round_nr=0 curve=

# left NAME: blocks, pages and region now
left() {
	settle
	kpf $(border) > /tmp/kpf
	spoiled=$(sed 's/.*order9": {"blocks": [0-9]*, "unmovable_blocks": \([0-9]*\).*/\1/' /tmp/kpf)
	result "$1" cat /tmp/kpf
	emit "$1_state" "\"round\": $round_nr, \"uptime_s\": $(cut -d' ' -f1 /proc/uptime), \
		\"spoiled\": $spoiled, \"region_mib\": $(region_mib), \
		\"region_free_mib\": $(region_mib unmovable_free_bytes), $(stall_counts)"
}

# grows: is the last figure of $curve more than 2 % above that of four rounds before?
grows() {
	echo $curve | awk -v least=${rounds_min:-8} \
		'{ exit !(NF < least || $NF * 100 > $(NF - 4) * 102) }'
}

left begin
begin_rounds
while [ $round_nr -lt ${rounds_max:-30} ] && grows; do
	one_round
	round_nr=$((round_nr + 1))
	left round
	curve="$curve $spoiled"
done
end_rounds
counters counters
left gone
sleep ${idle:-600}
left idle
echo 1 > $hostile/release
sleep ${idle:-600}
left released
[ $(border) = 0 ] || expect "nothing unmovable lies above the border" \
	at_most 0 $(sed 's/.*above_border_unmovable_pages": \([0-9]*\).*/\1/' /tmp/kpf)
