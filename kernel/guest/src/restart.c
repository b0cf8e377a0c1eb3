// SPDX-License-Identifier: GPL-2.0-only
/*
 * Services of the plan record_restart, and what it asks of their memory.
 *
 * restart serve MIB HUGE_MIB FILE MODE SEED
 *               MIB of anonymous memory, HUGE_MIB of it with huge pages advised and the rest
 *               without, faulted in while FILE is read; "up" when that is done. MODE idle: waits;
 *               lock: locks its memory and waits; busy: replaces pages, reads FILE through the
 *               cache and past it, and writes to it, until it is killed
 * restart thp N touch N ranges of 2 MB of a fresh mapping, without advice; huge pages obtained
 * restart flags one byte a page of /proc/kpageflags to the standard output: dirty 1, under
 *               writeback 2, locked 4, with buffers 8, unevictable 16, active 32, referenced 64,
 *               mapped 128
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define CHUNK (64UL << 10)

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* Aligned to 2 MB. */
static char *map_anon(size_t bytes)
{
	char *p = mmap(NULL, bytes + 2 * MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("restart: mmap");
	return (char *)(((uintptr_t)p + 2 * MIB - 1) & ~(2 * MIB - 1));
}

/* Traffic: what a service does between two deploys. */
static void work(char *small, size_t bytes, int cached, int direct, size_t file_bytes)
{
	static char buf[CHUNK];
	size_t pages = bytes / 4096, chunks = file_bytes / CHUNK;

	for (;;) {
		char *to = small + rng() % (pages - 16) * 4096;

		for (int i = 0; i < 64; i++) {
			char *page = small + rng() % pages * 4096;

			madvise(page, 4096, MADV_DONTNEED);
			*page = 1;
		}
		if (pread(cached, buf, CHUNK, rng() % chunks * CHUNK) < 0)
			die("restart: pread");
		if (rng() % 4 == 0 && pwrite(cached, buf, 16384, rng() % chunks * CHUNK) < 0)
			die("restart: pwrite");
		if (direct >= 0 && pread(direct, to, CHUNK, rng() % chunks * CHUNK) < 0)
			die("restart: direct read");
		usleep(2000);
	}
}

static void serve(size_t mib, size_t huge_mib, const char *path, const char *mode)
{
	static char buf[CHUNK];
	size_t bytes = mib * MIB, huge = huge_mib * MIB / (2 * MIB) * (2 * MIB);
	int cached = open(path, O_RDWR), direct = open(path, O_RDONLY | O_DIRECT);
	off_t file_bytes = lseek(cached, 0, SEEK_END);
	char *p = map_anon(bytes);

	if (cached < 0 || file_bytes < (off_t)CHUNK || huge >= bytes)
		die(path);
	madvise(p, huge, MADV_HUGEPAGE);
	madvise(p + huge, bytes - huge, MADV_NOHUGEPAGE);
	lseek(cached, 0, SEEK_SET);
	for (size_t i = 0; i < bytes; i += 4096) {
		p[i] = 1;
		if (i % (CHUNK * (bytes / file_bytes + 1)) == 0 && read(cached, buf, CHUNK) < 0)
			die(path);
	}
	while (read(cached, buf, CHUNK) > 0)
		;
	if (!strcmp(mode, "lock") && mlock(p, bytes))
		die("restart: mlock");
	puts("up");
	fflush(stdout);
	if (!strcmp(mode, "busy"))
		work(p + huge, bytes - huge, cached, direct, file_bytes);
	for (;;)
		pause();
}

static int thp(size_t n)
{
	char *p = map_anon(n * 2 * MIB), line[256];
	size_t huge_kib = 0;
	FILE *f;

	for (size_t i = 0; i < n; i++)
		p[i * 2 * MIB] = 1;
	f = fopen("/proc/self/smaps_rollup", "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "AnonHugePages: %zu kB", &huge_kib);
	printf("%zu\n", huge_kib / 2048);
	return 0;
}

static int flags(void)
{
	/* Numbers of kernel-page-flags.h in include/uapi/linux and in include/linux, 6.12. */
	static const int bits[8] = { 4, 8, 0, 36, 18, 6, 2, 11 };
	static uint64_t in[8192];
	static unsigned char out[8192];
	int fd = open("/proc/kpageflags", O_RDONLY);
	ssize_t n;

	if (fd < 0)
		die("/proc/kpageflags");
	while ((n = read(fd, in, sizeof(in))) > 0) {
		for (ssize_t i = 0; i < n / 8; i++) {
			out[i] = 0;
			for (int bit = 0; bit < 8; bit++)
				out[i] |= (in[i] >> bits[bit] & 1) << bit;
		}
		if (write(1, out, n / 8) != n / 8)
			die("restart: write");
	}
	return n < 0;
}

int main(int argc, char **argv)
{
	if (argc == 7 && !strcmp(argv[1], "serve")) {
		rng_state = strtoul(argv[6], NULL, 0) * 2654435761u + 1;
		serve(strtoul(argv[2], NULL, 0), strtoul(argv[3], NULL, 0), argv[4], argv[5]);
	}
	if (argc == 3 && !strcmp(argv[1], "thp"))
		return thp(strtoul(argv[2], NULL, 0));
	if (argc == 2 && !strcmp(argv[1], "flags"))
		return flags();
	fprintf(stderr, "usage: restart serve|thp|flags ARGS: see the source\n");
	return 2;
}
