# SPDX-License-Identifier: GPL-2.0-only
# The server of two machines that a cable joins: memcached, nginx over files on ext4, redis
# and streams with slow readers, all for the other machine (plan traffic_client). Memory is full: of
# three programs one is started anew each round, others come and go, page cache has the rest, and
# files are made anew. A round ends when the client has had all it asked for. ample.rounds=,
# ample.seed=; ample.defrag=1 turns vm.defrag_mode on.
. /lib/workloads.sh
disk
prepare_workload
[ -z "$defrag" ] || echo $defrag > /proc/sys/vm/defrag_mode
ip addr add 10.0.0.1/24 dev eth0
ip link set eth0 up
# what a queue of a socket may hold that asks for more
echo 4194304 > /proc/sys/net/core/wmem_max
last=${rounds:-8}

# files LAST: the tree that nginx serves, or its first files anew: 4 KB to 1 MB each
files() {
	n=0
	while [ $n -lt $1 ]; do
		dd if=/dev/urandom of=/mnt/www/$n bs=4k count=$(((n * 37 + seed) % 256 + 1)) 2> /dev/null
		n=$((n + 1))
	done
}

# kernel memory of TCP now, in pages
tcp_pages() { sed -n 's/^TCP:.* mem \([0-9]*\)$/\1/p' /proc/net/sockstat; }

# spoiled: 2 MB blocks with an unmovable page. Flags alone would count pages that lie free on the
# list of a CPU, so the module counts.
spoiled() { sed 's/.*"unmovable_blocks": \([0-9]*\).*/\1/' $hostile/blocks; }

# state: what a round has left, and what there was when sockets held most
state() {
	emit round "\"round\": $round, \"uptime_s\": $(cut -d' ' -f1 /proc/uptime), \
		\"unmovable_blocks\": $(spoiled), \"loaded_blocks\": $loaded, \
		\"tcp_pages_most\": $most, \"region_mib\": $(region_mib), \
		\"region_free_mib\": $(region_mib unmovable_free_bytes), $(stall_counts)"
}

# sources: pages by what they were taken for, from page_owner's stacks with the pages of each. Slab
# and page tables first: a socket's slab object is slab, as in the paper's figure 6. (The rules are
# those of `ample scan --owners`, which reads every record: minutes in emulation.)
sources() {
	awk -v RS= '
		{ pages = $0; sub(/.*nr_base_pages: /, "", pages); pages += 0 }
		/new_slab|allocate_slab|___kmalloc_large/ { n["slab"] += pages; next }
		/pte_alloc|pmd_alloc|pud_alloc|pgd_alloc/ { n["page_tables"] += pages; next }
		/alloc_thread_stack|dup_task_struct/ { n["other"] += pages; next }
		/vma_alloc_folio|alloc_charge_folio|alloc_hugetlb/ { n["anonymous"] += pages; next }
		/filemap|page_cache|shmem_alloc|bdev_/ { n["cache"] += pages; next }
		/skb|sock_|tcp_|udp_|napi_|page_pool|netif_|netlink|virtnet_|unix_stream|sk_page_frag/ {
			n["networking"] += pages; next }
		{ n["other"] += pages }
		END { for (of in n) { printf "%s\"%s\": %d", sep, of, n[of]; sep = ", " } }' \
		/sys/kernel/debug/page_owner_stacks/show_stacks
}

# others: what the machine does beside serving, until the round is over
others() {
	while [ ! -e /tmp/over ]; do
		load hog $((total * 18 / 100)) 4 > /dev/null
		load churn /mnt/t $((300 * scale)) 1 $seed > /dev/null
	done
}

files $((400 * scale))
extfrag_on
contiguity before
result blocks cat $hostile/blocks
listen=0.0.0.0 web_start
kv fill memcached $((total * 15 / 100)) $seed > /dev/null
for part in 1 2 3; do hog 12; done
load cache /mnt/big $((total * 30 / 100)) > /dev/null
stream serve 9100 > /tmp/stream &
stream=$!
begun=$(cut -d' ' -f1 /proc/uptime)
round=0 most=0 loaded=$(spoiled)
state
while [ $round -lt $last ]; do
	round=$((round + 1)) most=0 looks=0
	set -- $hogs
	kill ${1%:*}
	wait ${1%:*} 2> /dev/null
	shift
	hogs="$*"
	hog 12
	rm -f /tmp/over /tmp/came
	# The client waits for this line; what it says when it has done is one, too.
	echo "go $((seed * 100 + round))" | nc -l -p 9001 > /dev/null
	nc -l -p 9002 > /tmp/came &
	waits=$!
	others & beside=$!
	while kill -0 $waits 2> /dev/null; do
		sleep 2
		looks=$((looks + 1)) now=$(tcp_pages)
		[ $round = $last ] && [ $looks = 4 ] && emit sources "$(sources), \"tcp_pages\": $now"
		[ $now -gt $most ] && most=$now loaded=$(spoiled)
	done
	touch /tmp/over
	wait $beside
	sed 's/^/@@ /' /tmp/came
	files $((40 * scale))
	seed=$((seed + 1))
	state
done
emit ran "\"seconds\": $(awk -v a=$begun '{ print $1 - a }' /proc/uptime)"
echo stop | nc -l -p 9001 > /dev/null
result extfrag extfrag_crossing
contiguity after
counters full
result thp load thp $((total / 4))
kill $stream
wait $stream
expect "no byte of a stream was wrong" grep -q '"wrong_pieces": 0}' /tmp/stream
result stream cat /tmp/stream
web_stop
kill_hogs
sleep 2
result huge_1g huge_1g
if [ $(border) != 0 ]; then
	expect "no fallback crossed the border" uncrossed
	expect "nothing unmovable lies above the border" confined
fi
expect "sources were told under load" [ $looks -ge 4 ]
counters counters
