/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with a thread whose heap was never large frees nearly everything and then does nothing:
 * the memory goes back all the same. Waits for that, a minute at most.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"

#define OBJECTS 30000
#define BYTES 300

static char *objects[OBJECTS];

static void *nothing(void *argument)
{
	return argument;
}

int main(void)
{
	pthread_t thread;

	/* The background thread begins with the first one. */
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
		return 2;
	long before = resident_kib(), full, now = 0;

	for (int i = 0; i < OBJECTS; i++) {
		objects[i] = malloc(BYTES);
		memset(objects[i], 1, BYTES);
	}
	full = resident_kib();
	for (int i = 0; i < OBJECTS; i++)
		if (i % 1000)
			free(objects[i]);
	for (int tick = 0; tick < 600; tick++) {
		now = resident_kib();
		if (now - before < (full - before) / 2) {
			puts("ok");
			return 0;
		}
		usleep(100000);
	}
	fprintf(stderr, "%ld KiB before, %ld when full, still %ld\n", before, full, now);
	return 1;
}
