/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A design on trial, not an allocator to use: pages owned by a CPU. It answers what such a design
 * would gain before the shipped allocator is rebuilt (`malloc-owned` in results/use.md).
 *
 * A span of 64 KiB holds objects of one class and belongs to one CPU. Its free objects are the set
 * bits of words beside it: no batches, no shared list. On the CPU that owns the span a restartable
 * sequence takes the lowest bit of the active word (malloc) or sets a bit (free), each with one
 * store. What another CPU frees is set by an atomic operation in a second row of words, and the
 * first such free sends the span to the owner's inbox. A span whose words are all full goes back to
 * the pool, for any class and CPU.
 *
 * In front of the spans each CPU has a stack of STACK objects for each class, whoever owns their
 * spans: what was freed last is handed out first. With -DSTACK=0 there is none.
 *
 * What is left out: giving memory back, fork, checks beyond the place of an object in its span,
 * samples, spans of CPUs that are idle. All of it costs time in the shipped allocator, so what this
 * one takes is the least that the design can take.
 */
#include "owned.h"

static struct span *take_span(void)
{
	pthread_mutex_lock(&pool_lock);
	struct span *span = pool;

	if (span)
		pool = span->next;
	else if (used_spans < SPANS)
		span = &table[used_spans++];
	pthread_mutex_unlock(&pool_lock);
	return span;
}

static void dress(struct span *span, struct slab *slab, uint32_t class)
{
	uint32_t size = bytes_of[class];
	char *base = region + ((size_t)(span - table) << SPAN_SHIFT);

	span->size = size;
	span->class = class;
	span->multiple = UINT32_MAX / size + 1;
	span->reciprocal = (1ull << 32) / size + 1;
	span->objects = SPAN / size;
	span->words = (span->objects + 63) / 64;
	for (uint32_t i = 0; i < span->words; i++) {
		uint32_t left = span->objects - 64 * i;
		uint64_t full = left >= 64 ? UINT64_MAX : (1ull << left) - 1;

		span->word[i] = (struct word){full, base + (size_t)i * 64 * size, full, size};
	}
	span->summary = span->words == 64 ? UINT64_MAX : (1ull << span->words) - 1;
	span->listed = 0;
	__atomic_store_n(&span->owner, slab, __ATOMIC_RELEASE);
}

/* Puts a span on the list of its class. The caller holds the lock of its owner. */
static void list(struct slab *slab, struct span *span)
{
	if (span->listed || slab->current[span->class] == span)
		return;
	span->listed = 1;
	span->next = slab->available[span->class];
	slab->available[span->class] = span;
}

static void unlist(struct slab *slab, struct span *span)
{
	struct span **at = &slab->available[span->class];

	while (*at && *at != span)
		at = &(*at)->next;
	if (*at)
		*at = span->next;
	span->listed = 0;
}

/* Sends a span to its owner's inbox. */
static void send(struct span *span, struct slab *owner)
{
	struct span *head = atomic_load(&owner->inbox);

	do
		atomic_store(&span->mail, head);
	while (!atomic_compare_exchange_weak(&owner->inbox, &head, span));
}

/* Takes what other CPUs freed into the words of the owner; false off that CPU. */
static int collect(uint32_t cpu, struct slab *slab)
{
	struct span *span = atomic_exchange(&slab->inbox, NULL), *next;

	for (; span; span = next) {
		struct slab *owner = __atomic_load_n(&span->owner, __ATOMIC_ACQUIRE);

		next = atomic_load(&span->mail);
		/* A late message of a span that was given back, and has another owner by now. */
		if (owner && owner != slab) {
			send(span, owner);
			continue;
		}
		atomic_store(&span->queued, 0);
		for (uint32_t i = 0; owner && i < span->words; i++) {
			uint64_t bits = atomic_exchange(&span->remote[i], 0);

			if (!bits || set_bits(cpu, &span->word[i].bits, bits, &span->summary,
					      1ull << i))
				continue;
			/* Off the CPU: back into the inbox, with all that follow. */
			atomic_fetch_or(&span->remote[i], bits);
			if (!atomic_exchange(&span->queued, 1))
				send(span, slab);
			for (span = next; span; span = next) {
				next = atomic_load(&span->mail);
				send(span, slab);
			}
			return 0;
		}
		if (owner)
			list(slab, span);
	}
	return 1;
}

/* Makes the next word with a free object the active one; 0 off the CPU, -1 without memory. */
static int advance(uint32_t cpu, struct slab *slab, uint32_t class)
{
	for (;;) {
		struct span *span = slab->current[class];

		while (span && span->summary) {
			uint32_t at = (uint32_t)__builtin_ctzll(span->summary);

			if (__atomic_load_n(&span->word[at].bits, __ATOMIC_RELAXED)) {
				slab->active[class] = &span->word[at];
				return 1;
			}
			if (!clear_flag(cpu, &span->word[at].bits, &span->summary, 1ull << at))
				return 0;
		}
		if (!slab->available[class] && atomic_load(&slab->inbox) && !collect(cpu, slab))
			return 0;
		span = slab->available[class];
		if (span) {
			slab->available[class] = span->next;
			span->listed = 0;
		} else {
			span = take_span();
			if (!span)
				return -1;
			dress(span, slab, class);
		}
		slab->current[class] = span;
	}
}

/* The last object freed here, or the lowest of the active word; NULL without either. */
static inline void *pop(size_t class)
{
	char *object;

	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n.balign 32\n"
		"77: .long 0, 0\n.quad 1f, 2f - 1f, 4f\n.popsection\n"
		"3: lea 77b(%%rip), %%rax\nmov %%rax, %%fs:8(%[area])\n"
		"1: mov %%fs:4(%[area]), %%eax\nshl $16, %%rax\n"
		"add %[slabs], %%rax\n"
#if STACK
		"mov 512(%%rax,%[class],8), %%rdx\ntest %%rdx, %%rdx\nje 5f\n"
		"mov %[class], %[object]\nshl $9, %[object]\nadd %%rax, %[object]\n"
		"mov 4096-8(%[object],%%rdx,8), %[object]\n"
		"dec %%rdx\nmov %%rdx, 512(%%rax,%[class],8)\njmp 2f\n"
#endif
		"5: mov (%%rax,%[class],8), %%rax\n"
		"mov (%%rax), %[object]\ntest %[object], %[object]\nje 2f\n"
		"lea -1(%[object]), %%rdx\nand %[object], %%rdx\nrep bsf %[object], %[object]\n"
		"imul 24(%%rax), %[object]\nadd 8(%%rax), %[object]\n"
		"mov %%rdx, (%%rax)\n2:\n"
		".pushsection __rseq_failure, \"ax\"\n.byte 0x0f, 0xb9, 0x3d\n"
		".long 0x53053053\n4: jmp 3b\n.popsection\n"
		: [object] "=&r"(object) : [area] "r"(area), [class] "r"(class),
		  [slabs] "r"(slabs) : "rax", "rdx", "memory", "cc");
	return object;
}

static void *small_slow(uint32_t class)
{
	for (;;) {
		void *object = pop(class);

		if (object)
			return object;
		uint32_t cpu = this_cpu();

		pthread_mutex_lock(&slabs[cpu].lock);
		int done = advance(cpu, &slabs[cpu], class);

		pthread_mutex_unlock(&slabs[cpu].lock);
		if (done < 0)
			return NULL;
	}
}

static void *large(size_t bytes)
{
	size_t spans = (bytes + SPAN - 1) >> SPAN_SHIFT;
	struct span *span = NULL;

	pthread_mutex_lock(&pool_lock);
	if (spans < BINS && bins[spans]) {
		span = bins[spans];
		bins[spans] = span->next;
	} else if (used_spans + spans <= SPANS) {
		span = &table[used_spans];
		used_spans += spans;
	}
	pthread_mutex_unlock(&pool_lock);
	if (!span)
		return NULL;
	span->class = LARGE;
	span->size = 0;
	span->spans = (uint32_t)spans;
	return region + ((size_t)(span - table) << SPAN_SHIFT);
}

static inline struct span *span_of(void *object)
{
	return &table[(size_t)((char *)object - region) >> SPAN_SHIFT];
}

/* Frees an object on a CPU that does not own its span: a message to the owner. */
static void free_remote(struct span *span, struct slab *slab, uint32_t index)
{
	atomic_fetch_or(&span->remote[index >> 6], 1ull << (index & 63));
	if (atomic_load(&span->queued) || atomic_exchange(&span->queued, 1))
		return;
	send(span, slab);
}

/* The first free object of a span that had none: it is listed before the bit is set. */
static void free_first(struct span *span, struct slab *slab, uint32_t index)
{
	uint32_t cpu = (uint32_t)(slab - slabs);

	pthread_mutex_lock(&slab->lock);
	int done = set_bits(cpu, &span->word[index >> 6].bits, 1ull << (index & 63),
			    &span->summary, 1ull << (index >> 6));
	if (done)
		list(slab, span);
	pthread_mutex_unlock(&slab->lock);
	if (!done)
		free_remote(span, slab, index);
}

static int is_empty(const struct span *span)
{
	for (uint32_t i = 0; i < span->words; i++)
		if (__atomic_load_n(&span->word[i].bits, __ATOMIC_RELAXED) != span->word[i].full)
			return 0;
	return 1;
}

/* A word is full: gives the span back if all are, and no word of it is the active one. */
static void retire(struct span *span, struct slab *slab)
{
	uint32_t cpu = (uint32_t)(slab - slabs);

	if (!is_empty(span))
		return;
	pthread_mutex_lock(&slab->lock);
	if (span->owner == slab && slab->current[span->class] != span && is_empty(span) &&
	    !atomic_load(&span->queued) && disown(cpu, span)) {
		if (is_empty(span) && !atomic_load(&span->queued)) {
			unlist(slab, span);
			pthread_mutex_lock(&pool_lock);
			span->next = pool;
			pool = span;
			pthread_mutex_unlock(&pool_lock);
		} else {
			__atomic_store_n(&span->owner, slab, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&slab->lock);
}

static void free_large(struct span *span)
{
	if (span->class != LARGE)
		__builtin_trap();
	pthread_mutex_lock(&pool_lock);
	if (span->spans < BINS) {
		span->next = bins[span->spans];
		bins[span->spans] = span;
	} else {
		madvise(region + ((size_t)(span - table) << SPAN_SHIFT),
			(size_t)span->spans << SPAN_SHIFT, MADV_DONTNEED);
	}
	pthread_mutex_unlock(&pool_lock);
}

static __attribute__((noinline)) void free_slow(struct span *span, uint32_t index)
{
	struct slab *slab = __atomic_load_n(&span->owner, __ATOMIC_ACQUIRE);

	if (slab == &slabs[this_cpu()] && !span->summary)
		free_first(span, slab, index);
	else if (slab)
		free_remote(span, slab, index);
	else
		__builtin_trap();
}

void free(void *object)
{
	size_t number = (size_t)((char *)object - region) >> SPAN_SHIFT;

	if (number >= SPANS || !region)
		return;
	struct span *span = &table[number];
	uint32_t offset = (uint32_t)(uintptr_t)object & (SPAN - 1);

	if (offset * span->multiple >= span->multiple) {
		free_large(span);
		return;
	}
#if STACK
	SEQUENCE("mov %%fs:4(%[area]), %%eax\nshl $16, %%rax\nadd %[slabs], %%rax\n"
		 "mov 512(%%rax,%[class],8), %%rcx\ncmp %[most], %%rcx\nje %l[full]\n"
		 "mov %[class], %%rdx\nshl $9, %%rdx\nadd %%rax, %%rdx\n"
		 "mov %[object], 4096(%%rdx,%%rcx,8)\ninc %%rcx\n"
		 "mov %%rcx, 512(%%rax,%[class],8)\n", ""
		 : : [area] "r"(area), [slabs] "r"(slabs), [class] "r"((uint64_t)span->class),
		   [object] "r"(object), [most] "i"(STACK)
		 : "rax", "rcx", "rdx", "memory", "cc" : full);
	return;
full:;
#endif
	uint32_t index = (uint32_t)(offset * span->reciprocal >> 32);
	struct word *word = &span->word[index >> 6];

	SEQUENCE("mov %%fs:4(%[area]), %%eax\nshl $16, %%rax\nadd %[slabs], %%rax\n"
		 "cmp %%rax, (%[span])\njne %l[slow]\n"
		 "mov (%[word]), %%rcx\nbts %[index], %%rcx\njc %l[twice]\n"
		 "cmpq $0, 8(%[span])\nje %l[slow]\n"
		 "or %[flag], 8(%[span])\nmov %%rcx, (%[word])\n",
		 "cmp %%rcx, 16(%[word])\njne %l[done]\n"
		 : : [area] "r"(area), [slabs] "r"(slabs), [span] "r"(span), [word] "r"(word),
		   [index] "r"((uint64_t)index), [flag] "r"(1ull << (index >> 6))
		 : "rax", "rcx", "memory", "cc" : slow, twice, done);
	struct slab *slab = __atomic_load_n(&span->owner, __ATOMIC_RELAXED);

	if (slab && slab->current[span->class] != span)
		retire(span, slab);
done:
	return;
slow:
	free_slow(span, index);
	return;
twice:
	__builtin_trap();
}

static __attribute__((noinline)) void *malloc_slow(size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin);
	void *object = bytes <= MAX_SMALL ? small_slow(class_of_16[(bytes + 15) / 16]) :
					   large(bytes);

	if (!object)
		errno = ENOMEM;
	return object;
}

void *malloc(size_t bytes)
{
	if (bytes <= MAX_SMALL && area) {
		void *object = pop(class_of_16[(bytes + 15) / 16]);

		if (object)
			return object;
	}
	return malloc_slow(bytes);
}

size_t malloc_usable_size(void *object)
{
	struct span *span = span_of(object);

	return !object ? 0 : span->class == LARGE ? (size_t)span->spans << SPAN_SHIFT : span->size;
}

void *calloc(size_t count, size_t bytes)
{
	void *object = malloc(count * bytes);

	return object ? memset(object, 0, count * bytes) : NULL;
}

void *realloc(void *object, size_t bytes)
{
	size_t old = malloc_usable_size(object);

	if (object && bytes <= old && bytes >= old / 2)
		return object;
	void *new = malloc(object && bytes > old && old >= 128 && bytes < old + old / 4 ?
			   old + old / 4 : bytes);

	if (object && new) {
		memcpy(new, object, old < bytes ? old : bytes);
		free(object);
	}
	return new;
}

void *aligned_alloc(size_t align, size_t bytes)
{
	if (align <= OBJECT_MIN)
		return malloc(bytes);
	return align <= SPAN ? large(bytes) : NULL;
}

void *memalign(size_t align, size_t bytes)
{
	return aligned_alloc(align, bytes);
}

int posix_memalign(void **object, size_t align, size_t bytes)
{
	*object = aligned_alloc(align, bytes);
	return *object ? 0 : ENOMEM;
}
