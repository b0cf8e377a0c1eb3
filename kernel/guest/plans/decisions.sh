# SPDX-License-Identifier: GPL-2.0-only
# Records what the policy of the border was asked and what it answered under a load and for 30 s
# after it; the text of the trace goes to the raw disk. ample.workload= is
#   fragmenter, sources  those of workloads.sh
#   hold                 with memory in use the kernel takes a third bit by bit, which is more than
#                        the maximum of its region, and storms of atomic requests come in between
#   pins                 long-term pins and zero-copy sends with memory in use
. /lib/workloads.sh
disk
prepare_workload
insmod /lib/modules/ample_hostile.ko
tr=/sys/kernel/tracing
echo 0 > $tr/tracing_on
echo 16000 > $tr/buffer_size_kb
for e in decide grow step; do echo 1 > $tr/events/contiguitas/contiguitas_$e/enable; done
echo > $tr/trace
echo 1 > $tr/tracing_on
case $workload in
sources)
	begin_rounds
	for part in 1 2 3; do one_round; done
	end_rounds ;;
hold)
	hog 50
	load cache /mnt/fill $((total * 30 / 100)) > /dev/null
	for part in 1 2 3 4 5 6 7 8 9 10 11 12; do
		echo $part > $hostile/storm
		echo $((total * 3 / 100)) > $hostile/hold
		sleep 0.3
	done
	kill_hogs ;;
pins)
	hog 60
	pins longterm "$(border)"
	load send 64 200 1
	echo $((total / 5)) > $hostile/hold
	kill_hogs ;;
*) run_workload ;;
esac
echo 1 > $hostile/release
rm -f /mnt/big /mnt/fill
sleep 30
echo 0 > $tr/tracing_on
traced
expect "the policy was asked" grep -q contiguitas_decide $tr/trace
dev=$(raw)
cat $tr/trace > $dev
sync
