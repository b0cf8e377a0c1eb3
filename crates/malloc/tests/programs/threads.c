/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that come and go by the thousand, objects freed by other threads than those that made
 * them, signals during malloc, and forks in between; every object carries a mark that is checked.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 4096
static _Atomic(uintptr_t) slots[SLOTS];
static atomic_int wrong;
/* fork copies memory page by page while the other threads go on: an object that one of them was
 * about to free can still be in the child's slots, without its mark. */
static int in_child;

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void check_and_free(uint64_t *object)
{
	uint64_t bytes = object[0];

	int given_up = in_child && object[1] == 0;

	if ((object[1] != (uintptr_t)object && !given_up) ||
	    ((char *)object)[bytes - 1] != (char)bytes)
		atomic_fetch_add(&wrong, 1);
	object[1] = 0;
	free(object);
}

static void *work(void *argument)
{
	uint64_t state = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15u | 1;

	for (int i = 0; i < 3000; i++) {
		uint64_t bytes = 17 + draw(&state) % (draw(&state) % 64 ? 2000 : 400000);
		uint64_t *object = malloc(bytes);

		if (!object)
			abort();
		object[0] = bytes;
		object[1] = (uintptr_t)object;
		((char *)object)[bytes - 1] = (char)bytes;
		uintptr_t old = atomic_exchange(&slots[draw(&state) % SLOTS], (uintptr_t)object);

		if (old)
			check_and_free((uint64_t *)old);
	}
	return NULL;
}

static void on_timer(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 60;
	struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, 700}, {0, 700}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int round = 0; round < rounds; round++) {
		pthread_t threads[8];

		for (uintptr_t i = 0; i < 8; i++)
			pthread_create(&threads[i], NULL, work, (void *)(round * 8 + i + 1));
		pid_t pid = fork();

		if (pid == 0) {
			alarm(0);
			in_child = 1;
			work((void *)12345);
			_exit(atomic_load(&wrong) != 0);
		}
		int status = 0;

		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		waitpid(pid, &status, 0);
		if (status)
			atomic_fetch_add(&wrong, 1);
	}
	for (int i = 0; i < SLOTS; i++)
		if (slots[i])
			check_and_free((uint64_t *)slots[i]);
	if (wrong) {
		fprintf(stderr, "%d objects were damaged\n", wrong);
		return 1;
	}
	puts("ok");
	return 0;
}
