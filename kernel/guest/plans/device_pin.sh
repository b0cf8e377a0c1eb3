# SPDX-License-Identifier: GPL-2.0-only
# Memory of a device is pinned for long: it has no border, and the pin returns. Boot with
# --device-mib. Runs on either kernel.
dax=/sys/bus/dax
for block in /sys/devices/system/memory/memory*; do
	[ "$(cat $block/online)" = 1 ] || continue
	case $(readlink -f $block/node1) in *node1) echo 0 > $block/online ;; esac
done
for driver in $dax/drivers/*; do
	[ -e $driver/dax0.0 ] && [ ${driver##*/} != device_dax ] && echo dax0.0 > $driver/unbind
done
echo dax0.0 > $dax/drivers/device_dax/new_id 2>/dev/null
echo dax0.0 > $dax/drivers/device_dax/bind 2>/dev/null
expect "there is a device with memory" [ -c /dev/dax0.0 ]
timeout -s KILL 60 pins device /dev/dax0.0 > /tmp/pinned 2>/tmp/err
expect "the pin returned" [ $? = 0 ]
sed 's/^/@@ note /' /tmp/err
result device_pin cat /tmp/pinned
