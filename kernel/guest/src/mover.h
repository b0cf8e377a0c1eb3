/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory whose pages move while a program uses them, for the programs mover*.c. */
#ifndef MOVER_H
#define MOVER_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "../module/ample_mover.h"

#define PAGE 4096UL

static char *buffer;
static unsigned long pages, wanted;
static uint64_t begun;
static int over;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static uint64_t drawn(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void allocate(const char *mib)
{
	pages = strtoul(mib, NULL, 0) << 8;
	buffer = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (!pages || buffer == MAP_FAILED)
		die("mover: memory");
	madvise(buffer, pages * PAGE, MADV_NOHUGEPAGE);
	memset(buffer, 0, pages * PAGE);
}

static int opened(void)
{
	int fd = open("/dev/ample_mover", O_RDWR);

	if (fd < 0)
		die("/dev/ample_mover");
	return fd;
}

/* Moves ranges, as they are drawn, until enough have begun, or nothing moves any more. */
static void move_ranges(struct mover_range (*draw)(uint64_t *state))
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	unsigned long idle = 0;
	int fd = opened();

	while (begun < wanted && idle < 100) {
		struct mover_range range = draw(&state);

		if (ioctl(fd, MOVER_MOVE, &range))
			die("mover: move");
		begun += range.moved;
		idle = range.moved ? 0 : idle + 1;
	}
	close(fd);
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
}

static inline struct mover_range of_buffer(uint64_t *state)
{
	unsigned long at = drawn(state) % pages, run = drawn(state) % 256 + 1;

	return (struct mover_range){
		.address = (uintptr_t)buffer + at * PAGE,
		.pages = at + run > pages ? pages - at : run,
	};
}

/* A thread that moves the buffer. */
static inline void *mover(void *arg)
{
	(void)arg;
	move_ranges(of_buffer);
	return NULL;
}

/* Waits until what has begun is over; the counts then. */
static struct mover_counts settled(void)
{
	struct mover_counts c;
	int fd = opened();

	for (int i = 0; i < 500; i++) {
		if (ioctl(fd, MOVER_COUNTS, &c))
			die("mover: counts");
		if (c.installed == c.cleared)
			break;
		usleep(20000);
	}
	close(fd);
	return c;
}

static int report(double took, uint64_t operations, uint64_t wrong, uint64_t told)
{
	struct mover_counts c = settled();

	printf("{\"moves\": %lu, \"operations\": %lu, \"wrong\": %lu, \"told\": %lu, "
	       "\"installed\": %llu, \"copied\": %llu, \"cleared\": %llu, \"full\": %llu, "
	       "\"refused\": %llu, \"seconds\": %.1f}\n", begun, operations, wrong, told,
	       c.installed, c.copied, c.cleared, c.full, c.refused, took);
	return wrong || begun < wanted;
}

static inline void fill(uint64_t *page, uint64_t what)
{
	for (unsigned long i = 0; i < PAGE / 8; i++)
		page[i] = (what << 16 | i) * 0x9e3779b97f4a7c15ULL;
}

static inline uint64_t differs(const uint64_t *page, uint64_t what)
{
	uint64_t wrong = 0;

	for (unsigned long i = 0; i < PAGE / 8; i++)
		wrong += page[i] != (what << 16 | i) * 0x9e3779b97f4a7c15ULL;
	return wrong;
}

#endif
