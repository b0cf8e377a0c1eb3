/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Spans, slabs and restartable sequences of the design on trial: see owned.c. */
#ifndef AMPLE_OWNED_H
#define AMPLE_OWNED_H

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>

enum { SPAN_SHIFT = 16, SPAN = 1 << SPAN_SHIFT, SPANS = 1 << 20, WORDS = 64, CPUS = 64,
       CLASSES = 57, MAX_SMALL = 8192, LARGE = 255, BINS = 65, OBJECT_MIN = 16 };
#ifndef STACK
#define STACK 64
#endif

/* Sixty-four objects of a span. */
struct word {
	uint64_t bits;
	char *base;
	uint64_t full;
	uint64_t size;
};

/* One span; its number is that of its memory in the region. */
struct span {
	struct slab *owner;
	/* Words that may have a free object; 0 while the span is on no list. */
	uint64_t summary;
	uint32_t multiple, size;
	uint64_t reciprocal;
	struct span *next;
	_Atomic(struct span *) mail;
	_Atomic int queued;
	uint32_t class, words, objects, spans, listed;
	struct word word[WORDS] __attribute__((aligned(64)));
	_Atomic uint64_t remote[WORDS];
} __attribute__((aligned(4096)));

/* What belongs to one CPU: 64 KiB. The stacks hold what was freed here last, whoever owns it. */
struct slab {
	struct word *active[64];
	uint64_t top[64];
	struct span *current[64];
	struct span *available[64];
	_Atomic(struct span *) inbox;
	pthread_mutex_t lock;
	void *stack[64][64] __attribute__((aligned(4096)));
} __attribute__((aligned(65536)));

static struct word nothing;
static struct slab slabs[CPUS];
static char *region;
static struct span *table;
static uint8_t class_of_16[MAX_SMALL / 16 + 1];
static uint32_t bytes_of[CLASSES];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct span *pool, *bins[BINS];
static size_t used_spans;
static ptrdiff_t area;
/* Stands in where the kernel registers none (valgrind): one thread only. */
static __thread struct rseq pretended __attribute__((tls_model("initial-exec")));

static void begin(void)
{
	uint32_t class = 0;

	for (uint32_t bytes = 16; bytes <= MAX_SMALL; class++) {
		bytes_of[class] = bytes;
		uint32_t at = class ? bytes_of[class - 1] / 16 + 1 : 0;

		for (; at <= bytes / 16; at++)
			class_of_16[at] = (uint8_t)class;
		uint32_t step = bytes < 128 ? 16 : (1u << (31 - __builtin_clz(bytes))) / 8;
		bytes += step;
	}
	for (int cpu = 0; cpu < CPUS; cpu++) {
		pthread_mutex_init(&slabs[cpu].lock, NULL);
		for (int i = 0; i < 64; i++)
			slabs[cpu].active[i] = &nothing;
	}
	table = mmap(NULL, (size_t)SPANS * sizeof(struct span), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *memory = mmap(NULL, ((size_t)SPANS + 32) << SPAN_SHIFT, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	memory = (char *)(((uintptr_t)memory + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
	madvise(memory, (size_t)SPANS << SPAN_SHIFT, MADV_HUGEPAGE);
	area = __rseq_size ? __rseq_offset :
		(char *)&pretended - (char *)__builtin_thread_pointer();
	region = memory;
}

static inline uint32_t this_cpu(void)
{
	return ((struct rseq *)((char *)__builtin_thread_pointer() + area))->cpu_id;
}

/*
 * A restartable sequence: BODY runs from 1 to 2 and ends in the store that commits it; where the
 * thread is interrupted it begins again.
 */
#define SEQUENCE(BODY, ...)                                                                    \
	__asm__ goto(".pushsection __rseq_cs, \"aw\"\n.balign 32\n"                                \
		     "77: .long 0, 0\n.quad 1f, 2f - 1f, 4f\n.popsection\n"                        \
		     "3: lea 77b(%%rip), %%rax\nmov %%rax, %%fs:8(%[area])\n"                      \
		     "1:\n" BODY "2:\n"                                                            \
		     ".pushsection __rseq_failure, \"ax\"\n.byte 0x0f, 0xb9, 0x3d\n"               \
		     ".long 0x53053053\n4: jmp 3b\n.popsection\n" __VA_ARGS__)

/* Sets bits of a word, on the CPU of the slab only; false elsewhere. */
static int set_bits(uint32_t cpu, uint64_t *word, uint64_t bits, uint64_t *summary, uint64_t flag)
{
	SEQUENCE("cmp %[cpu], %%fs:4(%[area])\njne %l[elsewhere]\n"
		 "or %[flag], (%[summary])\nor %[bits], (%[word])\n", ""
		 : : [area] "r"(area), [cpu] "r"(cpu), [word] "r"(word), [bits] "r"(bits),
		   [summary] "r"(summary), [flag] "r"(flag) : "rax", "memory", "cc" : elsewhere);
	return 1;
elsewhere:
	return 0;
}

/* Clears the flag of a word that is empty, on the CPU of the slab; false elsewhere. */
static int clear_flag(uint32_t cpu, uint64_t *word, uint64_t *summary, uint64_t flag)
{
	SEQUENCE("cmp %[cpu], %%fs:4(%[area])\njne %l[elsewhere]\n"
		 "cmpq $0, (%[word])\njne 2f\nand %[flag], (%[summary])\n", ""
		 : : [area] "r"(area), [cpu] "r"(cpu), [word] "r"(word), [summary] "r"(summary),
		   [flag] "r"(~flag) : "rax", "memory", "cc" : elsewhere);
	return 1;
elsewhere:
	return 0;
}

/* Gives a span up, on the CPU of its owner: then nobody is inside a sequence on it. */
static int disown(uint32_t cpu, struct span *span)
{
	SEQUENCE("cmp %[cpu], %%fs:4(%[area])\njne %l[elsewhere]\nmovq $0, (%[owner])\n", ""
		 : : [area] "r"(area), [cpu] "r"(cpu), [owner] "r"(&span->owner)
		 : "rax", "memory", "cc" : elsewhere);
	return 1;
elsewhere:
	return 0;
}

#endif
