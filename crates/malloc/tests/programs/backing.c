/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How much memory lies behind what a program asks for: objects of large alignment, locked memory,
 * hugepages that were broken and that khugepaged would fill up again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1ul << 20)
static char *objects[200000];

/* A line of a file under /proc/self, in its unit; -1 without. */
static long field(const char *file, const char *name)
{
	char line[256];
	FILE *status = fopen(file, "r");
	long value = -1;

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, name, strlen(name)))
			value = atol(line + strlen(name));
	if (status)
		fclose(status);
	return value;
}

static long mib(const char *name)
{
	return field("/proc/self/status", name) / 1024;
}

static int expect(const char *what, long value, long most)
{
	if (value > most)
		printf("%s: %ld MiB, at most %ld\n", what, value, most);
	return value > most;
}

static int aligned(size_t count, size_t bytes, size_t align)
{
	long before = mib("VmRSS:");

	for (size_t step = 1; step < 3; step++) {
		for (size_t at = 0; at < count; at += step) {
			if (posix_memalign((void **)&objects[at], align, bytes))
				return 1;
			if ((uintptr_t)objects[at] % align)
				return 2;
			memset(objects[at], 1, bytes);
		}
		/* What a heap begins with; the second time half was freed before. */
		long most = (long)(count * bytes / MIB * (step + 1) / 2) * 11 / 10 + 4;

		if (expect("aligned", mib("VmRSS:") - before, most))
			return 3;
		/* The second time every other one is new. */
		for (size_t at = 0; at < count; at += 2)
			free(objects[at]);
	}
	return 0;
}

static int locked(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 0;
	long before = mib("VmLck:"), data = mib("VmData:");
	int wrong = 0;

	for (size_t at = 0; at < 46 * 256; at++)
		memset(objects[at] = malloc(4096), 1, 4096);
	wrong |= expect("mapped for 46 MiB", mib("VmData:") - data, 46 * 3 / 2);
	for (size_t at = 46 * 256; at < 300 * 256; at++)
		memset(objects[at] = malloc(4096), 1, 4096);
	wrong |= expect("locked for 300 MiB", mib("VmLck:") - before, 330);
	/* Memory that cannot go back is used again. */
	for (int round = 0; round < 5; round++) {
		for (size_t at = 0; at < 300 * 256; at++)
			free(objects[at]);
		for (size_t at = 0; at < 300 * 256; at++)
			memset(objects[at] = malloc(4096), 1, 4096);
	}
	return wrong | expect("locked in the end", mib("VmLck:") - before, 330);
}

/* A hugepage that holds few pages only is none that may be filled up again. */
static int broken(void)
{
	size_t bytes = 64 << 10, count = 2000;

	for (size_t at = 0; at < count; at++)
		memset(objects[at] = malloc(bytes), 1, bytes);
	/* The first half stays whole; of each hugepage of the rest one object stays. */
	for (size_t at = 0; at < count; at++)
		if (at > count / 2 && at % 32)
			free(objects[at]);
	for (size_t at = (count / 2 + 32) / 32 * 32; at < count; at += 32) {
		unsigned char resident[512];
		char line[512], *start = (char *)((uintptr_t)objects[at] & -(2 * MIB));
		size_t pages = 0, from, to;
		int inside = 0, marked = 0;

		if (mincore(start, 2 * MIB, resident))
			continue;
		for (int page = 0; page < 512; page++)
			pages += resident[page] & 1;
		FILE *maps = fopen("/proc/self/smaps", "r");

		while (maps && fgets(line, sizeof(line), maps)) {
			if (sscanf(line, "%zx-%zx ", &from, &to) == 2)
				inside = from <= (size_t)start && (size_t)start < to;
			if (inside && !strncmp(line, "VmFlags:", 8))
				marked = strstr(line, " hg") ? 0 : 1;
		}
		fclose(maps);
		if (pages < 256 && !marked) {
			printf("%zu of 512 pages, and khugepaged may fill it\n", pages);
			return 1;
		}
	}
	return 0;
}

/* Of an object of 4 GiB a few pages are used; the next one fills up. */
static int sparse(void)
{
	size_t bytes = 4ul << 30;
	char *object = malloc(bytes), modes[64] = "";
	FILE *thp = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

	if (!object || !thp || !fgets(modes, sizeof(modes), thp) || !strstr(modes, "[madvise]"))
		return 0;
	for (size_t at = 0; at < bytes; at += 2 * MIB)
		object[at] = 1;
	if (expect("sparse", mib("VmRSS:"), 24))
		return 1;
	free(object);
	object = malloc(bytes);
	memset(object, 1, 128 * MIB);
	for (int round = 0; round < 600; round++) {
		free(malloc(300000));
		usleep(50000);
		if (field("/proc/self/smaps_rollup", "AnonHugePages:") / 1024 >= 100)
			return 0;
	}
	printf("%ld\n", field("/proc/self/smaps_rollup", "AnonHugePages:"));
	return 1;
}

int main(int count, char **arguments)
{
	int wrong = 1, kind = *arguments[1];

	if (count == 4)
		wrong = aligned(strtoul(arguments[1], NULL, 0), strtoul(arguments[2], NULL, 0),
				strtoul(arguments[3], NULL, 0));
	else if (count == 2)
		wrong = kind == 'l' ? locked() : kind == 'b' ? broken() : sparse();
	puts(wrong ? "wrong" : "ok");
	return wrong;
}
