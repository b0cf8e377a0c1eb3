// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads that hold kernel memory, or pages of others, for long.
 *
 * held sources ROUNDS SEED [pause]
 *                             sockets and pipes full of data, and page tables, a quarter of them
 *                             replaced each round, while another process faults in two thirds of
 *                             memory, again and again; then keeps what it has until SIGTERM. With
 *                             "pause" it stops before each ROUNDS rounds instead, until SIGCONT
 * held splice FILE PIPES      splice the file's cached pages into pipes, keep these until SIGTERM
 * held sendfile FILE ROUNDS   send the file through a socket by sendfile(): bytes and time
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define TABLES (32 * MIB)	/* page tables of 16 ranges of 2 MB */

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static char *map_anon(size_t bytes, int advice)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("held: mmap");
	madvise(p, bytes, advice);
	return p;
}

static void on_term(int sig)
{
	_exit(sig == SIGTERM ? 0 : 1);
}

static void wait_for_term(void)
{
	fflush(stdout);
	signal(SIGTERM, on_term);
	for (;;)
		pause();
}

enum kind { PAGE_TABLES, PIPE, SOCKET, KINDS };

struct slot {
	int fds[2];
	char *map;
};

static void fill(struct slot *s, enum kind kind)
{
	static char data[16384];

	s->map = NULL;
	if (kind == PAGE_TABLES) {
		s->map = map_anon(TABLES, MADV_NOHUGEPAGE);
		madvise(s->map, TABLES, MADV_DONTFORK);
		for (size_t i = 0; i < TABLES; i += 2 * MIB)
			s->map[i] = 1;
		return;
	}
	if (kind == PIPE ? pipe(s->fds) : socketpair(AF_UNIX, SOCK_STREAM, 0, s->fds))
		die("held: fds");
	fcntl(s->fds[1], F_SETFL, O_NONBLOCK);
	while (write(s->fds[1], data, kind == PIPE ? 4096 : sizeof(data)) > 0)
		;
}

static void empty(struct slot *s)
{
	if (s->map) {
		munmap(s->map, TABLES);
	} else {
		close(s->fds[0]);
		close(s->fds[1]);
	}
}

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static void sources(unsigned int rounds, uint64_t seed, int pauses)
{
	enum { SLOTS = 1200 };
	static struct slot slots[SLOTS];
	struct rlimit files = { 8192, 8192 };
	size_t bytes = sysconf(_SC_PHYS_PAGES) * 4096UL / 3 * 2;

	setrlimit(RLIMIT_NOFILE, &files);
	rng_state = seed * 2654435761u + 1;
	for (unsigned int i = 0; i < SLOTS; i++)
		fill(&slots[i], i % KINDS);
	for (unsigned int r = 0; pauses || r < rounds; r++) {
		pid_t pid;

		if (pauses && r % rounds == 0)
			raise(SIGSTOP);
		pid = fork();
		if (pid == 0) {
			char *p = map_anon(bytes, r % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);

			for (size_t i = 0; i < bytes; i += 4096)
				p[i] = 1;
			_exit(0);
		}
		for (unsigned int i = 0; i < SLOTS / 4; i++) {
			struct slot *s = &slots[rng() % SLOTS];

			empty(s);
			fill(s, rng() % KINDS);
			usleep(200);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			die("held: fork");
	}
	printf("{\"rounds\": %u, \"seed\": %llu}\n", rounds, (unsigned long long)seed);
	wait_for_term();
}

static void splice_pages(const char *path, unsigned int pipes)
{
	int fd = open(path, O_RDONLY), fds[2];
	struct stat st;
	long held = 0;

	if (fd < 0 || fstat(fd, &st))
		die(path);
	for (unsigned int i = 0; i < pipes; i++) {
		off64_t at = st.st_size / pipes * i & ~4095L;
		ssize_t n;

		if (pipe(fds))
			die("held: pipe");
		n = splice(fd, &at, fds[1], NULL, 65536, 0);
		held += n > 0 ? n : 0;
	}
	printf("{\"spliced_bytes\": %ld}\n", held);
	wait_for_term();
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void send_file(const char *path, unsigned long rounds)
{
	static char sink[1 << 16];
	int fd = open(path, O_RDONLY), fds[2];
	unsigned long bytes = 0;
	uint64_t start;

	if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		die(path);
	if (fork() == 0) {
		close(fds[1]);
		while (read(fds[0], sink, sizeof(sink)) > 0)
			;
		_exit(0);
	}
	start = now_ns();
	for (unsigned long i = 0; i < rounds; i++) {
		off_t at = 0;
		ssize_t n;

		while ((n = sendfile(fds[1], fd, &at, MIB)) > 0)
			bytes += n;
	}
	printf("{\"bytes\": %lu, \"ns\": %llu}\n", bytes, (unsigned long long)(now_ns() - start));
	close(fds[1]);
	wait(NULL);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 3 ? strtoul(argv[3], NULL, 0) : 0;

	int pauses = argc == 5 && !strcmp(argv[4], "pause");

	if ((argc == 4 || pauses) && !strcmp(argv[1], "sources"))
		sources(strtoul(argv[2], NULL, 0), n, pauses);
	else if (argc == 4 && !strcmp(argv[1], "splice"))
		splice_pages(argv[2], n);
	else if (argc == 4 && !strcmp(argv[1], "sendfile"))
		send_file(argv[2], n);
	else
		fprintf(stderr, "usage: held sources|splice|sendfile ARGS: see the source\n");
	return argc >= 4 ? 0 : 2;
}
