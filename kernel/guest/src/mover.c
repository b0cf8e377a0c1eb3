// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that is pinned while its pages move: everything written has to be there afterwards.
 *
 * usage: mover pinned MIB THREADS MOVES [stay|reset]
 *          threads add to words of pinned pages, a device to others, by physical address; stay: it
 *          does not let go of them; reset: the engine is reset all the time
 *        mover spread MIB OUT_OF
 *          pins of which one in OUT_OF stays, at random; says so in /tmp/spread, ends with
 *          /tmp/spread.over
 *        mover bad
 *          commands that are malformed, as the engine's table of codes has them
 * Prints one JSON object. exit: 0 all is as written, 1 something is not, 2 could not test
 */
#include "mover.h"
#include <sys/resource.h>

#define WORDS 256UL	/* of a half page */

struct adder {
	pthread_t thread;
	uint64_t *added, seed, many;
};

static void *add(void *arg)
{
	struct adder *a = arg;
	uint64_t state = a->seed;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		unsigned long page = drawn(&state) % pages;
		uint64_t *words = (uint64_t *)(buffer + page * PAGE);

		for (int n = 0; n < 64; n++) {
			unsigned long w = drawn(&state) % WORDS;

			__atomic_fetch_add(&words[w], 1, __ATOMIC_RELAXED);
			a->added[page * WORDS + w]++;
			a->many++;
		}
	}
	return NULL;
}

/* Drops whatever waits for the engine, again and again. */
static void *reset(void *arg)
{
	int fd = opened();

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		struct mover_write write = { .reg = 3, .value = 4 };

		if (ioctl(fd, MOVER_WRITE, &write) || write.status)
			die("mover: reset");
		++*(uint64_t *)arg;
	}
	close(fd);
	return NULL;
}

static int pinned(int argc, char **argv)
{
	unsigned long threads = strtoul(argv[3], NULL, 0), w;
	int resets = argc > 5 && !strcmp(argv[5], "reset");
	struct mover_pin pin = { .flags = argc > 5 && !resets ? MOVER_STAY : 0 };
	pthread_t resetter;
	struct adder adders[16] = { 0 };
	struct mover_sums sums;
	uint64_t wrong = 0, many = 0;
	int fd = opened();
	double from = seconds();

	if (resets)
		pthread_create(&resetter, NULL, reset, &many);
	if (!threads || threads > 16)
		return 2;
	allocate(argv[2]);
	wanted = strtoul(argv[4], NULL, 0);
	pin.address = (uintptr_t)buffer;
	pin.pages = pages;
	sums.words = (uintptr_t)calloc(pages * WORDS, 8);
	if (ioctl(fd, MOVER_PIN, &pin))
		die("mover: pin");
	for (unsigned long t = 0; t < threads; t++) {
		adders[t].added = calloc(pages * WORDS, 8);
		adders[t].seed = 88172645463325252ULL + t;
		pthread_create(&adders[t].thread, NULL, add, &adders[t]);
	}
	mover(NULL);
	if (resets)
		pthread_join(resetter, NULL);
	for (unsigned long t = 0; t < threads; t++) {
		pthread_join(adders[t].thread, NULL);
		many += adders[t].many;
	}
	if (ioctl(fd, MOVER_SUMS, &sums))
		die("mover: sums");
	for (w = 0; w < pages * WORDS; w++) {
		uint64_t *page = (uint64_t *)(buffer + w / WORDS * PAGE), sum = 0;

		for (unsigned long t = 0; t < threads; t++)
			sum += adders[t].added[w];
		wrong += page[w % WORDS] != sum;
		wrong += page[WORDS + w % WORDS] != ((uint64_t *)(uintptr_t)sums.words)[w];
	}
	close(fd);
	return report(seconds() - from, many + 64 * sums.bursts, wrong, sums.told);
}

enum { PIECE = 16 };	/* pages that one holder has */

/* Pins that come one after the other and go but for a few: what a region cannot shrink over. */
static int spread(char **argv)
{
	unsigned long out_of = strtoul(argv[3], NULL, 0), held = 0;
	struct rlimit files = { 1 << 16, 1 << 16 };
	uint64_t state = 5, wrong = 0;
	double from = seconds();
	int *fds;

	allocate(argv[2]);
	fds = calloc(pages / PIECE, sizeof(*fds));
	if (!out_of || setrlimit(RLIMIT_NOFILE, &files))
		die("mover: files");
	for (unsigned long p = 0; p < pages; p += PIECE)
		fds[p / PIECE] = opened();
	for (unsigned long p = 0; p < pages; p += PIECE) {
		struct mover_pin pin = {
			.address = (uintptr_t)buffer + p * PAGE, .pages = PIECE,
			.flags = MOVER_QUIET,
		};

		if (ioctl(fds[p / PIECE], MOVER_PIN, &pin))
			die("mover: pin");
	}
	for (unsigned long p = 0; p < pages; p += PIECE) {
		if (drawn(&state) % out_of) {
			close(fds[p / PIECE]);
			madvise(buffer + p * PAGE, PIECE * PAGE, MADV_DONTNEED);
			continue;
		}
		for (unsigned long i = p; i < p + PIECE; i++)
			fill((uint64_t *)(buffer + i * PAGE), i + 1);
		held += PIECE;
	}
	fclose(fopen("/tmp/spread", "w"));
	while (access("/tmp/spread.over", F_OK))
		usleep(50000);
	for (unsigned long p = 0; p < pages; p++)
		if (*(uint64_t *)(buffer + p * PAGE))
			wrong += differs((uint64_t *)(buffer + p * PAGE), p + 1);
	return report(seconds() - from, held, wrong, 0);
}

/* A register, a value, and the code that the doorbell's record has to have. */
static const struct { uint32_t reg, want; uint64_t value; } bad_writes[] = {
	{ 3, 0, 4 },			/* reset: nothing is written any more */
	{ 3, 16, 2 },			/* migrate what? */
	{ 0, 0, 0x1001 }, { 1, 0, 0x2000 }, { 2, 0, 1 }, { 3, 18, 2 },
	{ 3, 17, 99 },			/* no such doorbell, all registers written */
	{ 7, 17, 0 },			/* no such register */
	{ 0, 0, 0x1000 }, { 1, 0, 0x1000 }, { 3, 21, 2 },	/* to where it is */
	{ 1, 0, 1ULL << 46 }, { 3, 20, 1 },			/* beyond memory */
	{ 2, 0, ~0ULL }, { 3, 20, 1 },
	{ 1, 0, 0x3000 }, { 2, 0, 0 }, { 3, 21, 1 },		/* nothing */
	{ 2, 0, 1 }, { 3, 22, 3 },				/* clear what is not there */
};

static int bad(void)
{
	unsigned long wrong = 0, i;
	int fd = opened();

	for (i = 0; i < sizeof(bad_writes) / sizeof(*bad_writes); i++) {
		struct mover_write w = { .reg = bad_writes[i].reg, .value = bad_writes[i].value };

		if (ioctl(fd, MOVER_WRITE, &w))
			die("mover: write");
		if (w.reg >= 3 && w.status != bad_writes[i].want) {
			fprintf(stderr, "write %lu: code %u, not %u\n", i, w.status,
				bad_writes[i].want);
			wrong++;
		}
	}
	return report(0, i, wrong, 0);
}

int main(int argc, char **argv)
{
	if (argc >= 5 && !strcmp(argv[1], "pinned"))
		return pinned(argc, argv);
	if (argc == 4 && !strcmp(argv[1], "spread"))
		return spread(argv);
	if (argc == 2 && !strcmp(argv[1], "bad"))
		return bad();
	fprintf(stderr, "usage: mover pinned MIB THREADS MOVES [stay|reset] | spread MIB OUT_OF "
		"| bad\n");
	return 2;
}
