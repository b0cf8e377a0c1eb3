/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A CPU, its ring of words and how these are written; crates/system/src/ring.rs reads them. */
#ifndef AMPLE_RING_H
#define AMPLE_RING_H

#include "qemu.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Words of a ring: kinds in bits 59 and 60, of control words the operation in bits 48 to 55. */
enum { KIND_LOAD, KIND_STORE, KIND_FETCH, KIND_CONTROL };
enum {
	OP_BEGIN = 1,		/* value of the marker, CR3, instructions so far */
	OP_END,			/* value of the marker, instructions so far */
	OP_POINT,		/* value of the marker */
	OP_CR3,			/* CR3 */
	OP_INVLPG,		/* in the word: the address */
	OP_FLUSH,		/* all translations: CR0 or CR4 was written */
	OP_INTERRUPT,		/* in the word: the vector */
	OP_RETURN,		/* from an interrupt */
	OP_MAPPING,		/* in the word: address, pairs (bits 56 to 58); pairs, line */
	OP_GAP,			/* in the word: instructions without access */
	OP_REFUSED,		/* in the word: which REFUSED_ */
	OP_STATS,		/* instructions, mismatches, unmapped, compared */
	OP_TURN,		/* in the word: number of the turn that begins with it */
};
enum { REFUSED_LA57 = 1, REFUSED_NO_LONG_MODE, REFUSED_INVPCID, REFUSED_VIRTUAL };
enum { RING_VERSION = 2, PUBLISH = 1024, LONGEST = 32 };
#define RING_MAGIC 0x31474e4952504d41ull	/* "AMPRING1" */
#define VA_MASK 0x0000ffffffffffffull

struct ring {
	uint64_t magic, version, words, spare[5];
	volatile uint64_t head, head_check, gap[6];
	volatile uint64_t tail, tail_check, gap2[6];
	volatile uint64_t stop;
};

enum { PAGES = 1 << 14, LARGES = 1 << 10 };

/* A translation that the ring has told. */
struct known {
	uint64_t page;		/* address >> 12 (>> 21 where large), plus one */
	uint64_t epoch;
	uint64_t entry;		/* frame of the 4 KB page; WRITE of all levels, GLOBAL */
};

struct vcpu {
	int recording;
	unsigned int index;
	void *emulated;		/* QEMU's own name of it */
	uint64_t *count;	/* instructions so far, kept by QEMU */
	uint64_t last;		/* count at the last access */
	uint64_t line;		/* line of the last fetch */
	uint64_t cr3;
	uint64_t epoch[2];	/* of entries that are not global, and that are */
	uint64_t clock;
	uint64_t *data, mask;
	uint64_t head, limit;
	uint64_t whole;	/* where the last whole record ends */
	struct ring *ring;
	uint64_t mismatches, unmapped, compared;
	struct known pages[PAGES], larges[LARGES];
};

static struct vcpu *vcpus[CPUS];
static struct qemu_plugin_scoreboard *counts;
static const char *directory;
static uint8_t *ram;
static uint64_t ram_bytes, low_bytes;
static int verify, watching;
static struct vcpu *in_turn;	/* whose words are written now */
static uint64_t turns;
static plugin_id own_id;
static pid_t parent;

static void publish(struct vcpu *v)
{
	uint64_t whole = v->whole;

	/* Stores stay in order on the hosts that this runs on; the compiler must not change it. */
	__atomic_store_n(&v->ring->head, whole, __ATOMIC_RELEASE);
	__atomic_store_n(&v->ring->head_check, ~whole, __ATOMIC_RELEASE);
}

/* Nobody would ever take what waits, nor end the guest. */
static void end_with_reader(void)
{
	if (getppid() == parent)
		return;
	fprintf(stderr, "ample_system: the reader has died, and the guest ends with it\n");
	exit(1);
}

/* Room for the longest record, or the end of recording. */
static void advance(struct vcpu *v)
{
	const struct timespec pause = { .tv_nsec = 20000 };
	uint64_t words = v->mask + 1, tail;

	v->whole = v->head;
	publish(v);
	for (;;) {
		tail = __atomic_load_n(&v->ring->tail, __ATOMIC_ACQUIRE);
		end_with_reader();
		if (v->ring->stop) {
			v->recording = 0;
			tail = v->head;
			break;
		}
		if (~tail == v->ring->tail_check && v->head + LONGEST - tail < words)
			break;
		nanosleep(&pause, NULL);
	}
	v->limit = tail + words - LONGEST;
	if (v->limit > v->head + PUBLISH)
		v->limit = v->head + PUBLISH;
}

static inline void word(struct vcpu *v, uint64_t word)
{
	v->data[v->head++ & v->mask] = word;
}

/* Ends a record: of one word or, with LONGEST kept free behind the limit, of more. */
static inline void ended(struct vcpu *v)
{
	v->whole = v->head;
	if (v->head >= v->limit)
		advance(v);
}

static inline uint64_t control(int op, uint64_t payload)
{
	return (uint64_t)KIND_CONTROL << 59 | (uint64_t)op << 48 | (payload & VA_MASK);
}

static __attribute__((noinline)) void next_turn(struct vcpu *v)
{
	if (in_turn)
		publish(in_turn);
	in_turn = v;
	word(v, control(OP_TURN, ++turns));
	ended(v);
}

/*
 * CPUs take turns in one thread (-icount), and a turn begins with a word of its number: by these
 * the reader puts the rings in order. All words of earlier turns are published before it, so that
 * who sees turn N + 1 can see all of turn N. Comes before each record.
 *
 * A full ring cannot stop both sides. Who waits for room has published its own words (advance), and
 * those of the other rings were published before: the reader can see all that was written, and
 * needs no more to go on. In any turn it finds words or, behind them, the next turn's number, until
 * it is at the turn that waits and takes words out of the full ring.
 */
static inline void take_turn(struct vcpu *v)
{
	if (in_turn != v)
		next_turn(v);
}

static void event(struct vcpu *v, int op, uint64_t payload, int words, const uint64_t *more)
{
	take_turn(v);
	word(v, control(op, payload));
	for (int i = 0; i < words; i++)
		word(v, more[i]);
	ended(v);
}

#endif
