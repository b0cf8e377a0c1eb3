// SPDX-License-Identifier: GPL-2.0-only
/*
 * Small loads of the test guest, one binary.
 *
 * load hog MIB SECONDS       fault in MIB of anonymous memory without THP, sleep
 * load holes MIB SECONDS     the same, and every second page is given back before
 * load thp MIB               touch MIB with THP asked for; huge pages obtained, time of a fault
 * load churn DIR FILES ROUNDS SEED   make, rewrite, remove small files
 * load cache FILE MIB        write a file and read it back: fills the cache
 * load fork N MIB            N times: fork a child that touches MIB, wait
 * load pair ROUNDS           map, touch and unmap one page: fault + free
 * load stall                 fault and free pages until SIGTERM; the longest wait
 * load gigantic N            ask for N 1 GB pages while fresh pages wait in every CPU's LRU
 *                            batch; how many came, which are given back
 * load send KIB ROUNDS ZC    send KIB over loopback TCP, MSG_ZEROCOPY if ZC=1
 * load echo KIB ROUNDS       the same, sender and receiver in one task: no scheduling between
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static char *map_anon(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("load: mmap");
	return p;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static int hog(unsigned long mib, unsigned int seconds)
{
	char *p = map_anon(mib * MIB);

	madvise(p, mib * MIB, MADV_NOHUGEPAGE);
	/* In one call: it allocates no less, and saves emulation an exception a page. */
	if (madvise(p, mib * MIB, MADV_POPULATE_WRITE))
		for (size_t i = 0; i < mib * MIB; i += 4096)
			p[i] = 1;
	printf("{\"hog_mib\": %lu}\n", mib);
	fflush(stdout);
	sleep(seconds);
	return 0;
}

static int holes(unsigned long mib, unsigned int seconds)
{
	size_t bytes = mib * MIB;
	char *p = map_anon(bytes);

	madvise(p, bytes, MADV_NOHUGEPAGE);
	memset(p, 1, bytes);
	for (size_t at = 0; at < bytes; at += 8192)
		madvise(p + at, 4096, MADV_DONTNEED);
	printf("{\"holes_mib\": %lu}\n", mib / 2);
	fflush(stdout);
	sleep(seconds);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int thp(unsigned long mib)
{
	size_t bytes = mib * MIB, faults = bytes / (2 * MIB), huge_kib = 0;
	uint64_t *ns = calloc(faults + 1, sizeof(*ns));
	char *raw = map_anon(bytes + 2 * MIB), line[256];
	char *p = (char *)(((uintptr_t)raw + 2 * MIB - 1) & ~(2 * MIB - 1));
	FILE *f;

	madvise(p, bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < faults; i++) {
		uint64_t start = now_ns();

		p[i * 2 * MIB] = 1;
		ns[i] = now_ns() - start;
	}
	qsort(ns, faults, sizeof(*ns), by_size);
	f = fopen("/proc/self/smaps_rollup", "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "AnonHugePages: %zu kB", &huge_kib);
	printf("{\"thp_wanted\": %zu, \"thp_got\": %zu, \"fault_p50_ns\": %llu, "
	       "\"fault_p99_ns\": %llu}\n", faults, huge_kib / 2048,
	       (unsigned long long)ns[faults / 2], (unsigned long long)ns[faults * 99 / 100]);
	return 0;
}

static int churn(const char *dir, unsigned int files, unsigned int rounds, uint64_t seed)
{
	static char buf[65536], path[4096];

	rng_state = seed * 2654435761u + 1;
	for (unsigned int r = 0; r < rounds; r++)
		for (unsigned int i = 0; i < files; i++) {
			unsigned int which = rng() % (files * 2);
			size_t len = rng() % 8 ? rng() % 4096 : rng() % sizeof(buf);
			int fd;

			snprintf(path, sizeof(path), "%s/d%u", dir, which % 97);
			if (which < 97 * 2)
				mkdir(path, 0755);
			snprintf(path, sizeof(path), "%s/d%u/f%u", dir, which % 97, which);
			if (rng() % 3 == 0) {
				unlink(path);
				continue;
			}
			fd = open(path, O_CREAT | O_RDWR, 0644);
			if (fd < 0) {
				*strrchr(path, '/') = 0;
				mkdir(path, 0755);
				continue;
			}
			if (write(fd, buf, len) < 0 && errno != ENOSPC)
				die(path);
			close(fd);
		}
	printf("{\"churn_files\": %u, \"churn_rounds\": %u}\n", files, rounds);
	return 0;
}

static int cache(const char *path, unsigned long mib)
{
	char *buf = map_anon(MIB);
	int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0644);
	unsigned long i;

	if (fd < 0)
		die(path);
	memset(buf, 0x5a, MIB);
	for (i = 0; i < mib && write(fd, buf, MIB) == (ssize_t)MIB; i++)
		;
	lseek(fd, 0, SEEK_SET);
	while (read(fd, buf, MIB) > 0)
		;
	close(fd);
	printf("{\"cache_mib\": %lu}\n", i);
	return 0;
}

static int forks(unsigned int n, unsigned long mib)
{
	for (unsigned int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			char *p = map_anon(mib * MIB);

			for (size_t j = 0; j < mib * MIB; j += 4096)
				p[j] = 1;
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			die("load: fork");
	}
	return 0;
}

static int pair(unsigned long rounds)
{
	uint64_t start = now_ns();

	for (unsigned long i = 0; i < rounds; i++) {
		char *p = map_anon(4096);

		*p = 1;
		munmap(p, 4096);
	}
	printf("{\"rounds\": %lu, \"ns\": %llu}\n", rounds,
	       (unsigned long long)(now_ns() - start));
	return 0;
}

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static int stall(void)
{
	struct timespec a, b;
	long long worst = 0, ns;
	unsigned long rounds = 0;

	signal(SIGTERM, on_term);
	for (; !stop; rounds++) {
		char *p;

		clock_gettime(CLOCK_MONOTONIC, &a);
		p = map_anon(16 * 4096);
		for (int i = 0; i < 16; i++)
			p[i * 4096] = 1;
		munmap(p, 16 * 4096);
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec;
		worst = ns > worst ? ns : worst;
		if (rounds % 64 == 0)
			usleep(1000);
	}
	printf("{\"rounds\": %lu, \"longest_ns\": %lld}\n", rounds, worst);
	return 0;
}

#define NR_GIGANTIC "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"

static void set_gigantic(const char *pages)
{
	int fd = open(NR_GIGANTIC, O_WRONLY);

	if (fd < 0 || write(fd, pages, strlen(pages)) < 0)
		die(NR_GIGANTIC);
	close(fd);
}

/* 20 pages a CPU: a batch takes 31, and whoever exits there empties it. */
static int gigantic(const char *want)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), got = 0;
	char *fresh = map_anon(cpus * 20 * 4096);
	FILE *f;

	madvise(fresh, cpus * 20 * 4096, MADV_NOHUGEPAGE);
	for (long i = 0; i < cpus * 20; i++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(i / 20, &set);
		if (i % 20 == 0 && sched_setaffinity(0, sizeof(set), &set))
			die("load: affinity");
		fresh[i * 4096] = 1;
	}
	set_gigantic(want);
	f = fopen(NR_GIGANTIC, "r");
	if (!f || fscanf(f, "%ld", &got) != 1)
		die(NR_GIGANTIC);
	set_gigantic("0");
	printf("{\"want\": %s, \"got\": %ld}\n", want, got);
	return 0;
}

static void reap_zerocopy(int fd)
{
	char control[128];
	struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };

	while (recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
		msg.msg_controllen = sizeof(control);
}

/* A TCP connection over loopback: *c to *s. */
static void loopback(int *c, int *s)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t alen = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	*c = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(l, (void *)&a, sizeof(a)) || listen(l, 1) ||
	    getsockname(l, (void *)&a, &alen) || connect(*c, (void *)&a, alen))
		die("load: loopback");
	*s = accept(l, NULL, NULL);
	close(l);
}

/*
 * Loopback delivers in the context of the sender, so one task can be both ends. Buffers of a fixed
 * size keep the kernel from tuning them on the way; what the first rounds cost is not counted.
 */
static int echo_load(unsigned long kib, unsigned long rounds)
{
	size_t len = kib * 1024;
	uint64_t start = 0;
	char *buf = map_anon(2 * len);
	int c, s, room = 4 * len;

	loopback(&c, &s);
	if (setsockopt(c, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)))
		die("load: socket buffers");
	memset(buf, 1, 2 * len);
	for (unsigned long i = 0; i < rounds + rounds / 4; i++) {
		if (i == rounds / 4)
			start = now_ns();
		for (size_t sent = 0, got = 0; got < len;) {
			ssize_t n = 0;

			if (sent < len)
				n = send(c, buf + sent, len - sent, MSG_DONTWAIT);
			if (n < 0 && errno != EAGAIN)
				die("load: send");
			sent += n > 0 ? n : 0;
			n = recv(s, buf + len + got, len - got, sent < len ? MSG_DONTWAIT : 0);
			if (n < 0 && errno != EAGAIN)
				die("load: recv");
			got += n > 0 ? n : 0;
		}
	}
	printf("{\"rounds\": %lu, \"ns\": %llu}\n", rounds,
	       (unsigned long long)(now_ns() - start));
	return 0;
}

static int send_load(unsigned long kib, unsigned long rounds, int zc)
{
	size_t len = kib * 1024;
	uint64_t start;
	char *buf = map_anon(len);
	int c, s, one = 1;

	loopback(&c, &s);
	memset(buf, 1, len);
	if (zc && setsockopt(c, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		die("load: SO_ZEROCOPY");
	if (fork() == 0) {
		char *sink = malloc(1 << 16);

		close(c);
		while (read(s, sink, 1 << 16) > 0)
			;
		_exit(0);
	}
	close(s);
	start = now_ns();
	for (unsigned long i = 0; i < rounds; i++) {
		for (size_t done = 0; done < len;) {
			ssize_t n = send(c, buf + done, len - done, zc ? MSG_ZEROCOPY : 0);

			if (n < 0 && errno == ENOBUFS) {
				reap_zerocopy(c);
				continue;
			}
			if (n < 0)
				die("load: send");
			done += n;
		}
		if (zc)
			reap_zerocopy(c);
	}
	close(c);
	wait(NULL);
	printf("{\"rounds\": %lu, \"ns\": %llu}\n", rounds,
	       (unsigned long long)(now_ns() - start));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
#define ARG(i) strtoul(argv[i], NULL, 0)
	if (!strcmp(what, "hog") && argc == 4)
		return hog(ARG(2), ARG(3));
	if (!strcmp(what, "holes") && argc == 4)
		return holes(ARG(2), ARG(3));
	if (!strcmp(what, "thp") && argc == 3)
		return thp(ARG(2));
	if (!strcmp(what, "churn") && argc == 6)
		return churn(argv[2], ARG(3), ARG(4), ARG(5));
	if (!strcmp(what, "cache") && argc == 4)
		return cache(argv[2], ARG(3));
	if (!strcmp(what, "fork") && argc == 4)
		return forks(ARG(2), ARG(3));
	if (!strcmp(what, "pair") && argc == 3)
		return pair(ARG(2));
	if (!strcmp(what, "stall") && argc == 2)
		return stall();
	if (!strcmp(what, "gigantic") && argc == 3)
		return gigantic(argv[2]);
	if (!strcmp(what, "send") && argc == 5)
		return send_load(ARG(2), ARG(3), ARG(4));
	if (!strcmp(what, "echo") && argc == 4)
		return echo_load(ARG(2), ARG(3));
	fprintf(stderr, "usage: load hog|holes|thp|churn|cache|fork|pair|stall|gigantic|send|echo "
		"ARGS: see the source\n");
	return 2;
}
