# SPDX-License-Identifier: GPL-2.0-only
# A journal holds the buffers of a file system's metadata for as long as it pleases, though they are
# asked for as movable pages: they lie below the border, too. Boot with page_owner=on.
disk
insmod /lib/modules/ample_hostile.ko
mkdir -p /mnt/t
load churn /mnt/t 400 2 1
load fork 2 16
sync
expect "no buffer of a block device above the border" confined __getblk_slow
counters counters
