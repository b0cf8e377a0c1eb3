/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every entry point of the C interface, once with good and once with bad arguments. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);           \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

static int aligned(void *object, size_t to)
{
	return (uintptr_t)object % to == 0;
}

static int overcommits_always(void)
{
	FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
	int mode = file ? fgetc(file) : '1';

	if (file)
		fclose(file);
	return mode == '1';
}

static void fill(void *object, size_t bytes)
{
	memset(object, 0xa5, bytes);
}

static void sizes(void)
{
	for (size_t bytes = 0; bytes < 600000; bytes = bytes * 9 / 8 + 1) {
		char *object = malloc(bytes);

		CHECK(object && aligned(object, 16) && malloc_usable_size(object) >= bytes);
		fill(object, malloc_usable_size(object));
		free(object);
	}
	void *first = malloc(0), *second = malloc(0);

	CHECK(first && second && first != second);
	free(first);
	free(second);
	free(NULL);
	CHECK(malloc_usable_size(NULL) == 0);
}

static void zeroed(void)
{
	for (size_t bytes = 1; bytes < 9000000; bytes *= 3) {
		char *dirty = malloc(bytes);

		fill(dirty, bytes);
		free(dirty);
		char *object = calloc(bytes, 1);

		CHECK(object);
		for (size_t i = 0; i < bytes; i++)
			CHECK(object[i] == 0);
		free(object);
	}
}

static void moved(void)
{
	char *object = NULL;

	for (size_t bytes = 1; bytes < 5000000; bytes = bytes * 5 / 4 + 1) {
		object = realloc(object, bytes);
		CHECK(object);
		object[bytes - 1] = (char)bytes;
		object[0] = 42;
	}
	for (size_t bytes = 5000000; bytes > 10; bytes = bytes * 3 / 4) {
		object = realloc(object, bytes);
		CHECK(object && object[0] == 42);
		object[bytes - 1] = 7;
	}
	CHECK(realloc(object, 0) == NULL);
	object = reallocarray(NULL, 10, 10);
	CHECK(object);
	errno = 0;
	CHECK(reallocarray(object, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
	free(object);
}

static void alignments(void)
{
	for (size_t align = 8; align <= (8u << 20); align *= 2) {
		for (size_t bytes = 1; bytes < 3000000; bytes = bytes * 7 + 3) {
			void *object = NULL;

			CHECK(posix_memalign(&object, align, bytes) == 0);
			CHECK(object && aligned(object, align));
			CHECK(malloc_usable_size(object) >= bytes);
			fill(object, bytes);
			free(object);
			object = aligned_alloc(align, bytes);
			CHECK(object && aligned(object, align));
			object = realloc(object, bytes * 2);
			CHECK(object);
			free(object);
			object = memalign(align, bytes);
			CHECK(object && aligned(object, align));
			free(object);
		}
	}
	void *page = valloc(10), *pages = pvalloc(5000);

	CHECK(page && aligned(page, 4096) && pages && aligned(pages, 4096));
	CHECK(malloc_usable_size(pages) >= 8192);
	free(page);
	free(pages);
}

static void refusals(void)
{
	void *object = (void *)1;

	errno = 0;
	CHECK(malloc(SIZE_MAX) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(malloc(PTRDIFF_MAX) == NULL && errno == ENOMEM);
	/* More than all memory and swap, which the kernel grants where it overcommits always. */
	errno = 0;
	CHECK(overcommits_always() || (malloc((size_t)64 << 40) == NULL && errno == ENOMEM));
	errno = 0;
	CHECK(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(aligned_alloc(24, 10) == NULL && errno == EINVAL);
	CHECK(posix_memalign(&object, 3, 10) == EINVAL && object == (void *)1);
	CHECK(posix_memalign(&object, 4, 10) == EINVAL);
	CHECK(posix_memalign(&object, 16, SIZE_MAX - 5) == ENOMEM);
	object = malloc(100);
	errno = 0;
	CHECK(realloc(object, SIZE_MAX - 100) == NULL && errno == ENOMEM);
	errno = 77;
	free(object);
	CHECK(errno == 77);
	errno = 77;
	object = malloc(3 << 20);
	free(object);
	CHECK(object && errno == 77);
}

static void reports(void)
{
	void *object = malloc(5 << 20);
	struct mallinfo2 info = mallinfo2();

	CHECK(info.uordblks >= 5u << 20 && info.hblkhd >= 4u << 20);
	free(object);
	CHECK(malloc_trim(0) == 0 || malloc_trim(0) == 0);
	CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1 && mallopt(12345, 1) == 0);
	FILE *null = fopen("/dev/null", "w");

	CHECK(null && malloc_info(0, null) == 0 && malloc_info(1, null) == EINVAL);
	fclose(null);
}

int main(void)
{
	sizes();
	zeroed();
	moved();
	alignments();
	refusals();
	reports();
	puts("ok");
	return 0;
}
