# SPDX-License-Identifier: GPL-2.0-only
# User memory takes all there is, the last of it below the border, until one program is killed. What
# the other one still has below the border goes home, and atomic requests find their reserve.
insmod /lib/modules/ample_hostile.ko
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
load hog $((total * 50 / 100)) 3600 > /tmp/first &
first=$!
while ! [ -s /tmp/first ]; do sleep 0.2; done
load hog $((total * 48 / 100)) 3600 > /tmp/second &
second=$!
while ! [ -s /tmp/second ] && kill -0 $second 2>/dev/null; do sleep 0.2; done
below=$(kpf_field below_border_movable_pages)
echo 4 > $hostile/storm
result storm_4 cat $hostile/stats
emit lodgers "\"region_mib\": $(region_mib), \"oom_kills\": $(vmstat oom_kill), \
	\"lent\": $(vmstat contiguitas_lend | sed 's/^$/0/'), \"movable_below_pages\": $below"
# some of the first program's memory goes: there is room above now
kill $second 2>/dev/null
wait $second 2>/dev/null
load fork 1 $((total * 30 / 100))
sleep ${idle:-30}
left=$(kpf_field below_border_movable_pages)
emit lodgers_home "\"movable_below_pages\": $left, \"region_mib\": $(region_mib)"
expect "they are at home" at_most 256 $left
counters counters
kill $first
