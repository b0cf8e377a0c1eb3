# SPDX-License-Identifier: GPL-2.0-only
# What keeps memory contiguous, compared: rounds of the fragmenter until the unmovable blocks have
# not grown by more than 1 % over three of them, ample.rounds= (30) at most; then the services under
# load, huge pages while all memory is in use, and 1 GB pages. ample.defrag=1 turns vm.defrag_mode
# on, which 6.12 does not have.
. /lib/workloads.sh
disk
prepare_workload
[ -z "$defrag" ] || echo $defrag > /proc/sys/vm/defrag_mode

# spoiled: 2 MB blocks with an unmovable page
spoiled() {
	settle
	kpf $(border) | sed 's/"order10.*//; s/.*"unmovable_blocks": \([0-9]*\).*/\1/'
}

extfrag_on
contiguity before
# the seed shifts what each round takes
limit=${rounds:-30} took=0 flat=0
fragment_begin $((9 + seed % 3)) 30
most=$(spoiled)
while [ $took -lt $limit -a $flat -lt 3 ]; do
	fragment_round
	took=$((took + 1)) now=$(spoiled)
	if [ $((now * 100)) -gt $((most * 101)) ]; then flat=0 most=$now; else flat=$((flat + 1)); fi
	emit round "\"round\": $took, \"unmovable_blocks\": $now, \"region_mib\": $(region_mib), \
		\"uptime_s\": $(cut -d' ' -f1 /proc/uptime)"
done
fragment_end
result extfrag extfrag_crossing
contiguity plateau
counters fragmented

# the services, beside memory that is full
hog 40
load cache /mnt/big $((total * 40 / 100)) > /dev/null
start=$(cut -d' ' -f1 /proc/uptime)
web_start
web_load
emit services "\"seconds\": $(awk -v a=$start '{ print $1 - a }' /proc/uptime), \
	\"http_per_s\": $(awk '/Requests per second/ { n = $4 } END { print n + 0 }' /tmp/ab.log)"
web_stop
result thp load thp $((total / 4))
counters full
kill_hogs
wait 2>/dev/null
rm -f /mnt/big
result extfrag_end extfrag_crossing
result huge_1g huge_1g
contiguity after
[ $(border) = 0 ] || expect "no fallback crossed the border" uncrossed
counters counters
