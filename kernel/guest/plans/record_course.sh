# SPDX-License-Identifier: GPL-2.0-only
# Records the course of a load of services (ample.workload= web, churn or build of the bench, or
# leak, files that pile up in a tmpfs; again and again with pauses) for ample.span_s= seconds: the
# machine at the beginning, after a third and at the end, and the page events of that third. All go
# to the raw disk, one after another.
. /lib/workloads.sh
disk
prepare_workload
span_s=${span_s:-210} third=$((span_s / 3)) n=0
course() {
	while :; do
		case $workload in
		web) web_load ;;
		churn) load churn /mnt/t $((2500 * scale)) 3 $seed > /dev/null ;;
		build) build ;;
		leak)
			i=0
			while [ $i -lt 2500 ]; do : > /tmp/leak/$n.$i; i=$((i + 1)); done ;;
		esac
		# the file is larger than memory: its cache comes and goes
		dd if=/mnt/big of=/dev/null bs=1M count=32 skip=$((32 * n % total)) 2> /dev/null
		n=$((n + 1)) seed=$((seed + 1))
		sleep 2
	done
}
snapshot() {
	settle
	# the load goes on, and may move the border during the scan
	before=$(border)
	ample scan --format snapshot -o /tmp/$1.snap
	emit snapshot "\"name\": \"$1\", \"bytes\": $(wc -c < /tmp/$1.snap), \
		\"border_pfn\": $before, \"border_after_pfn\": $(border), \
		\"mono_s\": $(cut -d' ' -f1 /proc/uptime)"
}
load cache /mnt/big $((total * 110 / 100)) > /dev/null
[ $workload = web ] && web_start
mkdir /tmp/leak && mount -t tmpfs -o nr_inodes=0 leak /tmp/leak
course & loop=$!
sleep 30
trace_pages ${buffer_kb:-60000} mm_page_alloc mm_page_free
snapshot start
echo 1 > $tr/tracing_on
sleep $third
echo 0 > $tr/tracing_on
snapshot third
sleep $((span_s - third))
snapshot end
kill $loop
web_stop
traced
counters counted
dev=$(raw)
cat /tmp/start.snap /tmp/third.snap /tmp/end.snap $tr/trace > $dev
sync
