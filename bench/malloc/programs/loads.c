/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loads in the manner of the well-known allocator benchmarks, written for this project.
 * Usage: loads KIND [threads] [scale]. Prints wall and CPU seconds and the peak of RSS.
 *
 *   server    larson: each thread replaces random objects of a shared table; threads are renewed
 *   handover  xmalloc: objects are made by one thread and freed by another, in blocks
 *   batches   sh6bench: objects of growing sizes are made and freed in groups, partly in reverse
 *   mixed     threads with own sets of objects of log-uniform sizes
 *   numbers   cfrac: one thread, very many very small short-lived objects
 *   tree      binary trees, built, walked and freed
 *   strings   a growing buffer and many small ones: realloc
 */
#include "common.h"

static int threads = 2;
static long scale = 1;

static void spread(void *(*work)(void *))
{
	pthread_t all[64];

	for (intptr_t i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
}

#define TABLE 20000
static _Atomic(uintptr_t) table[TABLE];

static void *serve(void *argument)
{
	uint64_t seed = (uint64_t)(uintptr_t)argument + 99;

	for (long i = 0; i < 300000; i++) {
		size_t bytes = 10 + next_random(&seed) % 490;
		char *object = malloc(bytes);

		object[0] = object[bytes - 1] = 1;
		free((void *)atomic_exchange(&table[next_random(&seed) % TABLE],
					     (uintptr_t)object));
	}
	return NULL;
}

static void server(void)
{
	for (long round = 0; round < 12 * scale; round++)
		spread(serve);
}

#define BLOCK 256
struct block {
	struct block *next;
	void *objects[BLOCK];
};
static pthread_mutex_t block_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t block_ready = PTHREAD_COND_INITIALIZER;
static struct block *ready;
static int ready_count, makers;

static void *make_blocks(void *argument)
{
	uint64_t seed = (uint64_t)(uintptr_t)argument + 7;

	for (long i = 0; i < 12000 * scale; i++) {
		struct block *block = malloc(sizeof(*block));

		for (int j = 0; j < BLOCK; j++) {
			block->objects[j] = malloc(16 + next_random(&seed) % 200);
			*(char *)block->objects[j] = 1;
		}
		pthread_mutex_lock(&block_lock);
		while (ready_count > 64)
			pthread_cond_wait(&block_ready, &block_lock);
		block->next = ready;
		ready = block;
		ready_count++;
		pthread_cond_broadcast(&block_ready);
		pthread_mutex_unlock(&block_lock);
	}
	pthread_mutex_lock(&block_lock);
	makers--;
	pthread_cond_broadcast(&block_ready);
	pthread_mutex_unlock(&block_lock);
	return NULL;
}

static void *free_blocks(void)
{
	for (;;) {
		pthread_mutex_lock(&block_lock);
		while (!ready && makers)
			pthread_cond_wait(&block_ready, &block_lock);
		struct block *block = ready;

		if (block) {
			ready = block->next;
			ready_count--;
			pthread_cond_broadcast(&block_ready);
		}
		pthread_mutex_unlock(&block_lock);
		if (!block)
			return NULL;
		for (int j = 0; j < BLOCK; j++)
			free(block->objects[j]);
		free(block);
	}
}

static void *hand_over(void *argument)
{
	return (intptr_t)argument % 2 ? free_blocks() : make_blocks(argument);
}

static void handover(void)
{
	threads = (threads + 1) / 2 * 2;
	makers = threads / 2;
	spread(hand_over);
}

static void *batch(void *argument)
{
	enum { OBJECTS = 2000 };
	void **objects = malloc(sizeof(void *) * OBJECTS);
	(void)argument;

	for (long round = 0; round < 1500 * scale; round++) {
		size_t bytes = 16 + (size_t)(round * 37 % 900);

		for (int i = 0; i < OBJECTS; i++) {
			objects[i] = malloc(bytes + (size_t)(i & 63));
			*(char *)objects[i] = 1;
		}
		for (int i = 0; i < OBJECTS; i += 3)
			free(objects[i]);
		for (int i = 0; i < OBJECTS; i += 3)
			objects[i] = malloc(bytes);
		for (int i = OBJECTS - 1; i >= 0; i--)
			free(objects[i]);
	}
	free(objects);
	return NULL;
}

static void batches(void)
{
	spread(batch);
}

static void *mix(void *argument)
{
	enum { OBJECTS = 8192 };
	uint64_t seed = (uint64_t)(uintptr_t)argument + 5;
	char **objects = calloc(OBJECTS, sizeof(char *));

	for (long i = 0; i < 2500000 * scale; i++) {
		size_t at = next_random(&seed) % OBJECTS;
		size_t bytes = log_uniform(&seed, 4, at % 100 ? 11 : 16);

		free(objects[at]);
		objects[at] = malloc(bytes);
		for (size_t b = 0; b < bytes; b += 64)
			objects[at][b] = 1;
	}
	for (int i = 0; i < OBJECTS; i++)
		free(objects[i]);
	free(objects);
	return NULL;
}

static void mixed(void)
{
	spread(mix);
}

static void numbers(void)
{
	uint64_t seed = 3;
	uint16_t *ring[64] = {0};

	for (long i = 0; i < 60000000 * scale; i++) {
		uint64_t random = next_random(&seed);
		int at = (int)(random & 63);
		size_t words = 2 + (random >> 6) % 14;

		free(ring[at]);
		ring[at] = malloc(words * sizeof(uint16_t) * 2);
		ring[at][0] = (uint16_t)words;
	}
	for (int i = 0; i < 64; i++)
		free(ring[i]);
}

struct node {
	struct node *left, *right;
	long value;
};

static struct node *build(int depth)
{
	struct node *node = malloc(sizeof(*node));

	node->value = depth;
	node->left = depth ? build(depth - 1) : NULL;
	node->right = depth ? build(depth - 1) : NULL;
	return node;
}

static long fell(struct node *node)
{
	if (!node)
		return 0;
	long sum = node->value + fell(node->left) + fell(node->right);

	free(node);
	return sum;
}

static void tree(void)
{
	struct node *keep = build(20);
	long sum = 0;

	for (long i = 0; i < 40 * scale; i++)
		sum += fell(build(16));
	sum += fell(keep);
	if (!sum)
		abort();
}

static void strings(void)
{
	uint64_t seed = 11;
	enum { BUFFERS = 2000 };
	char *buffers[BUFFERS] = {0};
	size_t lengths[BUFFERS] = {0};

	for (long i = 0; i < 6000000 * scale; i++) {
		size_t at = next_random(&seed) % BUFFERS;
		size_t more = next_random(&seed) % 100;

		if (lengths[at] > 20000 && next_random(&seed) % 8 == 0) {
			free(buffers[at]);
			buffers[at] = NULL;
			lengths[at] = 0;
		}
		buffers[at] = realloc(buffers[at], lengths[at] + more + 1);
		memset(buffers[at] + lengths[at], 'x', more);
		lengths[at] += more;
	}
	for (int i = 0; i < BUFFERS; i++)
		free(buffers[i]);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} kinds[] = {
		{"server", server}, {"handover", handover}, {"batches", batches}, {"mixed", mixed},
		{"numbers", numbers}, {"tree", tree}, {"strings", strings},
	};
	const char *kind = argc > 1 ? argv[1] : "";

	if (argc > 2)
		threads = atoi(argv[2]);
	if (argc > 3)
		scale = atol(argv[3]);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, kind)) {
			double start = now_s(), start_cpu = cpu_s();
			struct rusage usage;

			kinds[i].run();
			getrusage(RUSAGE_SELF, &usage);
			printf("{\"wall_s\": %.4f, \"cpu_s\": %.4f, \"peak_mib\": %.1f}\n",
			       now_s() - start, cpu_s() - start_cpu,
			       (double)usage.ru_maxrss / 1024);
			return 0;
		}
	fprintf(stderr, "usage: loads server|handover|batches|mixed|numbers|tree|strings "
			"[threads] [scale]\n");
	return 2;
}
