/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Out of memory at every call: an address-space limit that shrinks by a little each time, so that
 * the refusal hits reservation, metadata, spans and large objects in turn. Every refusal must be a
 * null pointer with ENOMEM, what was allocated must stay intact, and memory must be usable again
 * after frees.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OBJECTS 12000
static char *objects[OBJECTS];
static size_t lengths[OBJECTS];

static int attempt(rlim_t bytes)
{
	struct rlimit limit = {bytes, bytes};
	int refused = 0;
	uint64_t state = bytes | 1;

	alarm(120);
	if (setrlimit(RLIMIT_AS, &limit))
		return 3;
	for (int i = 0; i < OBJECTS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		lengths[i] = (state >> 40) % ((state >> 33) % 50 ? 3000 : 900000) + 1;
		errno = 0;
		objects[i] = i % 7 ? malloc(lengths[i]) : calloc(1, lengths[i]);
		if (!objects[i]) {
			if (errno != ENOMEM)
				return 4;
			refused++;
			continue;
		}
		memset(objects[i], i & 127, lengths[i]);
	}
	for (int i = 0; i < OBJECTS; i++) {
		if (!objects[i])
			continue;
		if (objects[i][0] != (i & 127) || objects[i][lengths[i] - 1] != (i & 127))
			return 5;
		char *moved = realloc(objects[i], lengths[i] / 2 + 1);

		if (!moved || moved[0] != (i & 127))
			return 6;
		free(moved);
	}
	for (int i = 0; i < 1000; i++)
		free(malloc(100));
	return refused ? 10 : 0;
}

int main(void)
{
	int refusals = 0;

	for (rlim_t mib = 12; mib < 400; mib += mib < 100 ? 6 : 100) {
		pid_t pid = fork();
		int status = 0;

		if (pid == 0)
			_exit(attempt(mib << 20));
		waitpid(pid, &status, 0);
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);

		if (code == 10) {
			refusals++;
		} else if (code) {
			fprintf(stderr, "with %lu MiB: %d\n", (unsigned long)mib, code);
			return 1;
		}
	}
	printf("ok, %d limits refused memory\n", refusals);
	return refusals ? 0 : 1;
}
