# SPDX-License-Identifier: GPL-2.0-only
# Services whose memory moves while they serve, by the engine of the emulated machine; every value
# that comes back is compared.
# ample.moves=N of each, ample.keys=N of 1,000 bytes
moves=${moves:-20000} keys=${keys:-2048}
insmod /lib/modules/ample_mover.ko
# Pages of a huge page do not move so.
echo never > /sys/kernel/mm/transparent_hugepage/enabled
expect "the engine has a driver" [ -c /dev/ample_mover ]

# served NAME PORT: once the service listens
served() {
	await $2
	result $1 mover_service $1 $service $keys $moves
	expect "$1: all is as stored" [ "${out#*\"wrong\": 0,}" != "$out" ]
	kill $service
}

redis-server --save '' --port 6379 --dir /tmp > /tmp/redis.log & service=$!
served redis 6379
memcached -u nobody -m 64 -l 127.0.0.1 -t 2 & service=$!
served memcached 11211
expect "the driver goes when all is over" rmmod ample_mover
