# SPDX-License-Identifier: GPL-2.0-only
# The invariants under load. Boot with contiguitas= and page_owner=on. A debug kernel is so slow
# that ample.files= and ample.rounds= make it less. In a small guest ample.user= has to leave room
# (fragment takes 78 % of memory): the debug kernel and the initramfs are a fifth of what
# a guest of 512 MB has, and 78 and the module's 10 % on top of that fit no kernel.
disk
mkdir -p /mnt/t
extfrag_on
dmesg | grep contiguitas: | sed 's/^/@@ note /'
expect "the feature is on" [ -d $ctg/node0 ]
expect "confined after boot" confined
load churn /mnt/t ${files:-1500} 3 ${seed:-1} &
load fork 20 16
wait
expect "confined after churn and forks" confined
fragment ${rounds:-2} 10 30 ${user:-78}
expect "confined after the fragmenter" confined
load cache /mnt/big 300
# What the reserve has to hold. Of 256 MB at once, on full memory, stock Linux fails a part too:
# that one is compared with stock by make kernel-storm.
for mib in 8 32 256; do
	sleep 1
	echo $mib > $hostile/storm
	result storm_$mib cat $hostile/stats
	# 32 MB of 2 GB is what the reserve of that size is for
	[ $mib -gt $((total / 48)) ] || expect "no atomic allocation of $mib MB failed" \
		grep -q '"storm_failed": 0' $hostile/stats
done
expect "confined after the atomic storm" confined
expect "no fallback crossed the border" uncrossed
result thp load thp 128
contiguity end
# Not with page_owner=on: stock 6.12 corrupts memory on a run-time 1 GB allocation then.
grep -q page_owner=on /proc/cmdline || result huge_1g huge_1g
echo 1 > $hostile/release
# its own kselftest: sizes, nonsense written to files, the border up and back
sh /lib/border.sh > /tmp/border || [ $? = 4 ] || failed=1
sed 's/^/@@ note /' /tmp/border
expect "the kselftest passes" [ -z "$failed" ]
counters counters
