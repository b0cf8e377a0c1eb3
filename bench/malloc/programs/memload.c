/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A repeatable load for a memcached on a Unix socket, by one thread over eight connections with 32
 * requests under way on each. Keys are drawn evenly from 400,000; a value's length is log-uniform
 * from 32 bytes to 4 KiB. Usage: memload SOCKET set|get|connect REQUESTS
 *   set      stores values
 *   get      asks for keys, and prints how many were there
 *   connect  makes a connection for each request
 */
#include "common.h"

#include <sys/socket.h>
#include <sys/un.h>

#define KEYS 400000
#define LINKS 8
#define DEPTH 32
#define MAX_VALUE 4096

static const char *path;
static char out[DEPTH * (MAX_VALUE + 64)], in[1 << 16], value[MAX_VALUE];
static long hits;

static int fail(const char *what)
{
	fprintf(stderr, "memload: %s\n", what);
	exit(1);
}

static int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = 20};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		fail("the server cannot be reached");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

static void say(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(fd, text, bytes);

		if (done <= 0)
			fail("the server closed a connection");
		text += done;
		bytes -= (size_t)done;
	}
}

/*
 * Reads until `count` answers are there. An answer to set holds one T (STORED), one to get one N
 * (END) and, if the key was there, one V (VALUE); keys and values hold small letters only.
 */
static void hear(int fd, char mark, int count)
{
	while (count > 0) {
		ssize_t bytes = read(fd, in, sizeof(in));

		if (bytes <= 0)
			fail("the server did not answer, or refused a request");
		for (ssize_t i = 0; i < bytes; i++) {
			count -= in[i] == mark;
			hits += in[i] == 'V';
		}
	}
}

static size_t request(char *at, int store, uint64_t *seed)
{
	uint64_t key = next_random(seed) % KEYS;

	if (!store)
		return (size_t)sprintf(at, "get k%06d\r\n", (int)key);
	size_t bytes = log_uniform(seed, 5, 12);
	size_t head = (size_t)sprintf(at, "set k%06d 0 0 %zu\r\n", (int)key, bytes);

	memcpy(at + head, value, bytes);
	memcpy(at + head + bytes, "\r\n", 2);
	return head + bytes + 2;
}

static void stream(int store, long requests)
{
	uint64_t seed = store ? 17 : 18;
	int links[LINKS];

	for (int i = 0; i < LINKS; i++)
		links[i] = dial();
	for (long done = 0; done < requests; done += LINKS * DEPTH) {
		for (int i = 0; i < LINKS; i++) {
			size_t bytes = 0;

			for (int j = 0; j < DEPTH; j++)
				bytes += request(out + bytes, store, &seed);
			say(links[i], out, bytes);
		}
		for (int i = 0; i < LINKS; i++)
			hear(links[i], store ? 'T' : 'N', DEPTH);
	}
}

static void reconnect(long requests)
{
	uint64_t seed = 19;

	for (long done = 0; done < requests; done++) {
		int fd = dial();

		say(fd, out, request(out, 0, &seed));
		hear(fd, 'N', 1);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: memload SOCKET set|get|connect REQUESTS\n");
		return 2;
	}
	path = argv[1];
	memset(value, 'x', sizeof(value));
	if (!strcmp(argv[2], "connect"))
		reconnect(atol(argv[3]));
	else
		stream(!strcmp(argv[2], "set"), atol(argv[3]));
	printf("{\"hits\": %ld}\n", hits);
	return 0;
}
