/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forks from a process with four threads inside malloc; each child allocates up to 4 MiB and must
 * exit within ten seconds. Prints how many hung or failed. Usage: forks [forks]
 */
#include "common.h"

#include <signal.h>

static atomic_int stop;

static void *churn(void *argument)
{
	uint64_t seed = (uint64_t)(uintptr_t)argument;
	void *objects[64] = {0};

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		int i = (int)(next_random(&seed) % 64);

		free(objects[i]);
		objects[i] = malloc(log_uniform(&seed, 4, 20));
	}
	for (int i = 0; i < 64; i++)
		free(objects[i]);
	return NULL;
}

static void child(uint64_t seed)
{
	alarm(10);
	for (int i = 0; i < 400; i++) {
		size_t bytes = log_uniform(&seed, 4, 22);
		char *object = malloc(bytes);

		object[0] = object[bytes - 1] = 1;
		if (i % 3)
			free(object);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int forks = argc > 1 ? atoi(argv[1]) : 300, hung = 0, failed = 0;
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < forks; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			child((uint64_t)i);
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
			hung++;
		else if (status)
			failed++;
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("{\"forks\": %d, \"hung\": %d, \"failed\": %d}\n", forks, hung, failed);
	return hung || failed;
}
