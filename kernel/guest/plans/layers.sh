# SPDX-License-Identifier: GPL-2.0-only
# Kernel and allocator under one service: redis in memory that the fragmenter has been through for
# ample.rounds= (8) rounds, under glibc's malloc, under ours, and under ours without its sight of
# native pages, in an order that the seed turns. ample.keys= (60000) values of each of three sizes
# are set while another program and page cache hold most of what is left, and a quarter replaced by
# another size. Then that program ends, and a minute of light load follows. Boot with one CPU and
# -icount: then an instruction takes a nanosecond, whatever the host does.
. /lib/workloads.sh
disk
prepare_workload
keys=${keys:-60000}
ours=/usr/lib/libample_malloc.so
bench="redis-benchmark -q -p 6400 -r $keys"

# value BYTES: so many
value() { head -c $1 /dev/zero | tr '\0' x; }

# sets BYTES COUNT: that many values of that size under names that share it, in batches
sets() { $bench -n $2 -P 32 set "$1:__rand_int__" "$(value ${3:-$1})" > /dev/null; }

# rate COMMAND...: requests per second of one client each, without batches
rate() { $bench -n 8000 "$@" | tr '\r' '\n' |
	awk '/requests per second/ { n = $(NF - 5) } END { print n + 0 }'; }

# state NAME MALLOC: the server's memory and speed, and what the kernel counted since it began
state() {
	set -- $1 $2 $(rate set 60:__rand_int__ "$(value 60)") $(rate get 600:__rand_int__)
	emit $1 "\"malloc\": \"$2\", \"set_per_s\": $3, \"get_per_s\": $4, $(awk '
		$1 == "Rss:" { rss = $2 } $1 == "AnonHugePages:" { huge = $2 }
		END { print "\"rss_kib\": " rss ", \"huge_kib\": " huge }' /proc/$server/smaps_rollup), \
		\"thp_faults\": $(($(vmstat thp_fault_alloc) - faults)), \
		\"thp_fallbacks\": $(($(vmstat thp_fault_fallback) - fallbacks)), \
		\"collapses\": $(($(vmstat thp_collapse_alloc) - collapses)), \
		\"compact_stalls\": $(($(vmstat compact_stall) - stalls)), \
		\"uptime_s\": $(cut -d' ' -f1 /proc/uptime)"
}

# serve NAME PRELOAD OPTIONS: the service under one allocator
serve() {
	hog 35
	load cache /mnt/big $((total * 25 / 100)) > /dev/null
	sync
	faults=$(vmstat thp_fault_alloc) fallbacks=$(vmstat thp_fault_fallback)
	collapses=$(vmstat thp_collapse_alloc) stalls=$(vmstat compact_stall)
	AMPLE_MALLOC=$3 LD_PRELOAD=$2 redis-server --save '' --port 6400 --disable-thp no \
		--dir /tmp > /tmp/redis.log & server=$!
	sleep 1
	for bytes in 60 600 2400; do sets $bytes $keys; done
	sets 600 $((keys / 4)) 1500
	state full $1
	kill_hogs
	hogs=
	for part in $(seq 20); do
		sleep 3
		sets 600 1000 1500
	done
	state later $1
	kill $server
	wait
	[ ! -s /tmp/stats ] || emit stats "\"malloc\": \"$1\", \"value\": $(cat /tmp/stats)"
	rm -f /tmp/stats /mnt/big
}

# the seed shifts what each round takes
fragment ${rounds:-8} $((9 + seed % 3)) 30
contiguity fragmented
set -- glibc ours blind
turn=$((seed % 3))
while [ $turn -gt 0 ]; do set -- $2 $3 $1; turn=$((turn - 1)); done
for name; do
	case $name in
	glibc) serve glibc /lib/x86_64-linux-gnu/libc.so.6 '' ;;
	ours) serve ours $ours background=1,stats=json,stats_to=/tmp/stats ;;
	blind) serve blind $ours background=1,contiguity=0,stats=json,stats_to=/tmp/stats ;;
	esac
done
contiguity after
counters counters
