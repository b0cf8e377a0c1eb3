# SPDX-License-Identifier: GPL-2.0-only
# Debian with systemd and services, booted as it is: nothing fails, the services answer, and memory
# is confined after boot and after a load. Boot with --root, and where there is a border with
# page_owner=on cgroup_disable=memory. Runs on either kernel.
mount -t tmpfs tmpfs /tmp
state=$(systemctl is-system-running --wait)
echo "@@ note failed units: $(systemctl --failed --plain --no-legend | tr '\n' ' ')"
units=$(systemctl list-units --state=active --plain --no-legend | wc -l)
boot_s=$(cut -d' ' -f1 /proc/uptime)
expect "the system is running" [ "$state" = running ]
for unit in systemd-journald systemd-udevd dbus nginx memcached redis-server; do
	expect "$unit is active" systemctl --quiet is-active $unit
done
expect "redis answers" sh -c 'redis-cli ping | grep -q PONG'
dmesg | grep contiguitas: | sed 's/^/@@ note /'
[ ! -d $ctg/node0 ] || expect "confined after boot" confined
contiguity boot
load churn /var/tmp 400 2 1 & churn=$!
redis-benchmark -q -n 4000 -d 4000 -t set,get > /dev/null
load fork 20 16
wait $churn
[ ! -d $ctg/node0 ] || expect "confined after a load" confined
contiguity load
result thp load thp 128
emit userland "\"state\": \"$state\", \"active_units\": $units, \"boot_s\": $boot_s, \
	\"region_mib\": $(region_mib)"
counters counters
