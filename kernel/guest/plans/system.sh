# SPDX-License-Identifier: GPL-2.0-only
# One load between the markers of kernel/guest/src/marker.h, for whoever watches the whole machine
# from outside, and what the kernel counted meanwhile. All lies in memory: no disk is needed.
#   ample.load=    chase (default), fault, heapsort, redis, memcached, nginx, build (tcc), gcc or
#                  idle
#   ample.mib=     memory of the load: of the chase (64), values of a service, files of nginx (32)
#   ample.pages=   4k, 2m or 1g (the chase alone; needs a guest of 4 GB): huge pages asked for
#   ample.rounds=  requests (2000), objects to compile (4), seconds of idling (4)
#   ample.steps=   of the chase (200000)
#   ample.seed=    1
#   ample.fragment= rounds in which the hostile module goes through memory before the load (0)
#   ample.settle=  seconds between preparation and begin (2)
#   ample.trace=1  TLB flushes and context switches by tracepoints, ample.buffer_kb= (20000) of
#                  memory a CPU. They add accesses to the region, and kernel code is patched before
#                  it; without, the counts come from /proc alone, and for chase and fault there are
#                  none: reading them right before the begin would leave its traces in the TLB.
#
# Two runs print the same and execute the same instructions if nothing comes in from the host:
#   --append "norandmaps" and --qemu "-icount shift=0,sleep=off -machine hpet=off -seed 1
#     -rtc clock=vm,base=2026-01-01 -cpu max,-erms,-fsrm,-rdrand,-rdseed"
# -icount     time is the count of instructions, CPUs take turns; sleep=off leaps over idle time
# hpet=off    no matter for that: with the HPET and -icount, Linux takes the APIC's timer for broken
#             (its ticks come twice as fast), does without it and has no timers finer than a tick
# -rtc        the clock from which Linux takes the date, and with it the seeds that programs take
# -seed       what the emulator draws for the guest: the seed in the boot parameters
# -rdrand     the other sources of the kernel's generator; there must be no virtio-rng either
# norandmaps  addresses; those of the kernel itself stay in place (guest.sh)
load=${load:-chase} pages=${pages:-4k} seed=${seed:-1} steps=${steps:-200000} trace=${trace:-0}
case $load in
chase | fault | heapsort) mib=${mib:-64} rounds=${rounds:-1} ;;
build | idle) mib=${mib:-32} rounds=${rounds:-4} ;;
gcc) mib=${mib:-32} rounds=${rounds:-1} ;;
*) mib=${mib:-32} rounds=${rounds:-2000} ;;
esac
thp=/sys/kernel/mm/transparent_hugepage
tr=/sys/kernel/tracing
mkdir -p /tmp/roi /mnt/www /var/log/nginx /var/lib/nginx

# has FLAG: of the first CPU, as JSON
has() { if grep -m1 '^flags' /proc/cpuinfo | grep -qw $1; then echo true; else echo false; fi; }

# Files of 4 to 64 KiB, $mib in all, in a tmpfs, which has no huge page for so small a file; by one
# process, since emulation takes a hundredth of a second for each that starts
www() {
	mount -t tmpfs -o huge=never www /mnt/www
	awk -v kib=$((mib * 1024)) 'BEGIN {
		for (page = "x"; length(page) < 4096; page = page page);
		for (n = 0; made < kib; n++) {
			for (i = 0; i <= n % 16; i++) printf "%s", page > ("/mnt/www/" n)
			close("/mnt/www/" n)
			made += 4 * (n % 16 + 1)
		}
		printf "{\"files\": %d, \"kib\": %d}\n", n, made }'
}

# Servers started and filled; $servers has their names
prepare() {
	case $load in
	redis)
		redis-server --save '' --port 6379 --dir /tmp --disable-thp no > /tmp/redis.log &
		await 6379 ;;
	memcached)
		# -L: one piece of memory for all values; in pieces of 1 MB none gets a huge page
		memcached -u nobody -m $((2 * mib + 64)) -l 127.0.0.1 -t 2 \
			$([ $pages = 2m ] && echo -L) &
		await 11211 ;;
	nginx)
		result www www
		keys=$(echo "$out" | sed 's/.*"files": \([0-9]*\).*/\1/')
		nginx -c /etc/nginx.conf
		# The first ab waits until the kernel has gathered 256 bits of randomness, one a tick, and
		# spins meanwhile (try_to_generate_entropy(), drivers/char/random.c): not in the region.
		head -c 1 /dev/random > /dev/null
		await 80 ;;
	esac
	case $load in
	redis | memcached)
		result fill kv fill $load $mib $seed
		keys=$(echo "$out" | sed 's/.*"keys": \([0-9]*\).*/\1/') ;;
	chase)
		[ $pages != 1g ] ||
			echo $((mib / 1024)) > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages ;;
	esac
	case $load in
	redis) servers=redis-server ;;
	memcached | nginx) servers=$load ;;
	esac
}

# What runs between the markers. Chase and heapsort have them themselves; the others get them from
# "mark around", the compiler and ab in a shell that starts them again and again.
region() {
	case $load in
	chase) result chase chase $mib $steps $seed $pages ;;
	fault) result fault chase fault $mib $pages ;;
	heapsort) heapsort; out="{\"status\": $?}"; emit heapsort "\"value\": $out" ;;
	redis) result redis around redis-benchmark -q -n $((rounds / 2)) -c 16 -r $keys -d 1024 \
		-t set,get --csv ;;
	memcached) result memcached mark around $rounds kv ask memcached $mib $seed $rounds 16 ;;
	nginx) result nginx around sh -c "
		for n in \$(seq 16); do
			ab -q -n $((rounds / 16)) -c 16 http://127.0.0.1/\$(((n * 61 + $seed) % $keys))
		done" ;;
	build) result build around sh -c "
		for n in \$(seq $rounds); do
			tcc -c -o /tmp/\$n.o /usr/src/load.c || break
			echo object
		done" ;;
	gcc) result gcc around sh -c "
		for n in \$(seq $rounds); do
			gcc -O2 -c -o /tmp/\$n.o /usr/src/load.c || break
			echo object
		done" ;;
	idle) result idle around sleep $rounds ;;
	esac
}

# around COMMAND...: between the markers; as a JSON object, what it tells of its work
around() {
	mark around $rounds "$@" > /tmp/said
	awk -F '[":, ]+' -v status=$? '
		/^"(SET|GET)"/ { more = more sprintf(", \"%s_per_s\": %s", tolower($2), $3) }
		/^Complete requests/ { requests += $3 }
		/^Failed requests/ { failed += $3 }
		/^object/ { objects++ }
		END {
			if (requests) more = ", \"requests\": " requests ", \"failed\": " failed + 0
			if (objects) more = ", \"objects\": " objects
			printf "{\"status\": %d%s}\n", status, more }' /tmp/said
}

# Events on, to be written between the markers only: AMPLE_TRACE makes mark and chase switch it
trace_on() {
	for event in tlb/tlb_flush sched/sched_switch; do
		if [ -e $tr/events/$event/enable ]; then
			traced=1
		else
			echo "@@ note the kernel has no tracepoint $event"
		fi
	done
	[ -n "$traced" ] || return
	echo 0 > $tr/tracing_on
	echo 0 > $tr/options/record-cmd
	echo ${buffer_kb:-20000} > $tr/buffer_size_kb
	for event in tlb/tlb_flush sched/sched_switch; do
		[ ! -e $tr/events/$event/enable ] || echo 1 > $tr/events/$event/enable
	done
	echo > $tr/trace
	export AMPLE_TRACE=1
}

# The events by CPU; of TLB flushes by reason too, where -1 pages is all of them
trace_read() {
	workload=$load traced
	awk '{
		cpu = match($0, /\[[0-9]+\]/) ? substr($0, RSTART + 1, RLENGTH - 2) + 0 : -1 }
		/ sched_switch: / { switches[cpu]++ }
		/ tlb_flush: / {
			split($0, part, /pages:|  *reason:| \([0-9]+\)$/)
			at = cpu SUBSEP part[3]
			events[at]++
			if (part[2] < 0) all[at]++; else pages[at] += part[2] }
		END {
			for (cpu in switches) printf "@@ {\"what\": \"sched_switch\", \"cpu\": %d, " \
				"\"events\": %d}\n", cpu, switches[cpu]
			for (at in events) {
				split(at, part, SUBSEP)
				printf "@@ {\"what\": \"tlb_flush\", \"cpu\": %d, \"reason\": \"%s\", " \
					"\"events\": %d, \"pages\": %d, \"flushes_of_all\": %d}\n",
					part[1], part[2], events[at], pages[at], all[at] }
		}' $tr/trace | sort
}

# What /proc counted between the markers
counts() {
	emit vmstat "$(awk 'NR == FNR { before[$1] = $2; next }
		/^(pgfault|pgmajfault|pgmigrate|thp_|compact_|numa_|nr_tlb|pgalloc|pgfree|pgreuse)/ &&
			$2 != before[$1] {
			printf "%s\"%s\": %d", sep, $1, $2 - before[$1]; sep = ", " }
		' /tmp/roi/begin.vmstat /tmp/roi/end.vmstat)"
	emit stat "$(awk 'NR == FNR { before[$1] = $2; next }
		/^(intr|ctxt|processes|softirq)/ {
			printf "%s\"%s\": %d", sep, $1, $2 - before[$1]; sep = ", " }
		' /tmp/roi/begin.stat /tmp/roi/end.stat)"
	# one list by CPU for each line that has moved
	emit interrupts "$(awk 'FNR == 1 { cpus = NF; next }
		{ line = $1; sub(/:$/, "", line) }
		NR == FNR { for (i = 1; i <= cpus; i++) before[line, i] = $(i + 1); next }
		{
			moved = 0; list = ""
			for (i = 1; i <= cpus && $(i + 1) ~ /^[0-9]+$/; i++) {
				n = $(i + 1) - before[line, i]
				moved += n; list = list (i > 1 ? ", " : "") n
			}
			if (moved) { printf "%s\"%s\": [%s]", sep, line, list; sep = ", " }
			sum += moved
		}
		END { printf "%s\"sum\": %d", sep, sum }
		' /tmp/roi/begin.interrupts /tmp/roi/end.interrupts)"
}

# The pages that each server's memory has now
processes() {
	for server in $servers; do
		for pid in $(pidof $server); do
			emit process "\"name\": \"$server\", \"pid\": $pid, $(awk '
				$1 ~ /^(Rss|Anonymous|AnonHugePages|ShmemPmdMapped):$/ {
					sub(/:/, "", $1); name = tolower($1)
					sub(/anonhugepages/, "anon_huge", name)
					sub(/shmempmdmapped/, "shmem_huge", name)
					printf "%s\"%s_kib\": %d", sep, name, $2; sep = ", " }
				' /proc/$pid/smaps_rollup)"
		done
	done
}

# known: is there such a load, with such pages?
known() {
	case $load in
	chase | fault | heapsort | redis | memcached | nginx | build | gcc | idle) ;;
	*) return 1 ;;
	esac
	case $pages.$load in 4k.* | 2m.* | 1g.chase) ;; *) return 1 ;; esac
}

# went: did the load print an object without an error in it, and compile all that it had to?
went() {
	case $out in '' | *'"status": '[!0]* | *'"failed": '[!0]*) return 1 ;; esac
	case $load in build | gcc)
		case $out in *"\"objects\": $rounds}"*) ;; *) return 1 ;; esac ;;
	esac
}

expect "ample.load= and ample.pages= are of those that the plan names" known
known || return
# the chase asks for its own pages, and what the rest of the system has is to be the same
case $load.$pages in
chase.* | fault.* | heapsort.*) echo madvise > $thp/enabled ;;
*.2m) echo always > $thp/enabled ;;
*) echo never > $thp/enabled ;;
esac
emit system "\"load\": \"$load\", \"mib\": $mib, \"pages\": \"$pages\", \"steps\": $steps, \
	\"seed\": $seed, \"rounds\": $rounds, \"trace\": $trace, \"release\": \"$(uname -r)\", \
	\"cpus\": $(nproc), \"la57\": $(has la57), \"pcid\": $(has pcid), \
	\"invpcid\": $(has invpcid), \"pdpe1gb\": $(has pdpe1gb), \
	\"mem_total_kib\": $(awk '/^MemTotal/ { print $2 }' /proc/meminfo)"
if [ ${fragment:-0} != 0 ]; then
	# Without huge pages, as page cache is: hogs with them leave the blocks alone that the module
	# has spoiled, and it meets the same again. Little is free; the seed shifts what a round takes.
	was=$(sed 's/.*\[\(.*\)\].*/\1/' $thp/enabled)
	echo never > $thp/enabled
	fragment $fragment $((9 + seed % 3)) 31 93 | grep -v '^@@ note'
	echo $was > $thp/enabled
fi
[ -z "$fragment" ] || contiguity memory
prepare
emit prepared "\"uptime_s\": $(cut -d' ' -f1 /proc/uptime)"
[ "$trace" = 0 ] || trace_on
case $load.$trace in
chase.0 | fault.0 | heapsort.0) ;;
*) export AMPLE_ROI=/tmp/roi ;;
esac
# khugepaged without its pauses until the begin: memory is as that of a server that has run for long
pause=$(cat $thp/khugepaged/scan_sleep_millisecs)
echo 10 > $thp/khugepaged/scan_sleep_millisecs
sleep ${settle:-2}
echo $pause > $thp/khugepaged/scan_sleep_millisecs
region
expect "the load has run" went
emit ran "\"uptime_s\": $(cut -d' ' -f1 /proc/uptime)"
[ -z "$traced" ] || trace_read
[ -z "$AMPLE_ROI" ] || counts
processes
