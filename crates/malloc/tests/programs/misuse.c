/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One wrong call, chosen by the argument; the allocator is expected to end the program. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile object;
static char global[64];

static void *free_it(void *argument)
{
	free(object);
	return argument;
}

/* Twenty objects, guarded ones at the start and at the end of their pages by turns. */
static void guarded(const char *kind)
{
	volatile char *all[20];
	int at = !strcmp(kind, "overrun") ? 64 : !strcmp(kind, "underrun") ? -8 : 8;

	for (int i = 0; i < 20; i++)
		all[i] = malloc(64);
	for (int i = 0; i < 20; i++) {
		if (!strcmp(kind, "use-after-free") || !strcmp(kind, "double-guarded"))
			free((void *)all[i]);
		if (!strcmp(kind, "double-guarded"))
			free((void *)all[i]);
		else if (!strcmp(kind, "interior-guarded"))
			free((char *)all[i] + 16);
		else
			all[i][at] = all[i][at];
	}
}

/* Writes one byte beyond or before objects of many sizes, of which the last is freed. */
static void write_around(const char *kind)
{
	size_t bytes = strstr(kind, "large") ? 1000000 : strstr(kind, "huge") ? 3000000 : 100;
	char *volatile written;

	for (size_t size = 1; size < 5000; size += 7)
		free(malloc(size));
	written = strstr(kind, "aligned") ? aligned_alloc(256, 100) : malloc(bytes);
	memset(written, 7, bytes);
	written[strstr(kind, "under") ? -1 : (long)bytes] ^= 1;
	if (strstr(kind, "realloc"))
		written = realloc(written, 60);
	free(written);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	char local[64];

	if (!strncmp(kind, "write", 5))
		write_around(kind);

	if (!strcmp(kind, "overrun") || !strcmp(kind, "underrun") ||
	    !strcmp(kind, "use-after-free") || strstr(kind, "-guarded"))
		guarded(kind);
	object = malloc(100);
	if (!strcmp(kind, "double")) {
		free(object);
		free(object);
	} else if (!strcmp(kind, "double-later")) {
		void *all[5000];

		for (int i = 0; i < 5000; i++)
			all[i] = malloc(100);
		free(object);
		for (int i = 0; i < 5000; i++)
			free(all[i]);
		free(object);
		for (int i = 0; i < 5000; i++)
			free(malloc(100 + i * 7));
	} else if (!strcmp(kind, "double-hole")) {
		/* The memory of the object is not even there any more when it is freed again. */
		static void *all[200000];

		for (int i = 0; i < 200000; i++)
			memset(all[i] = malloc(100), 1, 100);
		for (int i = 0; i < 200000; i++)
			if (i % 60)
				free(all[i]);
		malloc_trim(0);
		/* Its span stays in use. */
		for (int i = 0; i < 200000; i += 60)
			if (abs(i - 100021) > 6000)
				free(all[i]);
		free(all[100021]);
	} else if (!strcmp(kind, "double-refilled") || !strcmp(kind, "double-fetched")) {
		/* It lies on memory that came back when an object beside it was handed out. */
		static char *all[200000], *last = NULL, *victim = NULL;

		for (int i = 0; i < 200000; i++)
			memset(all[i] = malloc(100), 1, 100);
		for (int i = 0; i < 200000; i++)
			if (i % 60)
				free(all[i]);
		malloc_trim(0);
		for (int i = 0; i < 1000; i++)
			memset(last = malloc(100), 2, 100);
		/* The farthest one of its page, or the next, which lies in a cache by now. */
		for (int i = 0; i < 200000; i++)
			if (i % 60 && (uintptr_t)all[i] >> 12 == (uintptr_t)last >> 12 &&
			    all[i] > last &&
			    (!victim || (all[i] > victim) == !strcmp(kind, "double-refilled")))
				victim = all[i];
		free(victim ? victim : last);
		free(victim ? NULL : last);
	} else if (!strcmp(kind, "double-aba")) {
		void *other = malloc(100);

		free(object);
		free(other);
		free(object);
	} else if (!strcmp(kind, "double-thread")) {
		pthread_t thread;

		free(object);
		pthread_create(&thread, NULL, free_it, NULL);
		pthread_join(thread, NULL);
	} else if (!strcmp(kind, "double-large")) {
		object = malloc(1000000);
		free(object);
		free(object);
	} else if (!strcmp(kind, "interior")) {
		free((char *)object + 16);
		for (int i = 0; i < 5000; i++)
			free(malloc(100));
	} else if (!strcmp(kind, "interior-8")) {
		free((char *)object + 8);
	} else if (!strcmp(kind, "interior-large")) {
		object = malloc(1000000);
		free((char *)object + 64);
	} else if (!strcmp(kind, "stack")) {
		object = local;
		free(object);
	} else if (!strcmp(kind, "global")) {
		object = global + 16;
		free(object);
	} else if (!strcmp(kind, "wild")) {
		object = (void *)0x123456789000;
		free(object);
	}
	puts("not noticed");
	return 0;
}
