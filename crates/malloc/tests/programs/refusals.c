/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Faults injected into the calls by which the allocator asks for memory: this program's own mmap
 * and madvise, which the dynamic linker prefers, refuse the Nth call, all calls from the Nth on, or
 * every second one, for each N in turn. A refusal may only ever be a null pointer with ENOMEM; what
 * is live must stay intact, and when the system relents everything must work again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum mode { NEVER, ONCE, FROM, ALTERNATE, MODES };
static enum mode mode;
static int countdown;
static int refused;

static int refuse(void)
{
	if (mode == NEVER || --countdown > 0)
		return 0;
	if (mode == ONCE && countdown < 0)
		return 0;
	if (mode == ALTERNATE && countdown % 2)
		return 0;
	refused++;
	errno = ENOMEM;
	return 1;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (refuse())
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

int madvise(void *at, size_t bytes, int advice)
{
	if (refuse())
		return -1;
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

#define OBJECTS 3000
static unsigned char *objects[OBJECTS];
static size_t lengths[OBJECTS];

static void expect(int condition, int line)
{
	if (!condition)
		_exit(line % 200 + 20);
}

static void drop(int i)
{
	if (objects[i]) {
		expect(objects[i][0] == (i & 255), __LINE__);
		expect(objects[i][lengths[i] - 1] == (i & 255), __LINE__);
	}
	free(objects[i]);
	objects[i] = NULL;
}

static void make(int i, size_t bytes)
{
	errno = 0;
	objects[i] = i % 5 ? malloc(bytes) : aligned_alloc(64, bytes);
	expect(objects[i] || errno == ENOMEM, __LINE__);
	lengths[i] = bytes;
	if (objects[i])
		memset(objects[i], i & 255, bytes);
}

static void grow(int i, size_t bytes)
{
	if (!objects[i])
		return;
	errno = 0;
	unsigned char *moved = realloc(objects[i], bytes);

	expect(moved || errno == ENOMEM, __LINE__);
	if (!moved)
		return;
	expect(moved[0] == (i & 255), __LINE__);
	memset(moved, i & 255, bytes);
	objects[i] = moved;
	lengths[i] = bytes;
}

static void churn(void)
{
	static const size_t sizes[] = {16, 100, 1000, 9000, 60000, 300000, 1200000, 5000000};

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < OBJECTS; i++)
			if (!objects[i])
				make(i, sizes[(i * 7 + round) % (i % 16 ? 4 : 8)] + (size_t)i);
		for (int i = round; i < OBJECTS; i += 3)
			grow(i, lengths[i] * 2);
		for (int i = 0; i < OBJECTS; i += 2)
			drop(i);
		malloc_trim(0);
	}
}

static int attempt(enum mode how, int from)
{
	alarm(60);
	countdown = from;
	mode = how;
	churn();
	mode = NEVER;
	for (int i = 0; i < OBJECTS; i++)
		drop(i);
	for (int i = 0; i < OBJECTS; i++) {
		make(i, 5000);
		expect(objects[i] != NULL, __LINE__);
	}
	for (int i = 0; i < OBJECTS; i++)
		drop(i);
	return refused ? 10 : 0;
}

int main(int argc, char **argv)
{
	int step = argc > 1 ? atoi(argv[1]) : 3, attempts = 0, with_refusals = 0;

	for (int how = ONCE; how < MODES; how++)
		for (int from = 1; from < 120; from += step) {
			pid_t pid = fork();
			int status = 0;

			if (pid == 0)
				_exit(attempt((enum mode)how, from));
			waitpid(pid, &status, 0);
			attempts++;
			with_refusals += status == 10 << 8;
			if (status && status != 10 << 8) {
				fprintf(stderr, "mode %d from call %d: status %#x\n", how, from,
					status);
				return 1;
			}
		}
	printf("ok, %d of %d runs met refusals\n", with_refusals, attempts);
	return with_refusals ? 0 : 1;
}
