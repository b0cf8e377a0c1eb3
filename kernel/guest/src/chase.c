// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads whose translations are known beforehand, between the markers of marker.h.
 *
 * chase MIB STEPS SEED 4k|2m|1g	STEPS dependent loads over MIB of locked anonymous memory, along
 *					one random cycle through all its 4 KB pages: one load a page
 * chase fault MIB 4k|2m		one store to each 4 KB page of fresh memory, in ascending order
 *
 * 4k, 2m: without and with transparent huge pages; 1g: hugetlb pages of 1 GB, of which there must
 * be enough (nr_hugepages) and MIB a multiple of 1024. One JSON object is printed. The cycle
 * depends on SEED alone. Between the markers there is no access to memory but these, except what
 * the kernel does on its own.
 *
 * exit: 2 bad usage, or not enough memory of that kind
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "roi.h"

#define MIB (1UL << 20)
#define GIB (1UL << 30)
#define PAGE 4096UL
#define LINE 64UL
#define FRAME ((1UL << 55) - 1)	/* in a word of pagemap */
#define KPF_THP (1UL << 22)
#ifndef MAP_HUGE_1GB
#define MAP_HUGE_1GB (30 << 26)
#endif

static void die(const char *what)
{
	fprintf(stderr, "chase: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* SplitMix64: any seed will do, and neighbouring ones have nothing in common. */
static uint64_t rng(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static unsigned long number(const char *name, const char *text, unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || value > most) {
		fprintf(stderr, "chase: %s '%s' is no number from 0 to %lu\n", name, text, most);
		exit(2);
	}
	return value;
}

/* KiB of a page as asked for, 0 if it is none */
static unsigned int page_kib(const char *text)
{
	if (!strcmp(text, "4k"))
		return 4;
	if (!strcmp(text, "2m"))
		return 2048;
	return strcmp(text, "1g") ? 0 : 1 << 20;
}

/*
 * Aligned to 1 GB whatever the pages are: the tables of two runs with other pages then differ in
 * the lowest levels only, and the place does not depend on what else is mapped.
 */
static char *map(size_t bytes, unsigned int kib)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	char *p = mmap(NULL, bytes + GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	p = (char *)(((uintptr_t)p + GIB - 1) & ~(GIB - 1));
	if (kib == 1 << 20)
		flags |= MAP_HUGETLB | MAP_HUGE_1GB;
	p = mmap(p, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (p == MAP_FAILED)
		die(kib == 1 << 20 ? "1 GB pages: more of them (nr_hugepages), or a multiple of 1024 "
		    "for MIB" : "mmap");
	if (kib != 1 << 20 && madvise(p, bytes, kib == 4 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE) &&
	    kib != 4)
		die("MADV_HUGEPAGE");
	return p;
}

/* KiB of huge pages in that range: transparent ones, and those of hugetlb */
static void huge_pages(const char *p, size_t bytes, unsigned long *thp, unsigned long *hugetlb)
{
	unsigned long from, to, kib, first = (unsigned long)p;
	int inside = 0;
	char line[512];
	FILE *f = fopen("/proc/self/smaps", "r");

	*thp = *hugetlb = 0;
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from < first + bytes && to > first;
		else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
			*thp += kib;
		else if (inside && sscanf(line, "Private_Hugetlb: %lu kB", &kib) == 1)
			*hugetlb += kib;
	}
	if (f)
		fclose(f);
}

/*
 * KiB of that range on pages with the flag of transparent huge pages, from the tables that
 * page-types reads; 0 without the right to
 */
static unsigned long flagged_huge_kib(const char *p, size_t bytes)
{
	int map = open("/proc/self/pagemap", O_RDONLY), flags = open("/proc/kpageflags", O_RDONLY);
	uint64_t frame, flag;
	unsigned long kib = 0;

	for (size_t at = 0; at < bytes; at += PAGE) {
		if (pread(map, &frame, 8, ((uintptr_t)p + at) / PAGE * 8) != 8 ||
		    pread(flags, &flag, 8, (frame & FRAME) * 8) != 8)
			break;
		kib += flag & KPF_THP ? PAGE / 1024 : 0;
	}
	close(map);
	close(flags);
	return kib;
}

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/*
 * Sattolo's shuffle makes one cycle of all pages. A page's pointer lies in a line of its own,
 * so that the loads spread over the sets of a cache as far as physical pages let them.
 */
static void **cycle(char *p, size_t pages, uint64_t seed)
{
	size_t bytes = pages * sizeof(uint32_t);
	uint32_t *order = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	void **at, **first;

	if (order == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < pages; i++)
		order[i] = i;
	for (size_t i = pages - 1; i > 0; i--) {
		size_t j = rng(&seed) % i;
		uint32_t swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	first = at = (void **)(p + order[0] * PAGE + rng(&seed) % (PAGE / LINE) * LINE);
	for (size_t i = 1; i < pages; i++) {
		void **next = (void **)(p + order[i] * PAGE + rng(&seed) % (PAGE / LINE) * LINE);

		*at = next;
		at = next;
	}
	*at = first;
	munmap(order, bytes);
	return first;
}

/*
 * What is marked: each a function that calls nothing and holds all it has in registers, so that the
 * region has no access to the stack either, and within one page of code.
 */
#define MARKED static __attribute__((noinline, aligned(256)))

/* Three instructions a step, one of them a load. */
MARKED void **marked_walk(void **p, unsigned long steps)
{
	ample_marker_begin(steps);
	for (unsigned long left = steps; left; left--)
		p = *(void **volatile *)p;
	ample_marker_end(steps);
	return p;
}

MARKED void marked_stores(char *p, unsigned long pages)
{
	ample_marker_begin(pages);
	for (unsigned long left = pages; left; left--, p += PAGE)
		*(volatile char *)p = 1;
	ample_marker_end(pages);
}

static int chase(unsigned long mib, unsigned long steps, unsigned long seed, unsigned int kib)
{
	size_t bytes = mib * MIB, pages = bytes / PAGE;
	unsigned long thp, hugetlb;
	char *p = map(bytes, kib);
	void **at;
	long faults;

	for (size_t i = 0; i < pages; i++)
		p[i * PAGE] = 0;
	if (mlock(p, bytes))
		die("mlock");
	at = cycle(p, pages, seed);
	for (size_t i = 0; i < pages; i++)
		at = *(void **volatile *)at;
	roi_prepare();
	faults = minor_faults();
	at = marked_walk(at, steps);
	faults = minor_faults() - faults;
	roi_finish();
	huge_pages(p, bytes, &thp, &hugetlb);
	printf("{\"mib\": %lu, \"steps\": %lu, \"seed\": %lu, \"pages\": %zu, \"page_kib\": %u, "
	       "\"anon_huge_kib\": %lu, \"hugetlb_kib\": %lu, \"address\": %lu, "
	       "\"last_address\": %lu, \"pid\": %d, \"minor_faults\": %ld, "
	       "\"flagged_huge_kib\": %lu}\n", mib, steps, seed, pages, kib, thp, hugetlb,
	       (unsigned long)p, (unsigned long)at, getpid(), faults, flagged_huge_kib(p, bytes));
	return 0;
}

static int fault(unsigned long mib, unsigned int kib)
{
	size_t bytes = mib * MIB, pages = bytes / PAGE;
	unsigned long thp, hugetlb;
	char *p = map(bytes, kib);
	long faults;

	roi_prepare();
	faults = minor_faults();
	marked_stores(p, pages);
	faults = minor_faults() - faults;
	roi_finish();
	huge_pages(p, bytes, &thp, &hugetlb);
	printf("{\"mib\": %lu, \"pages\": %zu, \"page_kib\": %u, \"anon_huge_kib\": %lu, "
	       "\"address\": %lu, \"pid\": %d, \"minor_faults\": %ld}\n", mib, pages, kib, thp,
	       (unsigned long)p, getpid(), faults);
	return 0;
}

int main(int argc, char **argv)
{
	int faults = argc == 4 && !strcmp(argv[1], "fault");
	unsigned int kib = faults || argc == 5 ? page_kib(argv[argc - 1]) : 0;
	unsigned long mib;

	if (!kib || (faults && kib == 1 << 20)) {
		fprintf(stderr, "usage: chase MIB STEPS SEED 4k|2m|1g\n"
			"       chase fault MIB 4k|2m\n");
		return 2;
	}
	/* a page's number fits in 32 bits */
	mib = number("MIB", argv[faults ? 2 : 1], 1UL << 24);
	if (!mib || (kib == 2048 && mib % 2)) {
		fprintf(stderr, "chase: MIB %lu: at least 1, and even with 2m\n", mib);
		return 2;
	}
	if (faults)
		return fault(mib, kib);
	return chase(mib, number("STEPS", argv[2], ~0UL), number("SEED", argv[3], ~0UL), kib);
}
