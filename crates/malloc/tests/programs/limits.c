/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Limits of the heap. "hard": requests fail with ENOMEM at the limit that the options or the
 * program set, not before three quarters of it are in use, whatever the size; what was freed in one
 * size serves another. "soft": free memory goes back beyond the limit, and nothing fails.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"

#define LIMIT (64ul << 20)
/* Bytes of small objects behind guard pages, which the limit does not count. */
#define GUARDED (127 * 4096ul)
static void *objects[LIMIT / 256];

static size_t resident(void)
{
	return (size_t)resident_kib() * 1024;
}

/* Fills the heap with objects of a size; the bytes that fitted, 0 if it went beyond the limit. */
static size_t fill(size_t bytes, size_t *count)
{
	*count = 0;
	for (;;) {
		errno = 0;
		void *object = *count % 3 ? malloc(bytes) : calloc(1, bytes);

		if (!object)
			return errno == ENOMEM ? *count * bytes : 0;
		if (*count * bytes > LIMIT + GUARDED)
			return 0;
		memset(object, 1, bytes);
		objects[(*count)++] = object;
	}
}

static int hard(void)
{
	static const size_t sizes[] = {1 << 20, 300, 100000, 4096, 5 << 20, 700};
	size_t count;

	for (size_t round = 0; round < 2 * sizeof(sizes) / sizeof(sizes[0]); round++) {
		size_t bytes = sizes[round % (sizeof(sizes) / sizeof(sizes[0]))];
		size_t held = fill(bytes, &count);

		if (held < LIMIT / 4 * 3 || resident() > LIMIT + (16 << 20)) {
			printf("%zu of %zu bytes fitted, resident %zu\n", held, bytes, resident());
			return 2;
		}
		/* One that grows beyond the limit fails too, and stays as it is. */
		if (realloc(objects[0], LIMIT) || *(char *)objects[0] != 1 || malloc(LIMIT + 1))
			return 3;
		while (count)
			free(objects[--count]);
	}
	return 0;
}

static int soft(void)
{
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 160; i++) {
			objects[i] = malloc(1 << 20);
			if (!objects[i])
				return 4;
			memset(objects[i], 1, 1 << 20);
		}
		for (int i = 0; i < 160; i++)
			free(objects[i]);
		for (int i = 0; i < 2000; i++)
			objects[i] = malloc(5000);
		if (resident() > LIMIT + (16 << 20)) {
			printf("resident %zu\n", resident());
			return 5;
		}
		for (int i = 0; i < 2000; i++)
			free(objects[i]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	void (*set)(size_t, size_t) =
		(void (*)(size_t, size_t))dlsym(RTLD_DEFAULT, "ample_malloc_set_limits");
	int is_soft = argc > 1 && !strcmp(argv[1], "soft");

	alarm(120);
	if (argc > 2)
		set(is_soft ? LIMIT : 0, is_soft ? 0 : LIMIT);
	int result = is_soft ? soft() : hard();

	if (!result)
		printf("ok\n");
	return result;
}
