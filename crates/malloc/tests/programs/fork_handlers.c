/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fork handlers of a program that allocate, registered before and after those of the allocator:
 * what is in .preinit_array runs before the constructors of all libraries. With and without other
 * threads. Hung when a handler ran after the allocator's own had taken its locks.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop;
static int calls;

static void allocate(void)
{
	static void *kept[64];

	/* Every class, large objects, and more than any cache holds. */
	for (size_t bytes = 16; bytes <= (4 << 20); bytes *= 4)
		for (int at = 0; at < 64 && (size_t)at * bytes <= (4 << 20); at++) {
			free(kept[at]);
			kept[at] = malloc(bytes);
			if (!kept[at])
				_exit(3);
			memset(kept[at], calls, bytes < 256 ? bytes : 256);
		}
	for (int at = 0; at < 64; at++) {
		free(kept[at]);
		kept[at] = NULL;
	}
	calls++;
}

static void early(int count, char **arguments, char **environment)
{
	(void)count, (void)arguments, (void)environment;
	pthread_atfork(allocate, allocate, allocate);
}

__attribute__((section(".preinit_array"), used)) static void (*const EARLY)(int, char **, char **) =
	early;

static void *work(void *argument)
{
	unsigned seed = (unsigned)(size_t)argument;
	void *own[128] = {0};

	while (!atomic_load(&stop)) {
		int at = rand_r(&seed) % 128;

		free(own[at]);
		own[at] = malloc(16u << rand_r(&seed) % 16);
		*(char *)own[at] = 1;
	}
	for (int at = 0; at < 128; at++)
		free(own[at]);
	return NULL;
}

static void fork_often(int times)
{
	for (int at = 0; at < times; at++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			allocate();
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child || status != 0)
			exit(1);
	}
}

int main(void)
{
	pthread_t threads[2];

	/* What hangs would hang the test. */
	alarm(300);
	fork_often(3);
	for (size_t at = 0; at < 2; at++)
		pthread_create(&threads[at], NULL, work, (void *)(at + 1));
	fork_often(10);
	pthread_atfork(allocate, allocate, allocate);
	fork_often(10);
	atomic_store(&stop, 1);
	for (int at = 0; at < 2; at++)
		pthread_join(threads[at], NULL);
	puts(calls > 0 ? "ok" : "no handler ran");
	return 0;
}
