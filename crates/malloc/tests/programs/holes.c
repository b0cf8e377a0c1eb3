/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program frees nine in ten of its small objects, so that nearly every span keeps a live one. The
 * native pages without a live object go back: at once when it asks for that (trim), or while it
 * does little else (idle), also if none of its calls leaves the caches of a processor (cached).
 * What stays keeps what was written; what went back is used again.
 *
 * Usage: holes trim|idle|cached runs|random MIB [always]; with always, no bound holds for what
 * stays.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"

#define MOST 1000000
#define RUN 60
#define MIB 1048576.0

static unsigned char *objects[MOST];
static uint16_t sizes[MOST];
static size_t count;
static uint64_t seed = 88172645463325252u;

static unsigned next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 20);
}

static double resident_mib(void)
{
	return (double)resident_kib() / 1024;
}

static void make(size_t at, unsigned least, unsigned most)
{
	sizes[at] = (uint16_t)(least + next_random() % (most - least));
	objects[at] = malloc(sizes[at]);
	memset(objects[at], (int)(at % 251) + 1, sizes[at]);
}

static void check_all(void)
{
	for (size_t at = 0; at < count; at++)
		for (size_t byte = 0; objects[at] && byte < sizes[at]; byte++)
			if (objects[at][byte] != at % 251 + 1) {
				printf("object %zu was damaged at byte %zu\n", at, byte);
				exit(2);
			}
}

static int by_number(const void *one, const void *other)
{
	uintptr_t a = *(const uintptr_t *)one, b = *(const uintptr_t *)other;

	return a < b ? -1 : a > b;
}

/* What no allocator that does not move objects can go below: native pages with a live byte. */
static double least_mib(double *live)
{
	static uintptr_t pages[2 * MOST];
	size_t all = 0, distinct = 0;

	*live = 0;
	for (size_t at = 0; at < count; at++)
		if (objects[at]) {
			pages[all++] = (uintptr_t)objects[at] >> 12;
			pages[all++] = ((uintptr_t)objects[at] + sizes[at] - 1) >> 12;
			*live += sizes[at] / MIB;
		}
	qsort(pages, all, sizeof(pages[0]), by_number);
	for (size_t at = 0; at < all; at++)
		distinct += at == 0 || pages[at] != pages[at - 1];
	memset(pages, 0, sizeof(pages));
	return (double)distinct * 4096 / MIB;
}

int main(int arguments, char **argument)
{
	int trims = arguments > 1 && !strcmp(argument[1], "trim");
	size_t call = arguments > 1 && !strcmp(argument[1], "cached") ? 100 : 300000;
	int runs = arguments > 2 && !strcmp(argument[2], "runs"), bound = arguments < 5;
	double wanted = arguments > 3 ? atof(argument[3]) : 128, made = 0, live;
	unsigned least = runs ? 500 : 300, most = runs ? 2000 : 900;

	/* The tables have memory from the beginning. */
	memset(objects, 1, sizeof(objects));
	memset(sizes, 1, sizeof(sizes));
	least_mib(&live);
	double before = resident_mib();

	for (; made < wanted && count < MOST; made += sizes[count++] / MIB)
		make(count, least, most);
	double full = resident_mib() - before;

	for (size_t at = 0; at < count; at++)
		if (runs ? at / RUN % 10 : next_random() % 10) {
			free(objects[at]);
			objects[at] = NULL;
		}
	double dropped = resident_mib() - before, pages = least_mib(&live), left = dropped;
	double allowed = 1.3 * live > 1.05 * pages ? 1.3 * live : 1.05 * pages;

	allowed += 10;
	if (!trims && !runs)
		/* Half of what stays lies on hugepages that are whole. */
		allowed = 0.75 * full;
	if (trims)
		malloc_trim(0);
	for (int tick = 0; !trims && tick < 900 && (tick < 200 || left > allowed); tick++) {
		usleep(100000);
		for (int i = 0; i < 20; i++)
			free(malloc(call));
		left = resident_mib() - before;
	}
	left = resident_mib() - before;
	printf("%.0f MiB full, %.0f dropped, %.0f left, %.1f live on %.0f\n", full, dropped, left,
	       live, pages);
	struct mallinfo2 info = mallinfo2();

	if (bound && left > allowed)
		return 3;
	/* What the allocator says that it has is what the kernel says. */
	if (bound && info.arena / MIB > left + 8) {
		printf("%.0f MiB by mallinfo2\n", info.arena / MIB);
		return 4;
	}
	check_all();
	for (size_t at = 0; at < count; at++)
		if (!objects[at])
			make(at, least, most);
	check_all();
	double again = resident_mib() - before;

	info = mallinfo2();
	if (bound && (again > 1.15 * full + 10 || info.arena / MIB < again - 16)) {
		printf("%.0f MiB again, %.0f by mallinfo2\n", again, info.arena / MIB);
		return 5;
	}
	for (size_t at = 0; at < count; at++)
		free(objects[at]);
	malloc_trim(0);
	if (bound && resident_mib() - before > 16) {
		printf("%.0f MiB are left in the end\n", resident_mib() - before);
		return 6;
	}
	puts("ok");
	return 0;
}
