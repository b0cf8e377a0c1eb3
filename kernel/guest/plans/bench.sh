# SPDX-License-Identifier: GPL-2.0-only
# One workload of workloads.sh, then what contiguity it left behind.
. /lib/workloads.sh
disk
prepare_workload

extfrag_on
contiguity before
start=$(cut -d' ' -f1 /proc/uptime)
run_workload
seconds=$(awk -v a=$start '{ print $1 - a }' /proc/uptime)
emit ran "\"workload\": \"$workload\", \"seed\": $seed, \"seconds\": $seconds"
result extfrag extfrag_crossing
contiguity after
result thp load thp $((total / 4))
result huge_2m huge_2m
result huge_1g huge_1g
result module cat $hostile/stats
counters counters
[ -d $ctg/node0 ] && emit region "\"unmovable_bytes\": $(cat $ctg/node0/unmovable_bytes), \
	\"free_bytes\": $(cat $ctg/node0/unmovable_free_bytes)"
web_stop
true
