# SPDX-License-Identifier: GPL-2.0-only
# A border that comes back over pinned pages: the unmovable region grows for pins, most of them go,
# and one in ample.out_of is left wherever it lies. With the engine the rest is gathered, without
# (ample.idle=1: the same driver, driving nothing) the region stays as large as it was.
mib=${mib:-208} out_of=${out_of:-8} trigger=/sys/kernel/debug/contiguitas/node0
insmod /lib/modules/ample_mover.ko idle=${idle:-0}
size() { cat $ctg/node0/unmovable_bytes; }
region() { emit "$1" "\"bytes\": $(size), \"free_bytes\": $(cat $ctg/node0/unmovable_free_bytes)"; }
region before
mover spread $mib $out_of > /tmp/result &
spread=$!
while ! [ -e /tmp/spread ] && kill -0 $spread; do sleep 0.2; done
region held
contiguity held_contiguity
# As far as it goes; a page that somebody uses for a moment stops one attempt. "echo" and "read" are
# the shell's own: each new process would put page tables into the region.
echo 3 > /proc/sys/vm/drop_caches
read least < $ctg/node0/min_bytes
for attempt in $(seq 40); do
	! echo "$least" > $trigger || break
done 2> /dev/null
region after
result block border_block
contiguity after_contiguity
touch /tmp/spread.over
wait $spread
result spread cat /tmp/result
expect "spread: all is as written" [ "${out#*\"wrong\": 0,}" != "$out" ]
counters counters
