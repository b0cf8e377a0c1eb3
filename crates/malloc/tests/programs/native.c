/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory that was touched while the kernel had no hugepage for it (here because the process had
 * turned them off) lies on hugepages some seconds after it has some again.
 *
 * usage: native [stays]   with an argument, the allocator has to leave it as it is (khugepaged may
 *                         not: how much that does depends on how long the program takes)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define OBJECTS 150000
#define HUGE_KIB 2048

static long huge_kib(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "AnonHugePages: %ld kB", &kib);
	if (file)
		fclose(file);
	return kib;
}

extern void ample_malloc_stats(int fd, int form);

/* A value of the allocator's statistics; -1 if it is missing. */
static long statistic(const char *name)
{
	FILE *file = tmpfile();
	static char text[1 << 16];
	size_t length;
	char *at;

	ample_malloc_stats(fileno(file), 1);
	rewind(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = 0;
	fclose(file);
	at = strstr(text, name);
	return at ? atol(at + strlen(name)) : -1;
}

/* Whether the kernel gives hugepages, and tells where (PAGEMAP_SCAN, Linux 6.7). */
static int able(void)
{
	size_t size = 4 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	unsigned long long argument[12] = { 0 };
	int told = ioctl(pagemap, 0xC0606610, argument) == 0 || errno != ENOTTY;
	long before = huge_kib();

	madvise(memory, size, MADV_HUGEPAGE);
	memset(memory, 1, size);
	told = told && huge_kib() >= before + HUGE_KIB;
	munmap(memory, size);
	close(pagemap);
	return told;
}

int main(int argc, char **argv)
{
	static char *objects[OBJECTS];
	struct timespec pause = { 0, 20000000 };
	long native, huge = 0, most = OBJECTS / 4, found;
	int stays = argc > 1 && !strcmp(argv[1], "stays");

	if (!able()) {
		puts("ok: not run, no hugepages or no way to tell where");
		return 0;
	}
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	for (int i = 0; i < OBJECTS; i++)
		objects[i] = memset(malloc(1000), 1, 1000);
	native = huge_kib();
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	/* Rounds come with slow calls; after a slow collapse the next one waits a minute. */
	for (int i = 0; i < (stays ? 400 : 15000) && huge < most; i++) {
		for (int j = 0; j < 1000; j++)
			objects[j] = realloc(objects[j], i % 2 ? 1000 : 3000);
		nanosleep(&pause, NULL);
		huge = huge_kib();
	}
	for (int i = 0; i < OBJECTS; i++)
		if (objects[i][999] != 1 && i >= 1000)
			return 2;
	found = statistic("\"found_native_hugepages\":");
	printf("%s: %ld KiB on hugepages, then %ld; %ld hugepages found to be native\n",
	       native < most / 4 && (stays ? found == 0 : huge >= most) ? "ok" : "wrong", native,
	       huge, found);
	return 0;
}
