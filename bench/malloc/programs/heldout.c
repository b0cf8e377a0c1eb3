/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loads that no allocator here was tuned for: written after the design had ended, and measured as
 * they were first written. Usage: heldout KIND. Prints a checksum.
 *
 *   lru     two threads, each the owner of a cache of values of 20 to 8,000 bytes with a list by
 *           last use; one value in four is handed to the other thread, which frees its oldest
 *   parser  documents like JSON are made as text, parsed into trees of nodes, strings and growing
 *           arrays, changed in places and freed; the last 16 stay
 *   graph   300,000 nodes whose vectors of edges grow by realloc; then half of the nodes lose
 *           their edges, and new ones are added to all
 */
#include "common.h"

struct value {
	struct value *chain, *newer, *older;
	uint64_t key;
	size_t bytes;
	char *data;
};

#define BUCKETS 32768
#define CACHE_BYTES (48u << 20)
#define PASSED 512

struct cache {
	struct value *buckets[BUCKETS], *newest, *oldest;
	size_t bytes;
	uint64_t hits;
	pthread_mutex_t lock;
	struct value *passed[PASSED];
	int count;
};
static struct cache caches[2];

static void unlink_value(struct cache *cache, struct value *value)
{
	*(value->newer ? &value->newer->older : &cache->newest) = value->older;
	*(value->older ? &value->older->newer : &cache->oldest) = value->newer;
}

static void make_newest(struct cache *cache, struct value *value)
{
	value->newer = NULL;
	value->older = cache->newest;
	*(cache->newest ? &cache->newest->newer : &cache->oldest) = value;
	cache->newest = value;
}

static struct value *find(struct cache *cache, uint64_t key)
{
	struct value *value = cache->buckets[key % BUCKETS];

	while (value && value->key != key)
		value = value->chain;
	return value;
}

static void drop_oldest(struct cache *cache)
{
	struct value *value = cache->oldest;
	struct value **at = &cache->buckets[value->key % BUCKETS];

	while (*at != value)
		at = &(*at)->chain;
	*at = value->chain;
	unlink_value(cache, value);
	cache->bytes -= value->bytes;
	free(value->data);
	free(value);
}

static void keep(struct cache *cache, struct value *value)
{
	if (find(cache, value->key)) {
		free(value->data);
		free(value);
		return;
	}
	value->chain = cache->buckets[value->key % BUCKETS];
	cache->buckets[value->key % BUCKETS] = value;
	make_newest(cache, value);
	cache->bytes += value->bytes;
	while (cache->bytes > CACHE_BYTES)
		drop_oldest(cache);
}

static struct value *make_value(uint64_t *seed, uint64_t key)
{
	struct value *value = malloc(sizeof(*value));

	value->key = key;
	value->bytes = log_uniform(seed, 4.3, 12.97);
	value->data = malloc(value->bytes);
	memset(value->data, (int)key, value->bytes);
	return value;
}

/* Gives a value to the other thread, or back to the caller if too many wait there. */
static struct value *pass(struct cache *to, struct value *value)
{
	pthread_mutex_lock(&to->lock);
	if (to->count < PASSED) {
		to->passed[to->count++] = value;
		value = NULL;
	}
	pthread_mutex_unlock(&to->lock);
	return value;
}

static void *serve_cache(void *argument)
{
	intptr_t number = (intptr_t)argument;
	struct cache *cache = &caches[number], *other = &caches[!number];
	struct value *taken[PASSED], *value;
	uint64_t seed = (uint64_t)number + 5;

	for (long i = 0; i < 1500000; i++) {
		/* Of two draws the lower: some keys are asked for more often. */
		uint64_t a = next_random(&seed) % 200000, b = next_random(&seed) % 200000;
		uint64_t key = a < b ? a : b;

		if ((value = find(cache, key))) {
			cache->hits++;
			unlink_value(cache, value);
			make_newest(cache, value);
		} else {
			value = make_value(&seed, key);
			if (key % 4 == 0)
				value = pass(other, value);
			if (value)
				keep(cache, value);
		}
		if (i % 64)
			continue;
		pthread_mutex_lock(&cache->lock);
		int count = cache->count;

		memcpy(taken, cache->passed, sizeof(*taken) * (size_t)count);
		cache->count = 0;
		pthread_mutex_unlock(&cache->lock);
		while (count)
			keep(cache, taken[--count]);
	}
	return NULL;
}

static uint64_t lru(void)
{
	pthread_t threads[2];

	for (intptr_t i = 0; i < 2; i++)
		pthread_mutex_init(&caches[i].lock, NULL);
	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, serve_cache, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	/* Who passes what when depends on the machine, and so do the hits. */
	return caches[0].hits > 0 && caches[1].hits > 0;
}

struct node {
	char kind, *text;
	double number;
	size_t count, room;
	struct node **items;
};

/* A text that grows by doubling. */
struct text {
	char *bytes;
	size_t count, room;
};

static void put(struct text *text, const char *bytes, size_t count)
{
	if (text->count + count > text->room) {
		text->room = (text->count + count) * 2;
		text->bytes = realloc(text->bytes, text->room);
	}
	memcpy(text->bytes + text->count, bytes, count);
	text->count += count;
}

static void write_document(struct text *text, uint64_t *seed, int depth)
{
	uint64_t what = next_random(seed) % 10;
	char word[64];

	if (depth > 0 && (what < 5 || depth > 4)) {
		put(text, "[", 1);
		for (uint64_t left = 1 + next_random(seed) % 12; left; left--) {
			write_document(text, seed, depth - 1);
			if (left > 1)
				put(text, ",", 1);
		}
		put(text, "]", 1);
	} else if (what < 8) {
		size_t bytes = 1 + next_random(seed) % 60;

		memset(word, 'a' + (int)(bytes % 26), bytes);
		put(text, "\"", 1);
		put(text, word, bytes);
		put(text, "\"", 1);
	} else {
		int bytes = snprintf(word, sizeof(word), "%llu",
				     (unsigned long long)(next_random(seed) % 1000000));

		put(text, word, (size_t)bytes);
	}
}

static struct node *parse(const char **at)
{
	struct node *node = calloc(1, sizeof(*node));

	node->kind = **at;
	if (**at == '[') {
		do {
			++*at;
			if (node->count == node->room) {
				node->room = node->room ? node->room * 2 : 2;
				node->items = realloc(node->items,
						      node->room * sizeof(*node->items));
			}
			node->items[node->count++] = parse(at);
		} while (**at == ',');
		++*at;
	} else if (**at == '"') {
		const char *end = strchr(*at + 1, '"');

		node->text = strndup(*at + 1, (size_t)(end - *at - 1));
		*at = end + 1;
	} else {
		node->number = strtod(*at, (char **)at);
	}
	return node;
}

static uint64_t free_tree(struct node *node)
{
	uint64_t sum = node->text ? strlen(node->text) : (uint64_t)node->number;

	for (size_t i = 0; i < node->count; i++)
		sum += free_tree(node->items[i]);
	free(node->items);
	free(node->text);
	free(node);
	return sum;
}

/* Every third text is replaced by a longer one. */
static void change(struct node *node, uint64_t *seed)
{
	if (node->text && next_random(seed) % 3 == 0) {
		size_t bytes = strlen(node->text);

		node->text = realloc(node->text, bytes * 2 + 1);
		memset(node->text + bytes, 'z', bytes);
		node->text[bytes * 2] = 0;
	}
	for (size_t i = 0; i < node->count; i++)
		change(node->items[i], seed);
}

static uint64_t parser(void)
{
	struct node *kept[16] = {NULL};
	uint64_t seed = 11, sum = 0;

	for (int i = 0; i < 400; i++) {
		struct text text = {NULL, 0, 0};
		const char *at;

		write_document(&text, &seed, 6);
		put(&text, "", 1);
		at = text.bytes;
		struct node *tree = parse(&at);

		free(text.bytes);
		change(tree, &seed);
		if (kept[i % 16])
			sum += free_tree(kept[i % 16]);
		kept[i % 16] = tree;
	}
	for (int i = 0; i < 16; i++)
		sum += free_tree(kept[i]);
	return sum;
}

#define NODES 300000
struct edges {
	uint32_t *to;
	uint32_t count, room;
};

static void connect_nodes(struct edges *nodes, uint64_t *seed, long edges)
{
	for (long i = 0; i < edges; i++) {
		/* The lower of two draws again: some nodes have many edges. */
		uint64_t a = next_random(seed) % NODES, b = next_random(seed) % NODES;
		struct edges *node = &nodes[a < b ? a : b];

		if (node->count == node->room) {
			node->room += node->room / 2 + 2;
			node->to = realloc(node->to, node->room * sizeof(*node->to));
		}
		node->to[node->count++] = (uint32_t)(a ^ b);
	}
}

static uint64_t graph(void)
{
	struct edges *nodes = calloc(NODES, sizeof(*nodes));
	uint64_t seed = 23, sum = 0;

	connect_nodes(nodes, &seed, 4000000);
	for (long i = 0; i < NODES; i++) {
		if (next_random(&seed) % 2 == 0)
			continue;
		free(nodes[i].to);
		memset(&nodes[i], 0, sizeof(nodes[i]));
	}
	connect_nodes(nodes, &seed, 4000000);
	for (long i = 0; i < NODES; i++) {
		for (uint32_t edge = 0; edge < nodes[i].count; edge++)
			sum += nodes[i].to[edge];
		free(nodes[i].to);
	}
	free(nodes);
	return sum;
}

int main(int count, char **arguments)
{
	const char *kind = count > 1 ? arguments[1] : "";
	uint64_t sum;

	if (!strcmp(kind, "lru")) {
		sum = lru();
	} else if (!strcmp(kind, "parser")) {
		sum = parser();
	} else if (!strcmp(kind, "graph")) {
		sum = graph();
	} else {
		fprintf(stderr, "usage: heldout lru|parser|graph\n");
		return 2;
	}
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
