# SPDX-License-Identifier: GPL-2.0-only
# Pages that move while they are in use, by the engine of the emulated machine (ample system
# engine): under long-term pins, under direct I/O, in buffers registered with io_uring, under
# zero-copy sends; bad commands; resets of the engine; little memory; a holder that does not let go.
# ample.moves=N of each kind, ample.mib=N of memory, ample.threads=N
moves=${moves:-20000} mib=${mib:-8} threads=${threads:-2}

# moved NAME COMMAND...: of what it writes nothing is lost
moved() {
	result "$@"
	expect "$1: all is as written" [ "${out#*\"wrong\": 0,}" != "$out" ]
}

insmod /lib/modules/ample_mover.ko
expect "the engine has a driver" [ -c /dev/ample_mover ]
moved bad mover bad
moved pinned mover pinned $mib $threads $moves
moved reset mover pinned $mib $threads $((moves / 4)) reset
disk
moved disk mover_io disk /mnt/moved $mib $moves
moved uring mover_io uring /mnt/moved $mib $moves
moved anew mover_io uring /mnt/moved $mib $((moves / 10)) anew
moved send mover_io send $mib $moves
total=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo) hogs=
hog ${user:-75}
moved short mover pinned $mib $threads $((moves / 4))
kill_hogs
# Its pages stay where they are held: what has begun ends with the holder.
moved stay mover pinned 1 $threads 1 stay
expect "the driver goes when all is over" rmmod ample_mover
