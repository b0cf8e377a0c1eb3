/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A saw-tooth: 300 MB are made and freed again and again, with a pause between two teeth, and after
 * the last one the program makes no call. What it held has gone back: it was idle for longer than
 * the page faults of a tooth take.
 *
 * Usage: teeth BYTES TEETH PAUSE_MS [shown]; with shown, prints what was left and the processor
 * time in place of holding what is left to the bound.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "resident.h"

#define TOTAL 300000000u
#define MOST_KIB (20l << 10)

static char *objects[TOTAL / 1000];

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

int main(int count, char **arguments)
{
	size_t bytes = count > 1 ? (size_t)atol(arguments[1]) : 65536;
	int teeth = count > 2 ? atoi(arguments[2]) : 10;
	useconds_t pause_us = (useconds_t)(count > 3 ? atoi(arguments[3]) : 100) * 1000;
	struct rusage used;

	if (bytes < 1000)
		return 1;
	if (access("/proc/thread-self/schedstat", R_OK)) {
		puts("ok: not run, the kernel does not tell how long a thread was idle");
		return 0;
	}
	for (int tooth = 0; tooth < teeth; tooth++) {
		if (tooth > 0)
			usleep(pause_us);
		for (size_t at = 0; at < TOTAL / bytes; at++)
			memset(objects[at] = malloc(bytes), 1, bytes);
		for (size_t at = 0; at < TOTAL / bytes; at++)
			free(objects[at]);
	}
	long left = resident_kib();

	getrusage(RUSAGE_SELF, &used);
	printf("%ld KiB left, %.3f s, %.3f s of it in the kernel, %ld faults\n", left,
	       seconds(&used.ru_utime) + seconds(&used.ru_stime), seconds(&used.ru_stime),
	       used.ru_minflt);
	if (count < 5 && left > MOST_KIB)
		return 2;
	puts("ok");
	return 0;
}
