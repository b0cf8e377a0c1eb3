/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the load programs share: random numbers, clocks, and the kernel's view of this process. */
#ifndef AMPLE_BENCH_COMMON_H
#define AMPLE_BENCH_COMMON_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* splitmix64: good enough, and one multiplication cheaper than the allocators measured. */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline double unit_random(uint64_t *state)
{
	return (double)(next_random(state) >> 11) / 9007199254740992.0;
}

/* 2^x by table-free arithmetic, so that the programs need no libm. */
static inline double power_of_two(double x)
{
	double fraction = x - (int)x, term = 1, sum = 1;

	for (int i = 1; i < 12; i++)
		sum += term *= fraction * 0.6931471805599453 / i;
	return sum * (double)(1ull << (int)x);
}

/* Log-uniform between two powers of two. */
static inline size_t log_uniform(uint64_t *state, double low_log2, double high_log2)
{
	return (size_t)power_of_two(low_log2 + (high_log2 - low_log2) * unit_random(state));
}

static inline double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* RSS and the part of it on transparent hugepages, in KiB, without using the allocator. */
static inline void resident(long *rss_kib, long *huge_kib)
{
	static char text[8192];
	char *at;
	int fd = open("/proc/self/smaps_rollup", O_RDONLY);

	*rss_kib = *huge_kib = -1;
	if (fd < 0)
		return;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return;
	text[len] = 0;
	if ((at = strstr(text, "\nRss:")))
		*rss_kib = atol(at + 5);
	if ((at = strstr(text, "AnonHugePages:")))
		*huge_kib = atol(at + 14);
}

#endif
