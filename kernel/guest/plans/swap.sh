# SPDX-License-Identifier: GPL-2.0-only
# User memory beyond what there is goes to swap, some of it from and to room that was lent below the
# border: folios of the swap cache go home as others do, also while the swap is turned off and the
# border moves. Boot with --raw N for the swap, small enough to be full. Runs on either kernel.
insmod /lib/modules/ample_hostile.ko
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
mkswap /dev/vda > /dev/null && swapon /dev/vda
swap=$(awk 'NR == 2 { print int($3 / 1024) }' /proc/swaps)
expect "there is swap" grep -q /dev/vda /proc/swaps
load hog $((total * 75 / 100)) 3600 > /tmp/first &
first=$!
echo -1000 > /proc/$first/oom_score_adj
while ! [ -s /tmp/first ]; do sleep 0.2; done
load hog $((total / 4 + 96 + swap)) 3600 > /tmp/second &
second=$!
while ! [ -s /tmp/second ] && kill -0 $second; do sleep 0.2; done
load stall > /tmp/stall & stall=$!
sleep 10
emit swap_full "\"region_mib\": $(region_mib), \
	\"lent\": $(vmstat contiguitas_lend | sed 's/^$/0/'), \
	\"movable_below_pages\": $(kpf_field below_border_movable_pages), \
	\"swapped_out_pages\": $(vmstat pswpout), \"swapped_in_pages\": $(vmstat pswpin)"
kill $second $stall
wait $second $stall 2>/dev/null
# what comes back in stays in the swap cache, some of it where room was lent
swapoff -a & off=$!
if [ -d $ctg/node0 ]; then
	for i in 1 2 3 4 5 6; do
		now=$(cat $ctg/node0/unmovable_bytes)
		echo $((now + 16777216)) > /sys/kernel/debug/contiguitas/node0 2>/dev/null
		echo $now > /sys/kernel/debug/contiguitas/node0 2>/dev/null
	done
fi
wait $off
pressure=$(cat $ctg/node0/pressure_movable_bp 2>/dev/null || echo 0)
sleep ${idle:-30}
left=$(kpf_field below_border_movable_pages)
emit swap_off "\"region_mib\": $(region_mib), \"movable_below_pages\": $left, \
	\"pressure_total_us\": $(sed -n 's/some.*total=//p' /proc/pressure/memory), \
	\"movable_pressure_bp\": $pressure"
counters counters
expect "nine of ten lodgers went home, or 1 MB is left" at_most 256 $left
kill $first
