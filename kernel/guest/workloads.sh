# SPDX-License-Identifier: GPL-2.0-only
# The workloads of the bench; ample.workload= names one, ample.seed= seeds it.
#   fragmenter  4 rounds of the hostile module with a tenth of memory each, all memory full
#   full        the fragmenter, with 90 % of memory instead of 78 in use by user programs
#   creep       the same with 25 rounds of a fiftieth: Illuminator's recipe (ASPLOS 2018) is
#               25 rounds between user memory
#   churn       small files made, rewritten and removed on ext4
#   web         memcached, nginx and redis under their load generators
#   build       tcc over C sources, again and again
#   mixed       churn, web and build at once
#   restart     mixed, everything stopped, and the web services started again
#   sources     sockets, pipes and page tables held, a quarter of them replaced at a time, while
#               anonymous memory churns; in rounds only

# Files, directories and sizes that they share; needs the disk.
prepare_workload() {
	mkdir -p /mnt/t /mnt/www /mnt/build
	seed=${seed:-1}
	total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
	scale=$(((total + 1023) / 1024))
}

churn() { load churn /mnt/t $((2000 * scale)) 4 $seed; }

web_start() {
	memcached -u nobody -m $((total / 4)) -l ${listen:-127.0.0.1} -t 2 & pids="$pids $!"
	i=0
	while [ $i -lt 64 ]; do
		dd if=/dev/urandom of=/mnt/www/$i bs=4k count=$((i % 16 + 1)) 2>/dev/null
		i=$((i + 1))
	done
	mkdir -p /var/log/nginx /var/lib/nginx
	nginx -c /etc/nginx.conf & pids="$pids $!"
	redis-server --save '' --port 6379 --dir /tmp ${listen:+--protected-mode no} \
		> /tmp/redis.log & pids="$pids $!"
	sleep 3
}

web_load() {
	memcslap --servers=127.0.0.1 --concurrency=8 --execute-number=$((1000 * scale)) \
		--initial-load=$((10000 * scale)) > /tmp/memcslap.log 2>&1 &
	ab -q -n 800 -c 16 http://127.0.0.1/$((seed % 64)) > /tmp/ab.log 2>&1 &
	redis-benchmark -q -n 1500 -d 2000 -r 100000 -t set,get,lpush > /tmp/rb.log 2>&1 &
	wait $!
	wait %% 2>/dev/null
	sleep 2
	grep -h 'Requests per second' /tmp/ab.log | sed 's/^/@@ note web: /'
	tail -1 /tmp/memcslap.log | sed 's/^/@@ note web: /'
}

web_stop() {
	kill $pids 2>/dev/null
	[ -f /tmp/nginx.pid ] && kill "$(cat /tmp/nginx.pid)"
	pids=
}

build() {
	n=0
	while [ $n -lt $((15 * scale)) ]; do
		tcc -c -o /mnt/build/$n.o /usr/src/load.c 2>/tmp/tcc.log || break
		n=$((n + 1))
	done
	echo "@@ note build: $n objects $(head -1 /tmp/tcc.log)"
}

all() {
	churn & c=$!
	web_start
	build & b=$!
	web_load
	wait $c $b
}

run_workload() {
	case $workload in
	fragmenter)
		fragment 4 10 30
		load cache /mnt/big $((total * 60 / 100)) ;;
	full)
		fragment 4 10 30 90 ;;
	creep)
		fragment 25 2 6
		load cache /mnt/big $((total * 60 / 100)) ;;
	churn)
		churn
		load cache /mnt/big $((total * 30 / 100))
		seed=$((seed + 100)) churn ;;
	web) web_start; web_load ;;
	build) build ;;
	mixed) all; load cache /mnt/big $((total * 30 / 100)) ;;
	restart) all; web_stop; sleep 1; web_start; web_load ;;
	esac
}

# The same load in rounds that can be repeated for as long as one likes: begin_rounds, one_round as
# often as wanted, end_rounds.
begin_rounds() {
	case $workload in
	fragmenter) fragment_begin 10 30 ;;
	full) fragment_begin 10 30 90 ;;
	creep) fragment_begin 2 6 ;;
	web) web_start ;;
	sources) held sources 2 $seed pause > /tmp/held & held=$! ;;
	esac
}

one_round() {
	case $workload in
	fragmenter | full) fragment_round ;;
	creep) for part in 1 2 3 4 5; do fragment_round; done ;;
	churn | build) $workload ;;
	web) web_load ;;
	mixed) all; web_stop; load cache /mnt/big $((total * 30 / 100)) ;;
	restart) all; web_stop; sleep 1; web_start; web_load; web_stop ;;
	sources)
		kill -CONT $held
		sleep 1
		while ! grep -q '^State:.T' /proc/$held/status; do sleep 1; done ;;
	esac > /dev/null
	seed=$((seed + 1))
}

end_rounds() {
	case $workload in
	fragmenter | full | creep) fragment_end ;;
	web) web_stop ;;
	sources) kill -CONT $held; kill $held; wait $held ;;
	esac
	rm -rf /mnt/t /mnt/big /mnt/fill
	sync
	echo 3 > /proc/sys/vm/drop_caches
}
