/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory that a program keeps. Usage: kept KIND
 *
 *   turnover  198 MiB of objects of 16 to 4,096 bytes live; three times as many are replaced, one
 *             at a time at random, each written whole. Prints nothing: the limit of memory under
 *             which it ends is what counts
 *   creep     400 MiB of objects of 300 to 900 bytes, of which one in nine stays at random; then a
 *             call each 10 ms. Prints resident memory and that on huge pages at 3, 60 and 300 s
 *   waves BYTES MIB COUNT PAUSE_MS CALLS
 *             makes MIB of objects of BYTES, each written whole, and frees them, COUNT times with a
 *             pause after each, in which it makes CALLS large calls. Prints resident memory in the
 *             pauses and 3 s after the last wave, without a further call, page faults and
 *             processor time
 */
#include "common.h"

#define LIVE_BYTES (198u << 20)
#define CREEP_BYTES (400u << 20)

struct object {
	char *data;
	uint32_t bytes;
};

/* The table is no part of the heap under test. */
static struct object *table_of(size_t count)
{
	return mmap(NULL, count * sizeof(struct object), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void make(struct object *object, size_t bytes)
{
	object->data = malloc(bytes);
	if (!object->data)
		abort();
	object->bytes = (uint32_t)bytes;
	memset(object->data, (int)(bytes & 0x7f), bytes);
}

static void drop(struct object *object)
{
	if (object->data[0] != object->data[object->bytes - 1])
		abort();
	free(object->data);
	object->data = NULL;
}

static void turnover(void)
{
	uint64_t random = 1;
	size_t count = 0, live = 0, most = LIVE_BYTES / 256;
	struct object *table = table_of(most);

	while (count < most && live + count * sizeof(*table) < LIVE_BYTES) {
		make(&table[count], log_uniform(&random, 4, 12));
		live += table[count++].bytes;
	}
	for (size_t i = 0; i < 3 * count; i++) {
		struct object *object = &table[next_random(&random) % count];

		drop(object);
		make(object, log_uniform(&random, 4, 12));
	}
}

static void creep(void)
{
	static const int times_s[] = {3, 60, 300};
	uint64_t random = 1;
	size_t count = CREEP_BYTES / 600, kept = 0;
	struct object *table = table_of(count);

	for (size_t i = 0; i < count; i++)
		make(&table[i], 300 + next_random(&random) % 601);
	for (size_t i = 0; i < count; i++) {
		if (next_random(&random) % 9)
			drop(&table[i]);
		else
			kept += table[i].bytes;
	}
	double begin = now_s();
	long rss_kib, huge_kib;

	printf("{\"live_mib\": %.1f", (double)kept / 1048576);
	for (size_t i = 0; i < sizeof(times_s) / sizeof(*times_s); i++) {
		while (now_s() - begin < times_s[i]) {
			free(malloc(100));
			usleep(10000);
		}
		resident(&rss_kib, &huge_kib);
		printf(", \"rss_%ds\": %.1f, \"huge_%ds\": %.1f", times_s[i],
		       (double)rss_kib / 1024, times_s[i], (double)huge_kib / 1024);
	}
	puts("}");
}

static void waves(char **words)
{
	size_t bytes = (size_t)atol(words[0]), count = ((size_t)atol(words[1]) << 20) / bytes;
	int number = atoi(words[2]), pause_us = atoi(words[3]) * 1000, calls = atoi(words[4]);
	struct object *table = table_of(count);
	long rss_kib, huge_kib;
	double pauses_kib = 0;

	for (int wave = 0; wave < number; wave++) {
		for (size_t i = 0; i < count; i++)
			make(&table[i], bytes);
		for (size_t i = 0; i < count; i++)
			drop(&table[i]);
		if (wave + 1 == number)
			break;
		usleep(pause_us / 2);
		for (int i = 0; i < calls; i++)
			free(malloc(300000));
		usleep(pause_us / 2);
		resident(&rss_kib, &huge_kib);
		pauses_kib += (double)rss_kib;
	}
	long faults = minor_faults();
	double cpu = cpu_s();

	usleep(3000000);
	resident(&rss_kib, &huge_kib);
	printf("{\"pauses_mib\": %.1f, \"left_mib\": %.1f, \"faults\": %ld, \"cpu_s\": %.3f}\n",
	       pauses_kib / (number - 1) / 1024, (double)rss_kib / 1024, faults, cpu);
}

int main(int count, char **words)
{
	if (count == 2 && !strcmp(words[1], "turnover"))
		turnover();
	else if (count == 2 && !strcmp(words[1], "creep"))
		creep();
	else if (count == 7 && !strcmp(words[1], "waves"))
		waves(words + 2);
	else
		return 2;
	return 0;
}
