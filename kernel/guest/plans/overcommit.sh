# SPDX-License-Identifier: GPL-2.0-only
# The allocator where every mapping is charged when it is made (vm.overcommit_memory=2): programs
# work, requests beyond the limit are refused and later ones are not, and what a process has charged
# follows what it uses.
strict() { # strict NAME PROGRAM ARGUMENT...: the program ends with 0 under the allocator
	name=$1; shift
	status=0
	LD_PRELOAD=$library "$@" >/tmp/out 2>&1 || status=$?
	[ $status = 0 ] || sed 's/^/@@ note /' /tmp/out
	expect "$name under strict overcommit" [ $status = 0 ]
}

committed_kib() { awk '/^Committed_AS/ { print $2 }' /proc/meminfo; }

charged_kib() { # charged_kib [LIBRARY]: by redis that waits, under that allocator
	before=$(committed_kib)
	LD_PRELOAD=${1:-} redis-server --port 0 --unixsocket /tmp/redis.sock \
		--save '' --daemonize no >/dev/null 2>&1 &
	sleep 2
	echo $(($(committed_kib) - before))
	kill $!
	wait $! 2>/dev/null || true
}

library=/usr/lib/libample_malloc.so
echo 2 > /proc/sys/vm/overcommit_memory
for ratio in 50 90; do
	echo $ratio > /proc/sys/vm/overcommit_ratio
	glibc=$(charged_kib)
	ours=$(charged_kib $library)
	limit=$(awk '/^CommitLimit/ { print $2 }' /proc/meminfo)
	emit overcommit "\"ratio\": $ratio, \"limit_kib\": $limit, \"waiting_redis_kib\": $ours, \
		\"under_glibc_kib\": $glibc"
	expect "the server waits under both allocators" [ $glibc -gt 0 -a $ours -gt 0 ]
	expect "a server that waits has charged 64 MiB more than under glibc at most" \
		[ $((ours - glibc)) -le 65536 ]
	strict "sequences, one thread" sequences 50000 1 1
	strict "sequences, four threads" sequences 20000 4 2
	strict "threads, signals and forks" threads 4
	strict "requests beyond the limit" oom
done
