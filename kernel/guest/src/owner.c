// SPDX-License-Identifier: GPL-2.0-only
/*
 * Confinement oracle: count allocated pages whose allocation was not movable
 * and that lie at or above a pfn, from the records of page_owner on stdin.
 *
 * usage: owner BORDER_PFN [FUNCTION] < /sys/kernel/debug/page_owner
 *
 * With FUNCTION, pages that it allocated count however it asked for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	unsigned long border, pfn, order = 0, records = 0, low = 0, above = 0, strays = 0;
	static char line[512], how[512];
	int shown = 0, tell = 0, candidate = 0;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: owner BORDER_PFN [FUNCTION] < page_owner\n");
		return 2;
	}
	border = strtoul(argv[1], NULL, 0);
	while (fgets(line, sizeof(line), stdin)) {
		char *p = strstr(line, "order ");
		int movable;

		if (!strncmp(line, "Page allocated", 14) && p) {
			order = strtoul(p + 6, NULL, 10);
			strcpy(how, line);
			tell = candidate = 0;
			continue;
		}
		if (candidate && strstr(line, argv[2])) {
			above += 1UL << order;
			candidate = 0;
		}
		/* the rest of the record of a page that is told of */
		if (tell && *line != '\n')
			fprintf(stderr, "%s", line);
		if (sscanf(line, "PFN 0x%lx", &pfn) != 1 && sscanf(line, "PFN %lu", &pfn) != 1)
			continue;
		movable = !!strstr(line, "type Movable Block");
		candidate = movable && pfn >= border && argc == 3;
		records++;
		if (movable)
			strays += pfn < border ? 1UL << order : 0;
		else if (pfn >= border)
			above += 1UL << order;
		else
			low += 1UL << order;
		tell = !movable && pfn >= border && shown++ < 4;
		if (tell)
			fprintf(stderr, "above: %s%s", line, how);
	}
	printf("{\"schema\": \"ample.owner/1\", \"records\": %lu, \"border_pfn\": %lu, "
	       "\"unmovable_above_border_pages\": %lu, \"unmovable_below_border_pages\": %lu, "
	       "\"movable_below_border_pages\": %lu}\n", records, border, above, low, strays);
	return above ? 1 : 0;
}
