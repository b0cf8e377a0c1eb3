/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The entry points that no header of the C library declares any more, those of ample_malloc.h,
 * and statistics on demand of a signal. Usage: own_interface [FILE], where AMPLE_MALLOC=signal_to=
 * sends what SIGUSR1 asks for; without it no signal is sent.
 */
#define _GNU_SOURCE
#include "../../include/ample_malloc.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			dprintf(1, "line %d: %s\n", __LINE__, #condition);                \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

extern void cfree(void *) __attribute__((weak));
extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
extern __typeof__(ample_malloc_stats) ample_malloc_stats __attribute__((weak));
extern __typeof__(ample_malloc_profile) ample_malloc_profile __attribute__((weak));
extern __typeof__(ample_malloc_release) ample_malloc_release __attribute__((weak));
extern __typeof__(ample_malloc_owns) ample_malloc_owns __attribute__((weak));

static char text[1 << 16];

/* What is written to a descriptor by `write`, in `text`. */
static void written(void (*write)(int fd))
{
	int fd = memfd_create("written", 0);

	CHECK(fd >= 0);
	write(fd);
	ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
	CHECK(bytes > 0);
	text[bytes] = 0;
	close(fd);
}

static void page(int fd)
{
	ample_malloc_stats(fd, 0);
}

static void json(int fd)
{
	ample_malloc_stats(fd, 1);
}

static void metrics(int fd)
{
	ample_malloc_stats(fd, 2);
}

static void on_stderr(int fd)
{
	int before = dup(2);

	dup2(fd, 2);
	malloc_stats();
	dup2(before, 2);
	close(before);
}

static void frees(void)
{
	for (size_t bytes = 1; bytes < 2000000; bytes *= 3) {
		cfree(malloc(bytes));
		free_sized(malloc(bytes), bytes);
		free_aligned_sized(aligned_alloc(64, (bytes + 63) / 64 * 64), 64,
				   (bytes + 63) / 64 * 64);
	}
	free_sized(NULL, 1);
	cfree(NULL);
}

static void reports(void)
{
	char *large = malloc(8 << 20), local;
	struct mallinfo info = mallinfo();

	CHECK(info.uordblks >= 8 << 20);
	CHECK(ample_malloc_owns(large) && !ample_malloc_owns(&local) && !ample_malloc_owns(NULL));
	free(large);
	CHECK(!ample_malloc_owns(large));
	written(page);
	CHECK(!strncmp(text, "ample-malloc: bytes\n", 20) && strstr(text, "Size classes"));
	written(on_stderr);
	CHECK(!strncmp(text, "ample-malloc: bytes\n", 20));
	written(json);
	CHECK(!strncmp(text, "{\"schema\":\"ample.malloc-stats/1\",", 33));
	CHECK(text[strlen(text) - 2] == '}');
	written(metrics);
	CHECK(strstr(text, "\nample_malloc_backed_bytes ") && strstr(text, "\n# EOF\n"));
	written(ample_malloc_profile);
	CHECK(!strncmp(text, "heap profile: ", 14) && strstr(text, "MAPPED_LIBRARIES:"));
}

/* Memory goes back on demand, and what is live on the same hugepages stays. */
static void release(void)
{
	enum { OBJECTS = 2048, BYTES = 8192 };
	static char *objects[OBJECTS];

	for (int i = 0; i < OBJECTS; i++) {
		objects[i] = malloc(BYTES);
		memset(objects[i], i, BYTES);
	}
	for (int i = 0; i < OBJECTS; i++)
		if (i % 4)
			free(objects[i]);
	malloc_trim(SIZE_MAX / 2);
	size_t released = ample_malloc_release(1 << 20);

	CHECK(released >= 1 << 20 && released < 4 << 20);
	for (int i = 0; i < OBJECTS; i += 4) {
		CHECK(objects[i][0] == (char)i && objects[i][BYTES - 1] == (char)i);
		free(objects[i]);
	}
}

static void signalled(const char *path)
{
	struct stat status = {0};

	/* Without a call of the allocator after it. */
	CHECK(!kill(getpid(), SIGUSR1));
	CHECK(!stat(path, &status) && status.st_size > 0);
	int fd = open(path, O_RDONLY);

	CHECK(fd >= 0 && read(fd, text, 20) == 20 && !strncmp(text, "ample-malloc: bytes\n", 20));
}

int main(int argc, char **argv)
{
	CHECK(cfree && free_sized && free_aligned_sized && ample_malloc_stats);
	CHECK(ample_malloc_profile && ample_malloc_release && ample_malloc_owns);
	frees();
	reports();
	release();
	if (argc > 1)
		signalled(argv[1]);
	dprintf(1, "ok\n");
	return 0;
}
