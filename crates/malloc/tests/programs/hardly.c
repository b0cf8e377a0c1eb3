/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program drops nearly all that it has, as a database does that is emptied, and makes few small
 * allocations from then on: soon the memory is back with the system, although caches and a few live
 * objects held spans everywhere. Usage: hardly CALLS PAUSE_MS KEPT; one object in KEPT stays.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"

#define OBJECTS 900000

static char *objects[OBJECTS];
static void *volatile sink;

static uint32_t next_random(void)
{
	static uint32_t state = 12345;

	state = state * 1664525 + 1013904223;
	return state >> 8;
}

int main(int count, char **arguments)
{
	if (count != 4)
		return 2;
	long calls = atol(arguments[1]), pause_ms = atol(arguments[2]), kept = atol(arguments[3]);
	static const size_t SIZES[] = {48, 64, 232, 720, 24, 96};

	memset(objects, 1, sizeof(objects));
	long before = resident_kib();

	/* Overwritten in turns, so that a hugepage holds objects of all ages. */
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < OBJECTS; i++) {
			size_t at = round ? next_random() % OBJECTS : (size_t)i;
			size_t bytes = SIZES[next_random() % 6];

			if (round)
				free(objects[at]);
			objects[at] = memset(malloc(bytes), 1, bytes);
		}
	long full = resident_kib();

	for (int i = 0; i < OBJECTS; i++)
		if (i % kept)
			free(objects[i]);
	for (long call = 0; call < calls; call++) {
		usleep((useconds_t)pause_ms * 1000);
		sink = malloc(48);
		free(sink);
	}
	long left = resident_kib() - before;

	/* The objects that stay, on pages of their own, and the heap's tables. */
	if (left > 16 << 10) {
		fprintf(stderr, "%ld KiB of %ld are left\n", left, full - before);
		return 1;
	}
	puts("ok");
	return 0;
}
