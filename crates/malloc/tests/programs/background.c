/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a program sees of the allocator's own thread, of which there are as many as the argument
 * says, 0 or 1. Thread-local storage that a small stack could not hold; a creator that is pinned to
 * one processor; a process with one thread left, which may have a new user name space.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread char large[60000];

static void *work(void *argument)
{
	memset(large, 1, sizeof large);
	free(malloc(1 << 20));
	return argument;
}

/* Threads but the calling one and the first: how many, how many of them are the allocator's. */
static int others(int *named, cpu_set_t *cpus)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	*named = 0;
	while (folder && (entry = readdir(folder))) {
		int tid = atoi(entry->d_name);
		char path[300], name[32] = "";

		if (tid == 0 || tid == getpid() || tid == gettid())
			continue;
		count++;
		snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
		FILE *file = fopen(path, "r");
		if (file) {
			if (fgets(name, sizeof name, file) && !strcmp(name, "ample-malloc\n")) {
				(*named)++;
				sched_getaffinity(tid, sizeof *cpus, cpus);
			}
			fclose(file);
		}
	}
	closedir(folder);
	return count;
}

int main(int count, char **arguments)
{
	int expected = count > 1 ? atoi(arguments[1]) : 0, named;
	cpu_set_t all, one, own;
	pthread_t thread;

	sched_getaffinity(0, sizeof all, &all);
	CPU_ZERO(&one);
	for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
	for (int round = 0; round < 3; round++) {
		if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
			return 1;
		work(NULL);
	}
	usleep(200000);
	int found = others(&named, &own);

	if (found != expected || named != expected) {
		printf("%d threads, %d named, not %d\n", found, named, expected);
		return 2;
	}
	if (expected && !CPU_EQUAL(&own, &all))
		return 3;
	if (!expected && unshare(CLONE_NEWUSER) && errno == EINVAL)
		return 4;
	puts("ok");
	return 0;
}
