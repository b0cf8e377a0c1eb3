// SPDX-License-Identifier: GPL-2.0-only
/*
 * Confinement oracle: count allocated pages whose allocation was not movable
 * and that lie at or above the border, from the records of page_owner on stdin.
 *
 * usage: owner [BASE:]BORDER[,BASE:BORDER]... [FUNCTION|since=NS] < /sys/kernel/debug/page_owner
 *
 * BASE and BORDER are pfns: where the memory of each node begins, ascending, and its border.
 *
 * With FUNCTION, pages that it allocated count however it asked for them. With since=, pages that
 * were allocated before that time are counted apart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 16 };
static struct { unsigned long base, border; } nodes[NODES_MAX];
static int nr_nodes;

/* Returns 0 if @text is no list of borders. */
static int parse_borders(const char *text)
{
	char *end;

	for (; nr_nodes < NODES_MAX; text = end + 1) {
		nodes[nr_nodes].border = strtoul(text, &end, 0);
		if (*end == ':') {
			nodes[nr_nodes].base = nodes[nr_nodes].border;
			nodes[nr_nodes].border = strtoul(end + 1, &end, 0);
		}
		if (end == text || (*end && *end != ','))
			return 0;
		nr_nodes++;
		if (!*end)
			return 1;
	}
	return 0;
}

static int is_above(unsigned long pfn)
{
	int i = nr_nodes - 1;

	while (i && pfn < nodes[i].base)
		i--;
	return pfn >= nodes[i].border;
}

int main(int argc, char **argv)
{
	unsigned long pfn, order = 0, records = 0, low = 0, above = 0, strays = 0, older = 0;
	unsigned long long since = 0, at = 0;
	const char *function = argc == 3 ? argv[2] : NULL;
	static char line[512], how[512];
	int shown = 0, tell = 0, candidate = 0;

	if (function && sscanf(function, "since=%llu", &since) == 1)
		function = NULL;
	if (argc < 2 || argc > 3 || !parse_borders(argv[1])) {
		fprintf(stderr, "usage: owner [BASE:]BORDER[,BASE:BORDER]... [FUNCTION|since=NS] "
			"< page_owner\n");
		return 2;
	}
	while (fgets(line, sizeof(line), stdin)) {
		char *p = strstr(line, "order ");
		int movable;

		if (!strncmp(line, "Page allocated", 14) && p) {
			order = strtoul(p + 6, NULL, 10);
			strcpy(how, line);
			p = strstr(line, ", ts ");
			at = p ? strtoull(p + 5, NULL, 10) : 0;
			tell = candidate = 0;
			continue;
		}
		if (candidate && strstr(line, function)) {
			above += 1UL << order;
			candidate = 0;
		}
		/* the rest of the record of a page that is told of */
		if (tell && *line != '\n')
			fprintf(stderr, "%s", line);
		if (sscanf(line, "PFN 0x%lx", &pfn) != 1 && sscanf(line, "PFN %lu", &pfn) != 1)
			continue;
		movable = !!strstr(line, "type Movable Block");
		candidate = movable && is_above(pfn) && function;
		records++;
		if (movable)
			strays += is_above(pfn) ? 0 : 1UL << order;
		else if (is_above(pfn) && at < since)
			older += 1UL << order;
		else if (is_above(pfn))
			above += 1UL << order;
		else
			low += 1UL << order;
		tell = !movable && is_above(pfn) && at >= since && shown++ < 4;
		if (tell)
			fprintf(stderr, "above: %s%s", line, how);
	}
	printf("{\"schema\": \"ample.owner/1\", \"records\": %lu, \"border_pfn\": %lu, "
	       "\"unmovable_above_border_pages\": %lu, "
	       "\"older_above_border_pages\": %lu, \"unmovable_below_border_pages\": %lu, "
	       "\"movable_below_border_pages\": %lu}\n", records, nodes[0].border, above, older, low,
	       strays);
	return above ? 1 : 0;
}
