# SPDX-License-Identifier: GPL-2.0-only
# User memory up to the OOM killer. What is free below the border is lent before anybody is killed,
# and a page that is lent must not cost round after round of reclaim that has nothing to free. A
# kill on stock (without a border) takes some 430 direct reclaims.
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
stalls() { awk '/^allocstall_/ { n += $2 } END { print n }' /proc/vmstat; }
for share in 88 92 96; do
	reclaims=$(stalls) lent=$(vmstat contiguitas_lend) kills=$(vmstat oom_kill)
	start=$(cut -d' ' -f1 /proc/uptime)
	load hog $((total * share / 200)) 3600 > /dev/null &
	first=$!
	load hog $((total * share / 200)) 3600 > /tmp/second &
	second=$!
	while ! [ -s /tmp/second ] && kill -0 $second 2>/dev/null; do sleep 0.2; done
	seconds=$(awk -v s=$start '{ print $1 - s }' /proc/uptime)
	reclaims=$(($(stalls) - reclaims)) lent=$(($(vmstat contiguitas_lend) - lent))
	emit tight "\"user_percent\": $share, \"seconds\": $seconds, \
		\"direct_reclaims\": $reclaims, \"lent_pages\": $lent, \
		\"oom_kills\": $(($(vmstat oom_kill) - kills)), \"region_mib\": $(region_mib)"
	expect "at most three direct reclaims a lent page" [ $reclaims -le $((3 * lent + 1000)) ]
	kill $first $second 2>/dev/null
	wait 2>/dev/null
	rm /tmp/second
	sleep 2
done
counters counters
