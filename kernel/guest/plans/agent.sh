# SPDX-License-Identifier: GPL-2.0-only
# `ample agent` as it runs on a host: on loopback, beside a load that moves the border, fails to
# move it back and waits for memory. What it exports has to be what the kernel's files say. Boot
# with contiguitas=on. It looks at the border each minute, so the plan takes three.
if ! command -v ample > /dev/null; then
	echo "@@ FAIL no ample in the guest: cargo build --release -p ample-cli first"
	return
fi
disk
node=$ctg/node0
page=http://127.0.0.1:9105/metrics

# wait_for COMMAND...: until it succeeds, two minutes at most
wait_for() {
	tries=0
	until "$@"; do
		[ $((tries += 1)) -le 120 ] || return 1
		sleep 1
	done
}
# scrape: the page into /tmp/page
scrape() { wget -q -O /tmp/page $page 2> /dev/null; }
# exported FAMILY [LABELS]: that sample as a whole number
exported() {
	awk -v name="ample_$1${2:+{$2\}}" '$1 == name { printf "%.0f\n", $2; exit }' /tmp/page
}
# looked: the agent has looked at the border since /tmp/before was scraped
looked() {
	scrape && [ "$(exported agent_cpu_seconds_total)" ] &&
		[ "$(grep ^ample_agent_cpu /tmp/page)" != "$(grep ^ample_agent_cpu /tmp/before)" ]
}
look() { scrape; cp /tmp/page /tmp/before; wait_for looked; }
# agrees WHEN: border, sizes and each counter of the border, at rest, are those of the kernel
agrees() {
	wrong=
	[ "$(exported contiguitas_border_bytes 'node="0"')" = $(($(cat $node/border_pfn) * 4096)) ] ||
		wrong="$wrong border"
	for file in unmovable_bytes min_bytes max_bytes; do
		[ "$(exported contiguitas_$file 'node="0"')" = "$(cat $node/$file)" ] ||
			wrong="$wrong $file"
	done
	for event in $(sed -n 's/^contiguitas_\([a-z_]*\) .*/\1/p' /proc/vmstat); do
		[ "$(exported contiguitas_events_total "event=\"$event\"")" = \
			"$(vmstat contiguitas_$event)" ] || wrong="$wrong $event"
	done
	[ -z "$wrong" ] || echo "@@ note $1: not equal:$wrong"
	emit "$1" "\"border_bytes\": $(exported contiguitas_border_bytes 'node="0"'), \
		\"resizes\": $(exported contiguitas_events_total 'event="resize"'), \
		\"failures\": $(exported contiguitas_events_total 'event="resize_fail"')"
	[ -z "$wrong" ]
}

ample agent --spool /tmp/spool --listen 9105 --every 5m --role guest 2> /tmp/agent.err &
agent=$!
expect "it has scanned within two minutes" wait_for \
	sh -c "wget -q -O - $page 2> /dev/null | grep -q '^ample_agent_scans_total 1'"
look
expect "border, sizes and events of a guest at rest are the kernel's" agrees rest

# pages that stay in each block: the border goes up for them and cannot come back
insmod /lib/modules/ample_hostile.ko 2> /dev/null
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
start=$(cat $node/unmovable_bytes) made=$(exported contiguitas_events_total 'event="resize"')
echo $((total / 4)) > $hostile/fragment
expect "the border does not come back over pages in use" \
	sh -c "! echo $start 2> /dev/null > /sys/kernel/debug/contiguitas/node0"
sleep 5
look
expect "border, sizes and events are the kernel's after it has moved" agrees moved
expect "it exports resizes" [ $(exported contiguitas_events_total 'event="resize"') -gt $made ]
expect "it exports failures" [ $(exported contiguitas_events_total 'event="resize_fail"') -gt 0 ]

# user memory and page cache that do not fit together, until it has looked once more
load hog $((total * 55 / 100)) 3600 > /dev/null &
hog=$!
while :; do load cache /mnt/cache $((total / 2)) > /dev/null; done &
cache=$!
load stall > /tmp/stall &
stall=$!
sleep 20
look
pressure=$(awk '/^ample_contiguitas_pressure_ratio\{node="0",side="movable"\}/ { print $2 }' \
	/tmp/page)
kill $cache $stall $hog
wait $hog $stall 2> /dev/null
emit pressure "\"movable\": ${pressure:-null}, \"kernel_bp\": $(cat $node/pressure_movable_bp)"
expect "it exports pressure of the movable side" \
	awk -v p=${pressure:-0} 'BEGIN { exit !(p > 0 && p <= 1) }'

echo 1 > $hostile/release
seconds=$(exported agent_cpu_seconds_total) peak=$(awk '/VmHWM/ { print $2 }' /proc/$agent/status)
kill $agent
wait $agent
emit agent "\"status\": $?, \"spool_files\": $(ls /tmp/spool/*.parquet | wc -l), \
	\"cpu_seconds\": ${seconds:-null}, \"peak_kib\": ${peak:-null}, \
	\"uptime_s\": $(cut -d. -f1 /proc/uptime)"
expect "at most 64 MiB" [ $peak -le 65536 ]
expect "its scan is in the spool" [ "$(ls /tmp/spool/*.parquet | wc -l)" -ge 1 ]
sed 's/^/@@ note agent: /' /tmp/agent.err
counters counters
