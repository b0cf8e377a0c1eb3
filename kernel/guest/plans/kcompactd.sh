# SPDX-License-Identifier: GPL-2.0-only
# Movable memory of which every second page is free, and huge pages asked for as on a machine that
# lets nobody wait for them (defrag is "defer"): kcompactd has to make them. It once took a free
# block below the border for the one that was asked for, and never began. Runs on either kernel.
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
load holes $((total * 88 / 100)) 600 > /tmp/holes &
holes=$!
while ! [ -s /tmp/holes ] && kill -0 $holes; do sleep 0.5; done
echo defer > /sys/kernel/mm/transparent_hugepage/defrag
for part in 1 2 3 4; do
	result thp load thp 300
	sleep 3
done
scanned=$(vmstat compact_daemon_migrate_scanned)
emit kcompactd "\"wakes\": $(vmstat compact_daemon_wake), \"scanned\": $scanned, \
	\"migrated\": $(vmstat pgmigrate_success), \
	\"region_free_mib\": $(region_mib unmovable_free_bytes)"
kill $holes
expect "kcompactd works" [ $scanned -gt 0 ]
