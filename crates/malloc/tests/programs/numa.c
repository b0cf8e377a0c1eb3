/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads on two CPUs that free each other's objects. Without an argument only that everything
 * stays intact; with "bound" (a machine with two nodes) also how much of what they hold at the end
 * lies on another node than they run on, by the kernel's word.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OBJECTS 20000
#define ROUNDS 8

static char *objects[2][OBJECTS];
static char *large[2];
static pthread_barrier_t barrier;
static int cpus[2];

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		abort();
}

static size_t size_of(int i)
{
	return 16 + i * 7 % 3000;
}

/* Each thread makes objects, frees those of the other, and so on in turns. */
static void *work(void *argument)
{
	int self = (int)(intptr_t)argument;

	run_on(cpus[self]);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < OBJECTS; i++) {
			objects[self][i] = malloc(size_of(i));
			if (!objects[self][i])
				abort();
			memset(objects[self][i], self + 1, size_of(i));
		}
		large[self] = malloc(8 << 20);
		memset(large[self], self + 1, 8 << 20);
		pthread_barrier_wait(&barrier);
		if (round + 1 == ROUNDS)
			break;
		for (int i = 0; i < OBJECTS; i++) {
			char *object = objects[!self][i];
			size_t last = size_of(i) - 1;

			if (object[0] != !self + 1 || object[last] != !self + 1)
				abort();
			free(object);
		}
		free(large[!self]);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

/* Pages of an object that lie on a node; -1 if the kernel does not say. */
static int node_of(void *object)
{
	void *page = (void *)((uintptr_t)object & ~4095ul);
	int status = -1;

	if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &status, 0))
		return -1;
	return status;
}

static int remote_pages(int self, int *seen)
{
	unsigned int node = 0;
	int remote = 0;

	run_on(cpus[self]);
	if (syscall(SYS_getcpu, NULL, &node, NULL))
		abort();
	for (int i = 0; i < OBJECTS; i++) {
		remote += node_of(objects[self][i]) != (int)node;
		(*seen)++;
	}
	for (size_t at = 0; at < 8 << 20; at += 4096) {
		remote += node_of(large[self] + at) != (int)node;
		(*seen)++;
	}
	return remote;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	int bound = argc > 1 && !strcmp(argv[1], "bound");

	/* The last CPU is on the last node. */
	cpus[1] = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	pthread_barrier_init(&barrier, NULL, 2);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i))
			abort();
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (bound) {
		int seen = 0, remote = remote_pages(0, &seen);

		remote += remote_pages(1, &seen);
		printf("%d of %d pages are remote\n", remote, seen);
		/* A slab's worth of what the other thread freed may have come back. */
		if (remote * 10 > seen)
			return 1;
	}
	for (int self = 0; self < 2; self++) {
		for (int i = 0; i < OBJECTS; i++)
			free(objects[self][i]);
		free(large[self]);
	}
	puts("ok");
	return 0;
}
