/* SPDX-License-Identifier: GPL-2.0-only */
/* What programs ask of /dev/ample_mover: test load for the guest only. */
#ifndef AMPLE_MOVER_H
#define AMPLE_MOVER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * Move the pages of [address, address + 4096 * pages) of a process, 0 for the caller; moved: how
 * many have begun to. Pages that are not there are left out.
 */
struct mover_range {
	__u64 address;
	__u32 pages;
	__u32 moved;
	__u32 pid;
	__u32 unused;
};

/*
 * Pin that range for long term, and let a device of memory's own run on it: it adds to words of the
 * upper half of each page, by its physical address. Ended with the file.
 */
struct mover_pin {
	__u64 address;
	__u32 pages;
	__u32 flags;
};

#define MOVER_STAY	1	/* the holder does not take its pins to other pages */
#define MOVER_QUIET	2	/* the device does nothing */

/* What the device has added: 256 words a page, into memory at `words`. It stops. */
struct mover_sums {
	__u64 words;
	__u64 bursts;
	__u64 told;	/* pages that it took its pin to */
};

/* One write of a register as it is, for bad input; status: of the record, if it was a doorbell. */
struct mover_write {
	__u32 reg;
	__u32 status;
	__u64 value;
};

struct mover_counts {
	__u64 installed, copied, cleared, full, refused;
	__u32 table_entries, cacheable;
};

#define MOVER_MOVE	_IOWR('A', 1, struct mover_range)
#define MOVER_PIN	_IOW('A', 2, struct mover_pin)
#define MOVER_SUMS	_IOWR('A', 3, struct mover_sums)
#define MOVER_WRITE	_IOWR('A', 4, struct mover_write)
#define MOVER_COUNTS	_IOR('A', 5, struct mover_counts)

#endif
