# SPDX-License-Identifier: GPL-2.0-only
# Pipes that hold pages of a file keep no whole GB of the movable region from becoming a huge page.
# Runs on either kernel; wants 6 GB or more and a disk.
disk
insmod /lib/modules/ample_hostile.ko
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
load cache /mnt/file $((total * 60 / 100)) > /dev/null
sync
held splice /mnt/file 80 > /tmp/splice &
while ! [ -s /tmp/splice ]; do sleep 0.2; done
emit splice "\"region_mib\": $(region_mib)"
result spliced cat /tmp/splice
result huge_1g huge_1g
got=$(load gigantic 6 | sed 's/.*"got": //; s/}//')
kill $!; wait $! 2>/dev/null
free=$(load gigantic 6 | sed 's/.*"got": //; s/}//')
emit splice_1g "\"while_held\": $got, \"after\": $free"
dd if=/dev/zero of=/dev/shm/file bs=1M count=32 2>/dev/null
for i in 1 2 3; do result sendfile held sendfile /dev/shm/file 20; done
expect "the pipes cost no huge page" [ "$got" -ge "$free" ]
