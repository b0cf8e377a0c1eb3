/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with statistics on a socket, which says when it is ready and makes no further call
 * until its input ends. Usage: socket [fork | exec | close | busy]
 *   fork   a child that allocates too stays beside it, until both have no input any more
 *   exec   it becomes itself once more
 *   close  it closes all descriptors but the first three, and listens on all those numbers itself:
 *          what connects there has to reach it
 *   busy   it allocates and forks on two threads until its input ends
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;

static void allocate(int count)
{
	static void *volatile kept[1000];

	for (int i = 0; i < count; i++) {
		free(kept[i % 1000]);
		kept[i % 1000] = malloc(16 + (i * 37) % 5000);
	}
}

static void *work(void *argument)
{
	while (!stop)
		for (int i = 0; i < 20000; i++)
			free(malloc(16 + (i * 37) % 90000));
	return argument;
}

static void ready(void)
{
	if (write(1, "ready\n", 6) != 6)
		exit(2);
}

static void wait_for_end(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	/* A signal ends poll whatever its flags: that is all a program may see of a request. */
	while (poll(&input, 1, -1) < 1)
		;
}

/* All descriptors are this program's listening sockets now. */
static void take_descriptors(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int one = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);

	for (int fd = 3; fd < 1024; fd++)
		if (fd != one && fd != client)
			close(fd);
	/* An abstract name. */
	snprintf(name.sun_path + 1, 64, "ample-test-%d", getpid());
	if (bind(one, (void *)&name, sizeof(name)) || listen(one, 5))
		exit(3);
	for (int fd = 3; fd < 1024; fd++)
		if (fd != one && fd != client)
			dup2(one, fd);
	if (connect(client, (void *)&name, sizeof(name)))
		exit(4);
	for (int i = 0; i < 8; i++) {
		allocate(100000);
		usleep(100000);
	}
	if (accept(one, NULL, NULL) < 0)
		exit(5);
}

int main(int count, char **arguments)
{
	const char *mode = count > 1 ? arguments[1] : "";
	pthread_t thread;

	allocate(100000);
	if (!strcmp(mode, "exec")) {
		execl("/proc/self/exe", arguments[0], NULL);
		return 6;
	}
	if (!strcmp(mode, "fork") && !fork()) {
		/* The child looks for the socket's name at a slow call of its own. */
		for (int i = 0; i < 4; i++) {
			for (int j = 0; j < 100; j++)
				free(malloc(300000));
			usleep(300000);
		}
	}
	if (!strcmp(mode, "close"))
		take_descriptors();
	if (!strcmp(mode, "busy")) {
		pthread_create(&thread, NULL, work, NULL);
		ready();
		struct pollfd input = {.fd = 0, .events = POLLIN};

		while (poll(&input, 1, 0) < 1) {
			allocate(20000);
			pid_t child = fork();

			if (!child) {
				allocate(2000);
				_exit(0);
			}
			while (waitpid(child, NULL, 0) < 0)
				;
		}
		stop = 1;
		pthread_join(thread, NULL);
		return 0;
	}
	ready();
	wait_for_end();
	return 0;
}
