/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two physical pages as one memory. A guest's memory is a shared file that its emulator maps once;
 * a page of that mapping can be laid over any page of the file. While a migration is installed the
 * destination's place shows the source's page of the file; once it has been copied and is cleared,
 * the source's place shows what the destination's page was. No byte is copied, and a thread that
 * reads or writes meanwhile finds the place before or after: the kernel replaces a mapping under
 * the lock that page faults take.
 */
#ifndef AMPLE_ALIAS_H
#define AMPLE_ALIAS_H

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FRAME_SHIFT = 12, NO_FRAME = -1 };
enum alias_op { ALIAS_BOTH = 1, ALIAS_SETTLE, ALIAS_UNDO };

struct aliases {
	int file;		/* the guest's memory */
	char *base;		/* where it is mapped */
	uint64_t frames;
	uint64_t low;		/* bytes of it below 4 GiB; the rest begins at 4 GiB */
	uint64_t *backing;	/* by frame of memory: frame of the file behind it */
	int advised;		/* give each mapping the advice that QEMU has given the whole */
};

/* Whether a line of /proc/self/maps is of a file; its bounds and offset. */
static int maps_line(const char *line, const char *path, uint64_t at[3])
{
	int name = 0;
	size_t length = strlen(path);

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &at[0], &at[1],
		   &at[2], &name) < 3 || !name)
		return 0;
	return strncmp(line + name, path, length) == 0 && strchr("\n", line[name + length]);
}

/* Finds the one mapping of a whole file of `bytes` bytes; NULL if there is no such, or several. */
static char *mapping_of(const char *path, uint64_t bytes)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4352];
	uint64_t at[3];
	char *found = NULL;
	int count = 0;

	if (!maps)
		return NULL;
	while (fgets(line, sizeof(line), maps)) {
		if (!maps_line(line, path, at))
			continue;
		count++;
		if (at[2] == 0 && at[1] - at[0] == bytes)
			found = (char *)(uintptr_t)at[0];
	}
	fclose(maps);
	return count == 1 ? found : NULL;
}

/* Every place shows its own page; 0 or -errno. */
static int alias_begin(struct aliases *a, int file, char *base, uint64_t bytes, uint64_t low)
{
	a->file = file;
	a->base = base;
	a->frames = bytes >> FRAME_SHIFT;
	a->low = low;
	a->backing = malloc(a->frames * sizeof(*a->backing));
	if (!a->backing)
		return -ENOMEM;
	for (uint64_t frame = 0; frame < a->frames; frame++)
		a->backing[frame] = frame;
	return 0;
}

/* The frame of memory at a physical address of the guest; NO_FRAME where there is none. */
static int64_t frame_at(const struct aliases *a, uint64_t pa)
{
	const uint64_t high = 1ull << 32;

	if (pa >= high)
		pa = pa - high + a->low;
	else if (pa >= a->low)
		return NO_FRAME;
	pa >>= FRAME_SHIFT;
	return pa < a->frames ? (int64_t)pa : NO_FRAME;
}

/* The first frames of two equally long ranges of memory that have none in common; 0 or -errno. */
static int frames_of(const struct aliases *a, const uint64_t pa[2], uint64_t pages,
		     uint64_t first[2])
{
	for (int i = 0; i < 2; i++) {
		int64_t frame = frame_at(a, pa[i]), last;

		if (frame == NO_FRAME || pages == 0 || pages > a->frames ||
		    pa[i] & ((1u << FRAME_SHIFT) - 1))
			return -EINVAL;
		last = frame_at(a, pa[i] + ((pages - 1) << FRAME_SHIFT));
		if (last != frame + (int64_t)pages - 1)
			return -EINVAL;
		first[i] = (uint64_t)frame;
	}
	if (first[0] < first[1] + pages && first[1] < first[0] + pages)
		return -EINVAL;
	return 0;
}

/*
 * Lays the pages of the file that belong to the frames from `first` on over the places from `place`
 * on: one call for each run of pages that follow each other in the file; 0 or -errno.
 */
static int lay(const struct aliases *a, uint64_t place, uint64_t first, uint64_t pages)
{
	for (uint64_t at = 0, run; at < pages; at += run) {
		uint64_t back = a->backing[first + at];
		char *where = a->base + ((place + at) << FRAME_SHIFT);

		for (run = 1; at + run < pages; run++)
			if (a->backing[first + at + run] != back + run)
				break;
		if (mmap(where, run << FRAME_SHIFT, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, a->file,
			 (off_t)(back << FRAME_SHIFT)) == MAP_FAILED)
			return -errno;
		/* What lies in order again is one mapping again where all flags are the same. */
		if (a->advised) {
			madvise(where, run << FRAME_SHIFT, MADV_HUGEPAGE);
			madvise(where, run << FRAME_SHIFT, MADV_DONTFORK);
		}
	}
	return 0;
}

/* Carries out a request for `pages` pages at two physical addresses; 0 or -errno. */
static int64_t alias_do(struct aliases *a, uint64_t op, uint64_t src, uint64_t dst, uint64_t pages)
{
	uint64_t first[2], swapped;
	int failed = frames_of(a, (uint64_t[2]){ src, dst }, pages, first);

	if (failed)
		return failed;
	switch (op) {
	case ALIAS_BOTH:
		return lay(a, first[1], first[0], pages);
	case ALIAS_UNDO:
		return lay(a, first[1], first[1], pages);
	case ALIAS_SETTLE:
		failed = lay(a, first[0], first[1], pages);
		if (failed)
			return failed;
		for (uint64_t i = 0; i < pages; i++) {
			swapped = a->backing[first[0] + i];
			a->backing[first[0] + i] = a->backing[first[1] + i];
			a->backing[first[1] + i] = swapped;
		}
		return 0;
	}
	return -EINVAL;
}

#endif
