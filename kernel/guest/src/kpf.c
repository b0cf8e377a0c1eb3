// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contiguity of this machine from /proc/kpageflags, as one JSON object.
 *
 * usage: kpf [BORDER_PFN]
 *
 * Unmovable (definition K): a present page that is neither free, on an LRU
 * list, mapped, anonymous nor a hugetlb page. Pages without any flag may be
 * free ones on a per-CPU list: they are counted apart ("bare"), and figures
 * with them taken as free end in _min. Linux 7.3 reports no flag for a hole as
 * well, where 6.12 has one of its own: what /proc/iomem does not call System
 * RAM is absent then.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LRU = 5, SLAB = 7, BUDDY = 10, MMAP = 11, ANON = 12, HUGE = 17, NOPAGE = 20, THP = 22,
       OFFLINE = 23, ZERO = 24, PGTABLE = 26, RESERVED = 32 };
#define BIT(n) (1ULL << (n))

enum kind { ABSENT, FREE, MOVABLE, BARE, UNMOVABLE };

static enum kind kind_of(uint64_t f)
{
	if (f & BIT(NOPAGE))
		return ABSENT;
	if (f & BIT(BUDDY))
		return FREE;
	if (f & (BIT(LRU) | BIT(MMAP) | BIT(ANON) | BIT(HUGE)))
		return f & BIT(ZERO) ? UNMOVABLE : MOVABLE;
	return f ? UNMOVABLE : BARE;
}

/* Whether pfn is in memory; *until is the next pfn of which that may not hold. */
static int in_memory(unsigned long pfn, unsigned long *until)
{
	static struct { unsigned long first, end; } ram[64];
	static int n = -1;
	char line[256];
	FILE *f;

	if (n < 0) {
		f = fopen("/proc/iomem", "r");
		for (n = 0; f && n < 64 && fgets(line, sizeof(line), f);) {
			unsigned long first, last;

			if (line[0] == ' ' || !strstr(line, " : System RAM") ||
			    sscanf(line, "%lx-%lx", &first, &last) != 2)
				continue;
			ram[n].first = first >> 12;
			ram[n++].end = (last + 1) >> 12;
		}
		if (f)
			fclose(f);
	}
	*until = -1UL;
	for (int i = 0; i < n; i++) {
		if (pfn < ram[i].first) {
			*until = ram[i].first;
			return 0;
		}
		if (pfn < ram[i].end) {
			*until = ram[i].end;
			return 1;
		}
	}
	/* Without a list everything is memory. */
	return !n;
}

struct counts {
	unsigned long present, clean, clean_min, unmov, unmov_min, inner_free;
};

/* Sum over aligned blocks of 2^order pages; kinds[] has one byte a page. */
static struct counts blocks(const uint8_t *kinds, unsigned long n, int order)
{
	struct counts c = { 0 };
	unsigned long size = 1UL << order, i, j;

	for (i = 0; i + size <= n; i += size) {
		int absent = 0, hard = 0, bare = 0, free = 0;

		for (j = i; j < i + size; j++) {
			free += kinds[j] == FREE;
			absent |= kinds[j] == ABSENT;
			hard |= kinds[j] == UNMOVABLE;
			bare |= kinds[j] == BARE;
		}
		if (absent)
			continue;
		c.present++;
		c.unmov += hard || bare;
		c.unmov_min += hard;
		c.inner_free += hard || bare ? free : 0;
		c.clean += !hard && !bare;
		c.clean_min += !hard;
	}
	return c;
}

static unsigned long free_blocks(const uint8_t *kinds, unsigned long n, int order)
{
	unsigned long size = 1UL << order, i, j, got = 0;

	for (i = 0; i + size <= n; i += size) {
		for (j = i; j < i + size && kinds[j] == FREE; j++)
			;
		got += j == i + size;
	}
	return got;
}

int main(int argc, char **argv)
{
	unsigned long border = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	unsigned long cap = 1 << 21, n = 0, total[5] = { 0 }, above = 0, above_bare = 0;
	unsigned long above_reserved = 0, below_movable = 0, slab = 0, pgtable = 0, reserved = 0;
	unsigned long until = 0;
	uint8_t *kinds = malloc(cap);
	static uint64_t buf[4096];
	int fd = open("/proc/kpageflags", O_RDONLY), order, memory = 1;
	static const int orders[] = { 9, 10, 13, 18 };
	ssize_t got;

	if (fd < 0 || !kinds) {
		perror("kpf: /proc/kpageflags");
		return 2;
	}
	while ((got = read(fd, buf, sizeof(buf))) > 0) {
		for (int i = 0; i < got / 8; i++, n++) {
			enum kind k = kind_of(buf[i]);

			if (n >= until)
				memory = in_memory(n, &until);
			if (k == BARE && !memory)
				k = ABSENT;
			if (n == cap)
				kinds = realloc(kinds, cap *= 2);
			if (!kinds)
				return 2;
			kinds[n] = k;
			total[k]++;
			slab += k != ABSENT && !!(buf[i] & BIT(SLAB));
			pgtable += k != ABSENT && !!(buf[i] & BIT(PGTABLE));
			reserved += k != ABSENT && !!(buf[i] & BIT(RESERVED));
			if (border && n >= border) {
				above += k == UNMOVABLE && !(buf[i] & BIT(RESERVED));
				above_reserved += k == UNMOVABLE && (buf[i] & BIT(RESERVED));
				above_bare += k == BARE;
			}
			below_movable += n < border && k == MOVABLE;
		}
	}
	/* PG_reserved holes at odd ends: sizes are of what has a struct page */
	printf("{\"schema\": \"ample.kpf/1\", \"definition\": \"K\", \"border_pfn\": %lu, ", border);
	printf("\"pages\": %lu, \"free_pages\": %lu, \"movable_pages\": %lu, ",
	       n - total[ABSENT], total[FREE], total[MOVABLE]);
	printf("\"unmovable_pages\": %lu, \"bare_pages\": %lu, \"reserved_pages\": %lu, ",
	       total[UNMOVABLE], total[BARE], reserved);
	printf("\"slab_pages\": %lu, \"pgtable_pages\": %lu, ", slab, pgtable);
	printf("\"above_border_unmovable_pages\": %lu, \"above_border_bare_pages\": %lu, "
	       "\"above_border_reserved_pages\": %lu, \"below_border_movable_pages\": %lu",
	       above, above_bare, above_reserved, below_movable);
	for (order = 0; order < 4; order++) {
		struct counts c = blocks(kinds, n, orders[order]);

		printf(", \"order%d\": {\"blocks\": %lu, \"unmovable_blocks\": %lu, "
		       "\"unmovable_blocks_min\": %lu, \"potential_blocks\": %lu, "
		       "\"potential_blocks_max\": %lu, \"free_blocks\": %lu, "
		       "\"free_pages_in_unmovable_blocks\": %lu}", orders[order],
		       c.present, c.unmov, c.unmov_min, c.clean, c.clean_min,
		       free_blocks(kinds, n, orders[order]), c.inner_free);
	}
	printf("}\n");
	return 0;
}
