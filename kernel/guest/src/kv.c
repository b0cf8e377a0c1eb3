// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fills redis or memcached on this machine, and asks memcached for what it was filled with.
 *
 * kv fill redis|memcached MIB SEED	values of MIB in all under the keys key:000000000000, ...
 * kv ask memcached MIB SEED REQUESTS CLIENTS
 *					get (of ten, nine) or set one of those at random, CLIENTS at once
 *
 * A value has 64 bytes to 8 KiB, each doubling as likely as the others; which, depends on SEED and
 * its number alone, so that each request is known from SEED. The names are those that
 * redis-benchmark -r asks for. memcslap asks for its own values only, all of one size.
 *
 * exit: 2 bad usage, no such server, or an answer that is none
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define LONGEST 8192
#define BATCH (1 << 16)
#define CLIENTS_MOST 256

static int redis;
static char request[BATCH + LONGEST + 128], answer[LONGEST + 256];

static void die(const char *what)
{
	fprintf(stderr, "kv: %s: %s\n", what, errno ? strerror(errno) : "unexpected answer");
	exit(2);
}

/* SplitMix64's mix of the number and the seed */
static uint64_t hash(uint64_t seed, uint64_t number)
{
	uint64_t z = seed * 0xd1342543de82ef95 + number * 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static size_t value_bytes(uint64_t seed, uint64_t key)
{
	uint64_t h = hash(seed, key);
	size_t from = 64UL << (h % 7);

	return from + (h >> 32) % from;
}

static unsigned long number(const char *name, const char *text, unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || value > most) {
		fprintf(stderr, "kv: %s '%s' is no number from 0 to %lu\n", name, text, most);
		exit(2);
	}
	return value;
}

static int dial(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(redis ? 6379 : 11211),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (fd < 0 || connect(fd, (void *)&a, sizeof(a)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die(redis ? "redis on port 6379" : "memcached on port 11211");
	return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n <= 0)
			die("write");
		data += n;
		len -= n;
	}
}

/* The request that sets a key, appended at *to; returns its end. */
static char *put_set(char *to, uint64_t seed, unsigned long key, int wanted)
{
	size_t bytes = value_bytes(seed, key);

	if (redis)
		to += sprintf(to, "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012lu\r\n$%zu\r\n", key, bytes);
	else
		to += sprintf(to, "set key:%012lu 0 0 %zu%s\r\n", key, bytes,
			      wanted ? "" : " noreply");
	memset(to, 'x', bytes);
	to += bytes;
	memcpy(to, "\r\n", 2);
	return to + 2;
}

/* Exactly that text, as often */
static void expect(int fd, const char *text, unsigned long times)
{
	size_t want = strlen(text), got = 0;

	while (times) {
		ssize_t n = read(fd, answer + got, want - got);

		errno = n < 0 ? errno : 0;
		if (n <= 0 || memcmp(answer, text, got + n))
			die(redis ? "redis" : "memcached");
		got = (got + n) % want;
		times -= !got;
	}
}

static int fill(unsigned long mib, uint64_t seed)
{
	unsigned long key = 0, done = 0;
	uint64_t bytes = 0;
	int fd = dial();

	while (bytes < mib * MIB) {
		char *at = request;

		while (at < request + BATCH && bytes < mib * MIB) {
			bytes += value_bytes(seed, key);
			at = put_set(at, seed, key++, 0);
		}
		send_all(fd, request, at - request);
		if (redis)
			expect(fd, "+OK\r\n", key - done);
		done = key;
	}
	/* memcached has taken all when it answers this */
	if (!redis) {
		send_all(fd, "verbosity 0\r\n", 13);
		expect(fd, "OK\r\n", 1);
	}
	printf("{\"keys\": %lu, \"value_bytes\": %llu, \"seed\": %llu}\n", key,
	       (unsigned long long)bytes, (unsigned long long)seed);
	return 0;
}

static unsigned long keys_of(unsigned long mib, uint64_t seed)
{
	unsigned long key = 0;

	for (uint64_t bytes = 0; bytes < mib * MIB; key++)
		bytes += value_bytes(seed, key);
	return key;
}

/* One answer of memcached, which ends as no value does. 1 if a value or "STORED" came. */
static int answered(int fd)
{
	size_t got = 0;

	for (;;) {
		ssize_t n = read(fd, answer + got, sizeof(answer) - got);

		errno = n < 0 ? errno : 0;
		if (n <= 0)
			die("memcached");
		got += n;
		if (got == 8 && !memcmp(answer, "STORED\r\n", 8))
			return 1;
		if (got >= 5 && !memcmp(answer + got - 5, "END\r\n", 5))
			return got > 5;
		if (got == sizeof(answer) || (answer[0] != 'V' && got >= 8))
			die("memcached");
	}
}

/*
 * One process for all clients: each sends, then each gets its answer. The server's threads have
 * CLIENTS requests at a time, and what a client costs is one write and one read.
 */
static int ask(unsigned long mib, uint64_t seed, unsigned long requests, unsigned int clients)
{
	unsigned long keys = keys_of(mib, seed), done = 0, sets = 0, found = 0;
	int fd[CLIENTS_MOST];

	for (unsigned int i = 0; i < clients; i++)
		fd[i] = dial();
	while (done < requests) {
		unsigned int batch = requests - done < clients ? requests - done : clients;

		for (unsigned int i = 0; i < batch; i++) {
			uint64_t h = hash(seed ^ 0x5bd1e995, done + i);
			char *end;

			if (h % 10 == 0) {
				end = put_set(request, seed, (h >> 8) % keys, 1);
				sets++;
			} else {
				end = request + sprintf(request, "get key:%012lu\r\n",
							(unsigned long)((h >> 8) % keys));
			}
			send_all(fd[i], request, end - request);
		}
		for (unsigned int i = 0; i < batch; i++)
			found += answered(fd[i]);
		done += batch;
	}
	printf("{\"requests\": %lu, \"sets\": %lu, \"found\": %lu, \"keys\": %lu, "
	       "\"clients\": %u}\n", requests, sets, found - sets, keys, clients);
	return 0;
}

int main(int argc, char **argv)
{
	int filling = argc == 5 && !strcmp(argv[1], "fill");
	int asking = argc == 7 && !strcmp(argv[1], "ask") && !strcmp(argv[2], "memcached");
	unsigned long mib, seed, clients;

	redis = filling && !strcmp(argv[2], "redis");
	if (!asking && !(filling && (redis || !strcmp(argv[2], "memcached")))) {
		fprintf(stderr, "usage: kv fill redis|memcached MIB SEED\n"
			"       kv ask memcached MIB SEED REQUESTS CLIENTS\n");
		return 2;
	}
	mib = number("MIB", argv[3], 1UL << 24);
	seed = number("SEED", argv[4], ~0UL);
	if (filling)
		return fill(mib, seed);
	clients = number("CLIENTS", argv[6], CLIENTS_MOST);
	if (!mib || !clients) {
		fprintf(stderr, "kv: MIB %lu, CLIENTS %lu: at least 1\n", mib, clients);
		return 2;
	}
	return ask(mib, seed, number("REQUESTS", argv[5], ~0UL), clients);
}
