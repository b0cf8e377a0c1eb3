/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process ends with the last of its own threads, even if the first one ended before: what the
 * allocator runs in the background does not keep it alive. An alarm ends the wait for that.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *last(void *argument)
{
	usleep(100000);
	puts("ok");
	fflush(stdout);
	return argument;
}

int main(void)
{
	pthread_t thread;

	alarm(60);
	if (pthread_create(&thread, NULL, last, NULL))
		return 2;
	pthread_exit(NULL);
}
