/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A server's life in seconds: two threads keep about LIVE MiB alive while the sizes drift from
 * 16-256 bytes to 64-2048 bytes (log-uniform), with 2.5 % objects of 4-64 KiB and 0.15 % of up to
 * 3 MiB; one free in ten hits an object of the other thread. Then 90 % of everything is freed, and
 * three seconds of light use follow. A walk of dependent random touches before the drop stands for
 * the TLB. Prints one JSON object. Usage: drift [live MiB] [rounds per thread]
 */
#include "common.h"

#include <malloc.h>

#define THREADS 2
#define SLOTS (1u << 18)

struct slot {
	_Atomic(uintptr_t) object;
};
static struct slot *slots[THREADS];
static atomic_long live_bytes[THREADS];
static size_t target;
static long rounds;
static pthread_barrier_t barrier;

/* An object begins with its size; all of it is touched, a word per cache line. */
static void *make(size_t bytes)
{
	if (bytes < 16)
		bytes = 16;
	char *object = malloc(bytes);

	if (!object)
		abort();
	for (size_t at = 0; at + 8 <= bytes; at += 64)
		*(uint64_t *)(object + at) = bytes;
	*(uint64_t *)object = bytes;
	return object;
}

static size_t pick_size(uint64_t *seed, double phase)
{
	double kind = unit_random(seed);

	if (kind < 0.0015)
		return log_uniform(seed, 16, 21.585);
	if (kind < 0.0265)
		return log_uniform(seed, 12, 16);
	return log_uniform(seed, 4 + 2 * phase, 8 + 3 * phase);
}

static void put_in(int owner, size_t index, void *object)
{
	size_t bytes = object ? *(uint64_t *)object : 0;
	uintptr_t old = atomic_exchange(&slots[owner][index].object, (uintptr_t)object);
	long change = (long)bytes;

	if (old) {
		change -= (long)*(uint64_t *)old;
		free((void *)old);
	}
	atomic_fetch_add_explicit(&live_bytes[owner], change, memory_order_relaxed);
}

static void *work(void *argument)
{
	int self = (int)(intptr_t)argument;
	uint64_t seed = 42 + (uint64_t)self;

	for (long round = 0; round < rounds; round++) {
		double phase = (double)round / (double)rounds;
		int owner = next_random(&seed) % 10 == 0 ? !self : self;
		size_t index = next_random(&seed) % SLOTS;

		if ((size_t)atomic_load_explicit(&live_bytes[owner], memory_order_relaxed) <
		    target / THREADS)
			put_in(owner, index, make(pick_size(&seed, phase)));
		else
			put_in(owner, index, NULL);
	}
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (size_t index = 0; index < SLOTS; index++)
		if (next_random(&seed) % 10)
			put_in(self, index, NULL);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (int tick = 0; tick < 300; tick++) {
		for (int i = 0; i < 200; i++) {
			size_t index = next_random(&seed) % SLOTS;

			put_in(self, index, make(pick_size(&seed, 1)));
			put_in(self, index, NULL);
		}
		usleep(10000);
	}
	return NULL;
}

/* Touches of objects in an order where each address depends on the last value. */
static double walk(void)
{
	size_t count = 0, mask = 1;
	char **objects = mmap(NULL, sizeof(char *) * SLOTS * THREADS, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int owner = 0; owner < THREADS; owner++)
		for (size_t index = 0; index < SLOTS; index++)
			if (atomic_load(&slots[owner][index].object))
				objects[count++] = (char *)atomic_load(&slots[owner][index].object);
	while (mask * 2 <= count)
		mask *= 2;
	mask--;
	double start = cpu_s();
	uint64_t at = 1, sum = 0;

	for (long i = 0; i < 10000000; i++) {
		char *object = objects[at & mask];
		uint64_t bytes = *(uint64_t *)object;

		sum += bytes;
		at = (at + bytes) * 6364136223846793005u + 1442695040888963407u;
		at ^= at >> 29;
	}
	double taken = cpu_s() - start;

	munmap(objects, sizeof(char *) * SLOTS * THREADS);
	return sum ? taken : 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	long rss, huge, end_rss, end_huge;

	target = (size_t)(argc > 1 ? atol(argv[1]) : 400) << 20;
	rounds = argc > 2 ? atol(argv[2]) : 8000000;
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int owner = 0; owner < THREADS; owner++)
		slots[owner] = calloc(SLOTS, sizeof(struct slot));
	double start = now_s(), start_cpu = cpu_s();

	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	pthread_barrier_wait(&barrier);
	double run_s = now_s() - start, run_cpu = cpu_s() - start_cpu;

	resident(&end_rss, &end_huge);
	long faults = minor_faults(), live = live_bytes[0] + live_bytes[1];
	if (getenv("DRIFT_STATS"))
		malloc_stats();
	double walk_cpu = walk();

	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	long left = live_bytes[0] + live_bytes[1];

	resident(&rss, &huge);
	printf("{\"run_s\": %.3f, \"run_cpu_s\": %.3f, \"walk_cpu_s\": %.3f, \"live_mib\": %.1f, "
	       "\"rss_end_mib\": %.1f, \"thp_end\": %.3f, \"faults\": %ld, ",
	       run_s, run_cpu, walk_cpu, (double)live / 1048576, (double)end_rss / 1024,
	       (double)end_huge / (double)end_rss, faults);
	printf("\"left_mib\": %.1f, \"rss_drop_mib\": %.1f, \"thp_drop\": %.3f, ",
	       (double)left / 1048576, (double)rss / 1024, (double)huge / (double)rss);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	resident(&rss, &huge);
	printf("\"rss_3s_mib\": %.1f, \"thp_3s\": %.3f, \"faults_all\": %ld}\n",
	       (double)rss / 1024, (double)huge / (double)rss, minor_faults());
	return 0;
}
