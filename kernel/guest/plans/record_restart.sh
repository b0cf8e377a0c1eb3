# SPDX-License-Identifier: GPL-2.0-only
# What a service gets of huge pages when it restarts on a machine that was fragmented before
# (Contiguitas section 5.1, "partial"), by what else holds memory at that moment. First the module
# spoils blocks, as often as ample.rounds= says. Then, variant after variant, eight services of a
# sixteenth of memory each run for a while, and one asks: for 2 MB pages by page faults of a fresh
# mapping (THP, which does not compact), then through nr_hugepages for 5/16 of memory (figure 10:
# 20 of 64 GB), then for twice as much, and then for that 64 times more: after compactions that
# failed, up to 64 requests pass without another (compaction_deferred, mm/compaction.c). The machine
# right before (ample scan) and a byte of flags a page go to the raw disk, one after another.
# With ample.compact=1 all of memory is compacted in between (/proc/sys/vm/compact_memory), as an
# operator of stock Linux would.
#   stopped  all services have ended, the page cache is clean
#   failed   the same, after somebody has asked for huge pages in vain while the services ran
#   dirty    so they have, and three fifths of memory is page cache that nobody has written yet
#   writing  the same for a disk that takes 8 MB a second, while it is being written
#   locked   the services run with their memory locked
#   buffers  they have ended; two fifths of memory is the cache of a block device that is open, and
#            the file system has just made and removed thousands of files
#   turn     one of eight has ended, the others wait for work
#   busy     one of eight has ended, the others work
#   turns    one after another ends, asks for an eighth of the 5/16 through nr_hugepages, and starts
#            again with the rest of its memory; the machine is that before the first
. /lib/workloads.sh
insmod /lib/modules/ample_hostile.ko
for d in /sys/block/vd*; do
	case $(cat $d/serial) in
	raw) ;;
	slow) mkdir -p /slow; mount -t ext4 /dev/${d##*/} /slow; slow=/dev/${d##*/} ;;
	*) mount -t ext4 /dev/${d##*/} /mnt ;;
	esac
done
prepare_workload
# nothing is written unless a variant asks for it, but where reclaim does
cd /proc/sys/vm
echo 90 > dirty_ratio; echo 89 > dirty_background_ratio
echo 360000 > dirty_expire_centisecs; echo 0 > dirty_writeback_centisecs
cd /
nr=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
pages=$(awk '$1 == "spanned" { s += $2 } END { print s }' /proc/zoneinfo)
want=$((pages * 5 / 16 / 512))
memory=$((total / 16))

# services FIRST LAST MODE [MIB]: start those of these numbers, return when all are up
services() {
	for i in $(seq $1 $2); do
		restart serve ${4:-$memory} $((${4:-$memory} * 2 / 5)) /mnt/service$i $3 \
			$((seed * 16 + i)) > /tmp/up$i &
		eval task$i=$!
	done
	for i in $(seq $1 $2); do
		while ! [ -s /tmp/up$i ] && eval kill -0 \$task$i; do sleep 0.2; done
		rm -f /tmp/up$i
	done
}

end() { for i in $(seq $1 $2); do eval kill -9 \$task$i; eval wait \$task$i; done 2> /dev/null; }

events() {
	awk '/^(compact_|pgmigrate_|pg(scan|steal)_(direct|kswapd) |allocstall_m|nr_written)/ ||
		/^(thp_fault_(alloc|fallback) |htlb_buddy|pgrotated)/' /proc/vmstat
}

# before NAME: the machine as it is now, to the raw disk
before() {
	echo 0x1000000 > $hostile/drain
	ample scan --format snapshot -o /tmp/snap
	restart flags > /tmp/flags
	cat /tmp/snap /tmp/flags > /tmp/both
	dd if=/tmp/both of=$(raw) bs=4k seek=$at conv=notrunc 2> /dev/null
	emit before "\"variant\": \"$1\", \"at\": $((at * 4096)), \
		\"snap\": $(wc -c < /tmp/snap), \"flags\": $(wc -c < /tmp/flags)$(awk -v q='"' '
		/^(MemFree|Cached|Buffers|Dirty|Writeb|Unevic|Anon|Mapped)/ {
			printf ", %s%s%s: %d", q, substr($1, 1, length($1) - 1), q, $2 / 4
		}' /proc/meminfo), \"compaction\": $(cat $hostile/compaction)"
	at=$((at + ($(wc -c < /tmp/both) + 4095) / 4096))
	rm /tmp/snap /tmp/flags /tmp/both
	events > /tmp/events
	[ "${compact:-0}" = 0 ] || echo 1 > /proc/sys/vm/compact_memory
}

# after NAME FIELDS: what was obtained, and what it took
after() {
	events | awk -v q='"' 'NR == FNR { old[$1] = $2; next } $2 != old[$1] {
		printf ", %s%s%s: %d", q, $1, q, $2 - old[$1] }' /tmp/events - > /tmp/counts
	emit asked "\"variant\": \"$1\", \"seed\": $seed, $2$(cat /tmp/counts)"
}

ask() {
	before $1
	thp=$(restart thp $want)
	start=$(cut -d' ' -f1 /proc/uptime)
	echo $want > $nr; got=$(cat $nr)
	echo $((2 * want)) > $nr; most=$(cat $nr)
	after $1 "\"wanted\": $want, \"thp\": $thp, \"got\": $got, \"got_of_twice\": $most, \
		\"seconds\": $(awk -v s=$start '{ print $1 - s }' /proc/uptime)"
	for i in $(seq 64); do echo $((2 * want)) > $nr; done
	emit again "\"variant\": \"$1\", \"got\": $(cat $nr)"
	echo 0 > $nr
	# with a border only what is being written, or does not fit beside locked memory, is refused
	case $1 in
	writing | locked) ;;
	*) [ $(border) = 0 ] || expect "$1: all huge pages that were wanted" [ $got = $want ] ;;
	esac
}

# fresh: no service, no page cache
fresh() { rm -f /mnt/dirty /slow/dirty; sync; echo 1 > /proc/sys/vm/drop_caches; }

# full: page cache in all memory that is free
full() { cat /mnt/big > /dev/null; }

# usual: services that have worked for a while, memory full
usual() {
	fresh
	services 1 8 ${1:-busy}
	full
	sleep ${span_s:-20}
}

for i in $(seq 1 8); do
	dd if=/dev/zero of=/mnt/service$i bs=1M count=$((total * 4 / 100)) 2> /dev/null
done
fragment ${rounds:-2} 10 30
rm -f /mnt/fill
load cache /mnt/big $((total * 80 / 100)) > /dev/null
sync
contiguity fragmented
at=0
all=stopped,failed,dirty,writing,locked,buffers,turn,busy,turns
for variant in $(echo ${variants:-$all} | tr , ' '); do
	case $variant in
	stopped) usual; end 1 8; sync; ask stopped ;;
	failed)
		usual
		load thp $total > /dev/null
		full
		end 1 8; sync; ask failed ;;
	dirty)
		usual; end 1 8; fresh
		dd if=/dev/zero of=/mnt/dirty bs=1M count=$((total * 60 / 100)) 2> /dev/null
		ask dirty ;;
	writing)
		usual; end 1 8; fresh
		dd if=/dev/zero of=/slow/dirty bs=1M count=$((total * 60 / 100)) 2> /dev/null
		sync & sleep 5
		ask writing
		rm /slow/dirty
		wait $! ;;
	locked) usual lock; sync; ask locked; end 1 8 ;;
	buffers)
		usual; end 1 8; fresh
		exec 3< $slow
		dd bs=1M count=$((total * 40 / 100)) <&3 2> /dev/null > /dev/null
		load churn /mnt/t $((4000 * scale)) 2 $seed > /dev/null
		full
		ask buffers
		exec 3<&- ;;
	turn) usual; end 1 8; services 1 8 idle; sync; full; end 1 1; ask turn; end 2 8 ;;
	busy) usual; end 1 1; ask busy; end 2 8 ;;
	turns)
		usual; end 1 8; services 1 8 idle; sync; full
		before turns
		gots= was=0
		for i in 1 2 3 4 5 6 7 8; do
			end $i $i
			echo $((want * i / 8)) > $nr; got=$(cat $nr)
			services $i $i idle $((memory - 2 * (got - was)))
			gots="$gots${gots:+, }$got" was=$got
		done
		after turns "\"wanted\": $want, \"got\": $got, \"by_turn\": [$gots]"
		echo 0 > $nr
		end 1 8 ;;
	esac
done
