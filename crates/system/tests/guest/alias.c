/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mappings of plugin/alias.h under load: two threads count in pages that move under them, the
 * first by one name of a page while the second uses the other. Usage: alias FILE MOVES; the file is
 * the memory. Prints the mappings in use; 0: no count was lost.
 */
#include "alias.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { FRAMES = 64, PAGES = 24, THREADS = 2, SIZE = 4096, WORDS = SIZE / 8 };

static struct aliases memory;
/* By thread: which frame it takes each page to be in. */
static volatile uint64_t names[THREADS][PAGES];
static volatile uint64_t rounds[THREADS];
static volatile int over;
static uint64_t counted[THREADS];

static uint64_t *word_of(uint64_t frame, uint64_t word)
{
	return (uint64_t *)(memory.base + frame * SIZE) + word;
}

static void *count(void *number)
{
	uint64_t thread = (uint64_t)(uintptr_t)number;

	while (!over) {
		for (uint64_t page = 0; page < PAGES; page++) {
			uint64_t *at = word_of(names[thread][page], 0);

			/* One counter of both, and one of its own. */
			__atomic_fetch_add(at, 1, __ATOMIC_SEQ_CST);
			at[1 + thread]++;
			counted[thread]++;
		}
		__atomic_fetch_add(&rounds[thread], 1, __ATOMIC_SEQ_CST);
		sched_yield();
	}
	return NULL;
}

/* Waits until a thread uses no name that it has had before. */
static void look_again(int thread)
{
	uint64_t before = __atomic_load_n(&rounds[thread], __ATOMIC_SEQ_CST);

	while (__atomic_load_n(&rounds[thread], __ATOMIC_SEQ_CST) < before + 2)
		sched_yield();
}

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "alias: %s\n", what);
	exit(1);
}

static void move(uint64_t page, uint64_t to, int abort)
{
	uint64_t from = names[0][page], marked = WORDS - 1;

	*word_of(to, marked) = ~page;
	*word_of(from, marked) = page;
	must(!alias_do(&memory, ALIAS_BOTH, from * SIZE, to * SIZE, 1), "both");
	must(*word_of(to, marked) == page, "the destination shows the source");
	names[0][page] = to;
	look_again(0);
	if (abort) {
		names[0][page] = from;
		look_again(0);
		must(!alias_do(&memory, ALIAS_UNDO, from * SIZE, to * SIZE, 1), "undo");
		must(*word_of(to, marked) == ~page, "the destination is as before");
		return;
	}
	names[1][page] = to;
	look_again(1);
	must(!alias_do(&memory, ALIAS_SETTLE, from * SIZE, to * SIZE, 1), "settle");
	must(*word_of(from, marked) == ~page && *word_of(to, marked) == page, "settled");
}

static int free_frame(uint64_t random)
{
	for (uint64_t i = 0;; i++) {
		uint64_t frame = (random + i) % FRAMES, page = 0;

		while (page < PAGES && names[0][page] != frame)
			page++;
		if (page == PAGES)
			return (int)frame;
	}
}

static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int lines = 0, c;

	while (maps && (c = fgetc(maps)) != EOF)
		lines += c == '\n';
	return lines;
}

static void refused(void)
{
	must(alias_do(&memory, ALIAS_BOTH, 0, 0, 1) == -EINVAL, "a page onto itself");
	must(alias_do(&memory, ALIAS_BOTH, 0, SIZE, 2) == -EINVAL, "ranges that overlap");
	must(alias_do(&memory, ALIAS_BOTH, 64, SIZE, 1) == -EINVAL, "no page's address");
	must(alias_do(&memory, ALIAS_BOTH, 0, FRAMES / 2 * SIZE, 1) == -EINVAL, "a hole");
	must(alias_do(&memory, ALIAS_BOTH, 0, ~0ull << 12, 1) == -EINVAL, "beyond the end");
	must(alias_do(&memory, 9, 0, SIZE, 1) == -EINVAL, "no operation");
}

/* Half of memory lies at 4 GiB; a run of pages there and back is one mapping again. */
static void high(void)
{
	uint64_t from = (FRAMES / 2 - 8) * SIZE, to = (1ull << 32) + 16 * SIZE;
	int before = mappings();

	for (int i = 0; i < 4; i++)
		*word_of(FRAMES / 2 - 8 + i, 9) = 100 + i;
	must(!alias_do(&memory, ALIAS_BOTH, from, to, 4), "both, high");
	must(mappings() <= before + 2, "a run of pages is one mapping");
	must(*word_of(FRAMES / 2 + 16 + 3, 9) == 103, "the high name");
	must(!alias_do(&memory, ALIAS_SETTLE, from, to, 4), "settle, high");
	must(!alias_do(&memory, ALIAS_BOTH, to, from, 4), "back");
	must(!alias_do(&memory, ALIAS_SETTLE, to, from, 4), "settle, back");
	must(*word_of(FRAMES / 2 - 8 + 3, 9) == 103, "the low name");
	must(mappings() == before, "what lies in order again is one mapping again");
}

int main(int count_of_words, char **words)
{
	int file = count_of_words == 3 ? open(words[1], O_RDWR) : -1, most = 0;
	uint64_t random = 1, total = 0, sums[3] = { 0, 0, 0 };
	pthread_t threads[THREADS];
	char *base;

	must(file >= 0 && ftruncate(file, FRAMES * SIZE) == 0, "usage: alias FILE MOVES");
	base = mmap(NULL, FRAMES * SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	must(mapping_of(words[1], FRAMES * SIZE) == base, "the mapping is found");
	must(mapping_of(words[1], SIZE) == NULL, "the mapping of another size is not");
	must(!alias_begin(&memory, file, base, FRAMES * SIZE, FRAMES / 2 * SIZE), "begin");
	refused();
	high();
	/* From here on physical addresses have no hole. */
	memory.low = FRAMES * SIZE;
	for (uint64_t i = 0; i < PAGES; i++)
		names[0][i] = names[1][i] = i;
	for (uint64_t i = 0; i < THREADS; i++)
		must(!pthread_create(&threads[i], NULL, count, (void *)(uintptr_t)i), "a thread");
	for (int i = atoi(words[2]); i > 0; i--) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		move((random >> 33) % PAGES, free_frame(random >> 40), i % 4 == 0);
	}
	over = 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		total += counted[i];
	}
	most = mappings();
	for (uint64_t page = 0; page < PAGES; page++)
		for (int i = 0; i < 3; i++)
			sums[i] += *word_of(names[0][page], i);
	must(sums[0] == total, "a count of both is lost");
	must(sums[1] == counted[0] && sums[2] == counted[1], "a count is lost");
	printf("%d mappings, %" PRIu64 " counts\n", most, total);
	return 0;
}
