/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program frees 600 MB, in objects of a size, and makes no call then: the memory is back with the
 * system when the last free returns. With threads that do nothing, or without.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"

#define TOTAL 600000000u

static void *idle(void *argument)
{
	pause();
	return argument;
}

int main(int count, char **arguments)
{
	static const size_t SIZES[] = {1000, 65536, 102400, 1000000, TOTAL};
	static char *objects[TOTAL / 1000];
	size_t number = count > 1 ? (size_t)atol(arguments[1]) : 0, bytes = SIZES[number % 5];

	for (size_t thread = 0; thread < number / 5; thread++) {
		pthread_t name;

		if (pthread_create(&name, NULL, idle, NULL))
			return 1;
	}
	for (size_t at = 0; at < TOTAL / bytes; at++)
		memset(objects[at] = malloc(bytes), 1, bytes);
	for (size_t at = 0; at < TOTAL / bytes; at++)
		free(objects[at]);
	long left = resident_kib();

	/* The table of the objects, the program itself, the heap's own tables. */
	if (left > 20 << 10) {
		printf("%zu bytes: %ld KiB are left\n", bytes, left);
		return 2;
	}
	puts("ok");
	return 0;
}
