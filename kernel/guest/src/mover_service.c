// SPDX-License-Identifier: GPL-2.0-only
/*
 * A service whose memory moves while it serves: every value that comes back has to be the last one
 * that was stored.
 *
 * usage: mover_service redis|memcached PID KEYS MOVES
 *   stores KEYS values of 1,000 bytes, moves anonymous pages of process PID at random until MOVES
 *   have begun, gets and stores keys meanwhile, and gets all of them at the end
 * Prints one JSON object. exit: 0 all is as stored, 1 something is not, 2 could not test
 */
#include "mover.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define VALUE 1000UL
#define RANGES 256

static int redis, server;
static unsigned long pid;
static struct { unsigned long from, to; } ranges[RANGES];

static void dial(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(redis ? 6379 : 11211),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int one = 1;

	server = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(server, (void *)&at, sizeof(at)) ||
	    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("mover_service: connect");
}

/* The value of a key after so many stores. */
static void value_of(char *to, unsigned long key, uint64_t stores)
{
	for (unsigned long i = 0; i < VALUE; i++)
		to[i] = 'a' + ((key * 0x9e3779b97f4a7c15ULL + stores * 0xd1342543de82ef95ULL) >>
			       (i % 40)) % 26;
}

static void get_bytes(char *to, size_t many)
{
	while (many) {
		ssize_t got = read(server, to, many);

		if (got <= 0)
			die("mover_service: answer");
		to += got;
		many -= got;
	}
}

/* Sends a request and takes an answer of a known length; 1 if it is another one. */
static int asked(const char *request, size_t length, const char *want, size_t expected)
{
	static char answer[VALUE + 256];

	if (write(server, request, length) != (ssize_t)length)
		die("mover_service: request");
	get_bytes(answer, expected);
	return memcmp(answer, want, expected) != 0;
}

static int store(unsigned long key, uint64_t stores)
{
	char request[VALUE + 256], *at = request;

	at += sprintf(at, redis ? "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012lu\r\n$%lu\r\n" :
		      "set key:%012lu 0 0 %lu\r\n", key, VALUE);
	value_of(at, key, stores);
	memcpy(at + VALUE, "\r\n", 2);
	return redis ? asked(request, at + VALUE + 2 - request, "+OK\r\n", 5) :
	       asked(request, at + VALUE + 2 - request, "STORED\r\n", 8);
}

static int fetch(unsigned long key, uint64_t stores)
{
	char request[128], want[VALUE + 256], *at = want;
	int length = sprintf(request, redis ? "*2\r\n$3\r\nGET\r\n$16\r\nkey:%012lu\r\n" :
			     "get key:%012lu\r\n", key);

	at += redis ? sprintf(at, "$%lu\r\n", VALUE) :
		      sprintf(at, "VALUE key:%012lu 0 %lu\r\n", key, VALUE);
	value_of(at, key, stores);
	at += VALUE;
	at += sprintf(at, redis ? "\r\n" : "\r\nEND\r\n");
	return asked(request, length, want, at - want);
}

/* The anonymous memory of the process that may be written. */
static unsigned long find_ranges(void)
{
	char path[64], line[512], rights[8];
	unsigned long count = 0, from, to, inode;
	FILE *maps;

	sprintf(path, "/proc/%lu/maps", pid);
	maps = fopen(path, "r");
	if (!maps)
		die(path);
	while (count < RANGES && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s %*x %*s %lu", &from, &to, rights, &inode) != 4 ||
		    strncmp(rights, "rw-p", 4) || inode || strstr(line, "[stack"))
			continue;
		ranges[count].from = from;
		ranges[count++].to = to;
	}
	fclose(maps);
	if (!count)
		die("mover_service: no memory");
	return count;
}

/* The process's memory changes: its ranges are looked up again each time. */
static struct mover_range of_service(uint64_t *state)
{
	unsigned long i = drawn(state) % find_ranges();
	unsigned long many = (ranges[i].to - ranges[i].from) / PAGE, at = drawn(state) % many;

	return (struct mover_range){
		.address = ranges[i].from + at * PAGE, .pages = many - at < 128 ? many - at : 128,
		.pid = pid,
	};
}

static void *move_service(void *arg)
{
	(void)arg;
	move_ranges(of_service);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long keys = argc == 5 ? strtoul(argv[3], NULL, 0) : 0, key;
	uint64_t wrong = 0, requests = 0, state = 7, *stores;
	double from = seconds();
	pthread_t thread;

	redis = argc == 5 && !strcmp(argv[1], "redis");
	if (!keys || (!redis && strcmp(argv[1], "memcached"))) {
		fprintf(stderr, "usage: mover_service redis|memcached PID KEYS MOVES\n");
		return 2;
	}
	pid = strtoul(argv[2], NULL, 0);
	wanted = strtoul(argv[4], NULL, 0);
	stores = calloc(keys, sizeof(*stores));
	dial();
	for (key = 0; key < keys; key++)
		wrong += store(key, 0);
	pthread_create(&thread, NULL, move_service, NULL);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		key = drawn(&state) % keys;
		wrong += drawn(&state) % 4 ? fetch(key, stores[key]) : store(key, ++stores[key]);
		requests++;
	}
	pthread_join(thread, NULL);
	for (key = 0; key < keys; key++)
		wrong += fetch(key, stores[key]);
	return report(seconds() - from, requests, wrong, 0);
}
