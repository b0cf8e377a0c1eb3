# SPDX-License-Identifier: GPL-2.0-only
# Helpers for the plans.

ctg=/sys/kernel/mm/contiguitas
hostile=/sys/kernel/debug/ample_hostile

# emit NAME JSON-FIELDS: one result object
emit() { echo "@@ {\"what\": \"$1\", $2}"; }

# result NAME COMMAND...: the command prints one JSON object
result() {
	name=$1; shift
	out=$("$@" 2>/tmp/err) || true
	echo "@@ {\"what\": \"$name\", \"value\": ${out:-null}}"
	sed "s/^/@@ note $name: /" /tmp/err
}

# The first movable pfn, or 0 where there is no border.
border() { cat $ctg/node0/border_pfn 2>/dev/null || echo 0; }

# BASE:BORDER of each node, as owner takes them; 0 where there is no border
borders() {
	[ -d $ctg/node0 ] || { echo 0; return; }
	for node in $ctg/node*; do
		at=$(cat $node/border_pfn)
		echo "$((at - $(cat $node/unmovable_bytes) / 4096)):$at"
	done | tr '\n' , | sed 's/,$//'
}

vmstat() { awk -v k="$1" '$1 == k { print $2 }' /proc/vmstat; }

# counters NAME: what the kernel counted so far
counted="^(contiguitas|thp_fault|oom_kill|compact_(stall|fail|success)|allocstall|pgmigrate"
counted="$counted|pgscan_direct |pgscan_kswapd |pgfault |pswp|htlb)"
counters() {
	emit "$1" "$(awk -v counted="$counted" '$0 ~ counted {
		printf "%s\"%s\": %s", sep, $1, $2; sep = ", " }' /proc/vmstat)"
}

# Free pages on per-CPU lists look allocated: have the lists drained.
settle() {
	insmod /lib/modules/ample_hostile.ko 2>/dev/null
	sync
	echo 0x1000000 > $hostile/drain
}

# contiguity NAME: the metrics now
contiguity() { settle; result "$1" kpf "$(border)"; }

extfrag_on() {
	tr=/sys/kernel/tracing
	echo 1 > $tr/events/kmem/mm_page_alloc_extfrag/enable
	echo 0 > $tr/tracing_on; echo > $tr/trace; echo 1 > $tr/tracing_on
}

# trace_pages KIB EVENT...: these events of kmem, not yet on, into an empty buffer of KIB a CPU
trace_pages() {
	tr=/sys/kernel/tracing
	echo 0 > $tr/tracing_on
	echo mono > $tr/trace_clock
	echo $1 > $tr/buffer_size_kb
	shift
	for e; do echo 1 > $tr/events/kmem/$e/enable; done
	echo > $tr/trace
}

# traced: how many events there are, and that none was lost
traced() {
	lost=$(awk '/overrun|dropped/ { s += $NF } END { print s }' $tr/per_cpu/cpu*/stats)
	events=$(awk '/^entries/ { s += $NF } END { print s }' $tr/per_cpu/cpu*/stats)
	emit trace "\"workload\": \"$workload\", \"seed\": ${seed:-1}, \"events\": $events, \
		\"lost\": $lost"
	expect "no event was lost" [ "$lost" = 0 ]
}

# extfrag_crossing: events where exactly one of the two types is movable (1)
extfrag_crossing() {
	awk '/mm_page_alloc_extfrag/ {
		match($0, /alloc_migratetype=[0-9]+/); a = substr($0, RSTART + 18, RLENGTH - 18)
		match($0, /fallback_migratetype=[0-9]+/); f = substr($0, RSTART + 21, RLENGTH - 21)
		n++; if ((a == 1) != (f == 1)) c++ }
		END { printf "{\"extfrag_events\": %d, \"crossing_events\": %d}\n", n, c }' \
		/sys/kernel/tracing/trace
}

# await PORT: until somebody listens there, half a minute at most
await() {
	tries=0
	while [ $tries -lt 150 ] && ! netstat -ltn 2> /dev/null | grep -q ":$1 "; do
		sleep 0.2; tries=$((tries + 1))
	done
}

# huge_1g: ask for as many 1 GB pages as memory could hold; give them back
huge_1g() {
	[ -d /sys/kernel/mm/hugepages/hugepages-1048576kB ] || { echo null; return; }
	load gigantic "$(awk '/MemTotal/ { print int($2 / 1048576) }' /proc/meminfo)"
}

# huge_2m: the same with 2 MB pages for half of the free memory
huge_2m() {
	f=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
	want=$(awk '/MemAvailable/ { print int($2 / 4096) }' /proc/meminfo)
	echo "$want" > $f
	got=$(cat $f)
	echo 0 > $f
	echo "{\"want\": $want, \"got\": $got}"
}

# raw: the disk of the plan's own; which of two is vda depends on the emulator
raw() { for d in /sys/block/vd*; do [ "$(cat $d/serial)" = raw ] && echo /dev/${d##*/}; done; }

# disk: an empty ext4 on the other virtio disk, mounted on /mnt
disk() {
	for d in /dev/vd?; do
		[ "$d" = "$(raw)" ] || mount -t ext4 $d /mnt || echo "@@ FAIL no disk on /mnt: $d"
	done
}

# hog PERCENT: start a hog of that share of memory, return when it holds it; $hogs has PID:PERCENT
hog() {
	rm -f /tmp/hog
	load hog $((total * $1 / 100)) 3600 > /tmp/hog &
	hogs="$hogs $!:$1"
	while ! [ -s /tmp/hog ] && kill -0 $! 2>/dev/null; do sleep 0.2; done
}

kill_hogs() { for h in $hogs; do kill ${h%:*}; done 2>/dev/null; }

# The hostile fragmenter: begun with KERNEL, HOG and USER (78) in percent of memory, any number of
# rounds, ended. Hogs of HOG, USER in all, and page cache (of a file on /mnt, where a disk is) fill
# what was free; then, each round, one hog goes, the kernel takes KERNEL and leaves two pages in
# each block it got, and a hog comes back: stock Linux must break into new blocks every round.
fragment_begin() {
	insmod /lib/modules/ample_hostile.ko 2>/dev/null
	total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
	kernel=$1 each=$2 user=${3:-78} round=0 held=0
	while [ $held -lt $user ]; do
		hog $((each < user - held ? each : user - held))
		held=$((held + each))
	done
	! grep -q ' /mnt ' /proc/mounts || load cache /mnt/fill $((total * 30 / 100)) > /dev/null
}

fragment_round() {
	set -- $hogs
	kill ${1%:*}; wait ${1%:*} 2>/dev/null
	gone=${1#*:}
	shift; hogs="$*"
	echo $((total * kernel / 100)) > $hostile/fragment
	# as large as the one that went: user memory stays at USER
	hog $gone
	[ $((round * each % 30)) = 0 ] && [ -e /mnt/fill ] && cat /mnt/fill > /dev/null
	round=$((round + 1))
	echo "@@ note round $round at $(cut -d' ' -f1 /proc/uptime) s," \
		"region $(region_mib) MiB, free in it $(region_mib unmovable_free_bytes)," \
		"swallowed $(vmstat contiguitas_swallow), $(cat $hostile/stats)"
}

fragment_end() {
	kill_hogs
	wait 2>/dev/null
	hogs=
}

# fragment ROUNDS KERNEL HOG [USER]
fragment() {
	rounds=$1; shift
	fragment_begin "$@"
	while [ $round -lt $rounds ]; do fragment_round; done
	fragment_end
}

# region_mib [FILE]: size of the unmovable region, or that file of it; 0 where there is none
region_mib() { echo $(($(cat $ctg/node0/${1:-unmovable_bytes} 2>/dev/null || echo 0) / 1048576)); }

# rested: wait until the border has not moved for three of the resizer's reviews, 30 s at most
rested() {
	still=0 turn=0 size=$(region_mib)
	while [ $still -lt 3 ] && [ $turn -lt 30 ]; do
		sleep 1
		now=$(region_mib) turn=$((turn + 1))
		if [ $now = $size ]; then still=$((still + 1)); else still=0; fi
		size=$now
	done
}

# expect TEXT COMMAND...: a test of the plan; a failure makes the run fail
expect() {
	text=$1; shift
	if "$@"; then echo "@@ ok $text"; else echo "@@ FAIL $text: $*"; fi
}

# marked: the time now as page_owner tells it, in ns
marked() {
	echo Y > /sys/module/printk/parameters/time
	echo "ample mark" > /dev/kmsg
	dmesg | sed -n 's/^.*\[ *\([0-9]*\)\.\([0-9]*\)\] ample mark.*/\1\2000/p' | tail -1
}

# confined [FUNCTION|since=NS]: no unmovable page above the border, by page_owner, and none that
# FUNCTION allocated; of those since then. Reading that takes seconds; if the border has moved
# meanwhile, pages above its old place prove nothing, and it is read again.
confined() {
	for try in 1 2 3 4 5; do
		at=$(borders)
		owner "$at" "$@" < /sys/kernel/debug/page_owner > /tmp/owner 2>/tmp/err
		status=$?
		[ $status != 0 ] && [ "$at" != "$(borders)" ] || break
	done
	echo "@@ {\"what\": \"owner\", \"value\": $(cat /tmp/owner)}"
	sed 's/^/@@ note owner: /' /tmp/err
	return $status
}

# kpf_field NAME: that number of kpf now
kpf_field() { settle; kpf $(border) | sed "s/.*\"$1\": \([0-9]*\).*/\1/"; }

# stacks_after SECONDS: in the background, where each task is then, for a plan that may hang
stacks_after() {
	(sleep $1
	for task in /proc/[0-9]*; do
		echo "@@ note $(cat $task/comm): $(tr '\n' ' ' < $task/stack)"
	done 2> /dev/null) &
}

# asked KIND ORDER N: what the module got of that, and the longest wait in ms in $longest_ms
asked() {
	echo "$*" > $hostile/ask
	set -- $1 $2 $(sed 's/.*asked_got": \([0-9]*\), "asked_longest_ns": \([0-9]*\)}/\1 \2/' \
		$hostile/stats)
	longest_ms=$(($4 / 1000000))
	emit asked "\"kind\": \"$1\", \"order\": $2, \"got\": $3, \"longest_ms\": $longest_ms, \
		\"region_mib\": $(region_mib)"
}

# at_most LIMIT NUMBER
at_most() { [ "$2" -le "$1" ]; }

# stall_counts: direct reclaims of movable requests and of the others so far
stall_counts() { awk '/^allocstall_movable/ { m = $2 } /^allocstall_[dn]/ { n += $2 }
	END { print "\"movable_stalls\": " m ", \"other_stalls\": " n }' /proc/vmstat; }

# thp_share MIB: percent of MIB that huge pages could be had for
thp_share() { load thp $1 | sed 's/[^0-9]*\([0-9]*\)[^0-9]*\([0-9]*\).*/\1 \2/' |
	awk '{ print int(100 * $2 / $1) }'; }

# uncrossed: no extfrag event across the border since extfrag_on
uncrossed() {
	extfrag_crossing > /tmp/extfrag
	echo "@@ {\"what\": \"extfrag\", \"value\": $(cat /tmp/extfrag)}"
	grep -q '"crossing_events": 0}' /tmp/extfrag
}

# border_block: what stops a border that goes down: pages of the block at it by their flags, free
# ones left out (bit 10)
border_block() {
	dd if=/proc/kpageflags bs=8 skip=$(($(border) - 1024)) count=1024 2> /dev/null |
		od -v -An -t x8 -w8 | awk '{ f = $1; n = substr(f, 14, 1)
			if (n ~ /[4567cdef]/) free++; else if (f ~ /00000080$/) slab++
			else if (substr(f, 10, 1) ~ /[4567cdef]/) tables++
			else if (f ~ /[1-9a-f]/) user++; else bare++ }
		END { printf "{\"slab\": %d, \"page_tables\": %d, ", slab, tables
			printf "\"user\": %d, \"bare\": %d}", user, bare }'
}
