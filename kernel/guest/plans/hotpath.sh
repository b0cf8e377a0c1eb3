# SPDX-License-Identifier: GPL-2.0-only
# Instructions of hot paths. Boot with one CPU and -icount shift=0: then an
# instruction takes one nanosecond, and times are counts. ample.hold=MIB fills what the region has
# of its upper zone first.
insmod /lib/modules/ample_hostile.ko
[ -z "$hold" ] || echo $hold > $hostile/hold
run=0
while [ $run -lt 3 ]; do
	echo 40960 > $hostile/pairs
	result alloc_free cat $hostile/stats
	result fault load pair 4000
	result send load echo 64 2000
	run=$((run + 1))
done
