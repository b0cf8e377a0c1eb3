/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Children of vfork that allocate and free while other threads of the parent do. They share memory
 * and the thread area with the parent, but the kernel does not keep that area up for them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 256

static atomic_int stop;
static atomic_int damaged;

/* Objects that say who made them: one that is handed out twice is noticed. */
static void churn(uint64_t name, int rounds, int until_stopped)
{
	static __thread uint64_t *own[SLOTS];
	unsigned seed = (unsigned)name;

	for (int round = 0; until_stopped ? !atomic_load(&stop) : round < rounds; round++) {
		int at = rand_r(&seed) % SLOTS;

		if (own[at] && (own[at][0] != name || own[at][1] != (uint64_t)at))
			atomic_store(&damaged, 1);
		free(own[at]);
		own[at] = malloc(16u << rand_r(&seed) % 6);
		own[at][0] = name;
		own[at][1] = (uint64_t)at;
	}
	for (int at = 0; at < SLOTS; at++) {
		if (own[at] && (own[at][0] != name || own[at][1] != (uint64_t)at))
			atomic_store(&damaged, 1);
		free(own[at]);
		own[at] = NULL;
	}
}

static void *work(void *argument)
{
	churn((uint64_t)(uintptr_t)argument, 0, 1);
	return NULL;
}

/* Not inlined: the frame in which vfork returns twice does nothing else. */
static __attribute__((noinline)) pid_t child_of_vfork(uint64_t name)
{
	pid_t child = vfork();

	if (child == 0) {
		churn(name, 3000, 0);
		_exit(0);
	}
	return child;
}

int main(int count, char **arguments)
{
	int rounds = count > 1 ? atoi(arguments[1]) : 300;
	pthread_t threads[4];

	alarm(100);
	for (uintptr_t at = 0; at < 4; at++)
		pthread_create(&threads[at], NULL, work, (void *)(at + 1));
	for (int round = 0; round < rounds && !atomic_load(&damaged); round++) {
		int status = 0;
		pid_t child = child_of_vfork(1000 + (uint64_t)round);

		if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
			printf("child %d: status %d\n", (int)child, status);
			return 1;
		}
		churn(5, 500, 0);
	}
	atomic_store(&stop, 1);
	for (int at = 0; at < 4; at++)
		pthread_join(threads[at], NULL);
	if (atomic_load(&damaged)) {
		puts("an object was handed out twice");
		return 2;
	}
	puts("ok");
	return 0;
}
