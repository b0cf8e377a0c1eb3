# SPDX-License-Identifier: GPL-2.0-only
# The clients of the plan traffic, on a machine of their own: in each round, when told to,
# memcslap, ab, redis-benchmark and streams at once, always the same work; then what was served.
. /lib/workloads.sh
server=10.0.0.1
ip addr add 10.0.0.2/24 dev eth0
ip link set eth0 up
scale=${scale:-2}

# told: the next line of the server's, which may not listen yet
told() {
	line=
	while [ -z "$line" ]; do
		line=$(nc -w 2 $server 9001 < /dev/null 2> /dev/null)
		[ -n "$line" ] || sleep 1
	done
	echo "$line"
}

# fetch: files of all sizes from nginx
fetch() {
	for part in 1 2 3 4 5 6 7 8; do
		ab -q -k -n $((20 * scale)) -c 16 http://$server/$(((seed * 7 + part * 31) % (400 * scale)))
	done
}

while line=$(told) && [ "$line" != stop ]; do
	seed=${line#go }
	echo "@@ note $line at $(cut -d' ' -f1 /proc/uptime) s"
	begun=$(cut -d' ' -f1 /proc/uptime)
	memcslap --servers=$server --concurrency=16 --execute-number=$((100 * scale)) \
		--initial-load=$((1000 * scale)) > /tmp/memcslap.log 2>&1 & a=$!
	fetch > /tmp/ab.log 2>&1 & b=$!
	redis-benchmark -h $server -q -n $((600 * scale)) -c 32 -d 4000 -r 20000 -t set,get,lpush \
		> /tmp/rb.log 2>&1 & c=$!
	stream load $server 9100 $((120 * scale)) 1024 $seed > /tmp/stream.log & d=$!
	wait $a $b $c
	quick=$(cut -d' ' -f1 /proc/uptime)
	wait $d || echo "@@ FAIL a byte that was read is wrong: $(cat /tmp/stream.log)"
	seconds=$(awk -v a=$begun '{ print $1 - a }' /proc/uptime)
	emit served "\"seconds\": $seconds, \"requests_s\": $(awk -v a=$begun -v b=$quick \
		'BEGIN { print b - a }'), \
		\"http_s\": $(awk '/Time taken for tests/ { s += $5 } END { print s + 0 }' /tmp/ab.log), \
		\"http_failed\": $(awk '/Failed requests/ { n += $3 } END { print n + 0 }' /tmp/ab.log), \
		\"redis_per_s\": [$(sed -n 's/.*: \([0-9.]*\) requests per second.*/\1/p' /tmp/rb.log |
			paste -sd ,)], \"streams\": $(cat /tmp/stream.log)" | sed 's/^@@ //' > /tmp/report
	until nc $server 9002 < /tmp/report; do sleep 1; done
done
