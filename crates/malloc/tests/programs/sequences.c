/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random sequences of calls of the whole C interface, checked against a reference that knows of
 * every live object its address, size, alignment and contents. Objects are filled with a pattern of
 * their own and verified whole when they are moved or freed, so that an overlap of two objects, a
 * write of the allocator into a live one, or a page lost to a release shows. With several threads
 * half of the frees hit objects of another thread.
 *
 * Usage: sequences [calls per thread] [threads] [seed]. The seed is printed; the same seed makes
 * the same calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 2048
#define MAX_THREADS 16

struct object {
	char *at;
	size_t bytes;
	uint64_t pattern;
};

/* A thread's objects, under a lock of its own because others free some of them. */
struct set {
	pthread_mutex_t lock;
	struct object objects[SLOTS];
	uint64_t seed;
	long calls;
};

static struct set sets[MAX_THREADS];
static int threads = 1;

#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);            \
			abort();                                                           \
		}                                                                          \
	} while (0)

static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Mostly small, some of every size up to 4 MiB, and the sizes next to powers of two. */
static size_t pick_size(uint64_t *state)
{
	unsigned kind = draw(state) % 1024;
	unsigned log2 = kind < 900 ? draw(state) % 10 : kind < 1020 ? draw(state) % 17 :
							   draw(state) % 22;
	size_t power = (size_t)1 << log2;

	if (draw(state) % 8 == 0)
		return power + draw(state) % 3 - 1;
	return power + draw(state) % power;
}

/* One word in every 64 bytes and the last byte: every cache line and every page of an object. */
static void fill(struct object *object)
{
	for (size_t at = 0; at + 8 <= object->bytes; at += 64) {
		uint64_t word = object->pattern + at;

		memcpy(object->at + at, &word, 8);
	}
	if (object->bytes)
		object->at[object->bytes - 1] = (char)object->pattern;
}

static void verify(const struct object *object, size_t bytes)
{
	for (size_t at = 0; at + 8 <= bytes && at + 9 <= object->bytes; at += 64) {
		uint64_t word;

		memcpy(&word, object->at + at, 8);
		CHECK(at + 8 == object->bytes || word == object->pattern + at);
	}
	if (bytes == object->bytes && bytes)
		CHECK(object->at[bytes - 1] == (char)object->pattern);
}

static void expect_zero(const char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		CHECK(at[i] == 0);
}

static char *make_aligned(uint64_t *state, size_t bytes)
{
	size_t align = (size_t)8 << draw(state) % (draw(state) % 64 ? 10 : 15);
	void *at = NULL;

	switch (draw(state) % 5) {
	case 0:
		at = aligned_alloc(align, bytes);
		break;
	case 1:
		CHECK(posix_memalign(&at, align, bytes) == 0);
		break;
	case 2:
		at = memalign(align, bytes);
		break;
	case 3:
		at = valloc(bytes);
		align = 4096;
		break;
	default:
		at = pvalloc(bytes);
		align = 4096;
		CHECK(malloc_usable_size(at) >= (bytes + 4095) / 4096 * 4096);
	}
	CHECK((uintptr_t)at % align == 0);
	return at;
}

static void make(struct object *object, uint64_t *state)
{
	object->bytes = pick_size(state);
	object->pattern = draw(state);
	switch (draw(state) % 8) {
	case 0:
		object->at = calloc(1, object->bytes);
		CHECK(object->at);
		expect_zero(object->at, object->bytes);
		break;
	case 1:
		object->at = make_aligned(state, object->bytes);
		break;
	case 2:
		object->at = reallocarray(NULL, object->bytes, 1);
		break;
	default:
		object->at = malloc(object->bytes);
	}
	CHECK(object->at && (uintptr_t)object->at % 8 == 0);
	CHECK(malloc_usable_size(object->at) >= object->bytes);
	fill(object);
}

static void move(struct object *object, uint64_t *state)
{
	size_t bytes = draw(state) % 4 ? pick_size(state) : object->bytes + draw(state) % 64;
	size_t kept = bytes < object->bytes ? bytes : object->bytes;

	if (bytes == 0)
		return;
	verify(object, object->bytes);
	object->at = draw(state) % 2 ? realloc(object->at, bytes) :
				       reallocarray(object->at, 1, bytes);
	CHECK(object->at && malloc_usable_size(object->at) >= bytes);
	/* The last byte of the old object is checked only if it is still inside. */
	struct object old = {object->at, kept == object->bytes ? kept : object->bytes,
			     object->pattern};
	verify(&old, kept);
	object->bytes = bytes;
	fill(object);
}

static void drop(struct object *object)
{
	verify(object, object->bytes);
	int before = errno = 1234;

	free(object->at);
	CHECK(errno == before);
	object->at = NULL;
}

static void *run(void *argument)
{
	struct set *own = argument;
	uint64_t *state = &own->seed;

	for (long call = 0; call < own->calls; call++) {
		struct set *set = own;

		if (threads > 1 && draw(state) % 2)
			set = &sets[draw(state) % (unsigned)threads];
		pthread_mutex_lock(&set->lock);
		struct object *object = &set->objects[draw(state) % SLOTS];
		unsigned kind = draw(state) % 16;

		if (!object->at)
			make(object, state);
		else if (kind < 4)
			move(object, state);
		else
			drop(object);
		pthread_mutex_unlock(&set->lock);
		if (draw(state) % 200000 == 0)
			malloc_trim(draw(state) % (16 << 20));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 300000;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	pthread_t all[MAX_THREADS];

	threads = argc > 2 ? atoi(argv[2]) : 1;
	if (threads < 1 || threads > MAX_THREADS)
		return 2;
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < threads; i++) {
		pthread_mutex_init(&sets[i].lock, NULL);
		sets[i].seed = seed * 1000003 + (uint64_t)i;
		sets[i].calls = calls;
	}
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, run, &sets[i]);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	for (int i = 0; i < threads; i++)
		for (int at = 0; at < SLOTS; at++)
			if (sets[i].objects[at].at)
				drop(&sets[i].objects[at]);
	printf("ok, %ld calls\n", calls * threads);
	return 0;
}
